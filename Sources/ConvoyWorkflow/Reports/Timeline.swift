import ConvoyOperations
import ConvoyTransport
import Foundation

/// The page of `--timeline`: the graph of the requests, and a waterfall of their phases.
///
/// The page is a single HTML file without external resources. It is readable without JavaScript, which adds a search
/// field.
extension WorkflowResult {
    /// Returns the page as HTML.
    ///
    /// - Parameter workflow: The workflow that was run, with ``WorkflowRun/Options/collectsMetrics``.
    public func timeline(of workflow: Workflow) -> String {
        let total = max(seconds, 0.001)
        var rows = ""
        for outcome in outcomes { rows += row(outcome, total) }
        let counts = [
            ("succeeded", outcomes.count { $0.isSuccess }), ("failed", failures.count),
            ("skipped", outcomes.count { $0.state == .skipped }),
        ].map { "\($0.1) \($0.0)" }.joined(separator: ", ")
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(Markup.escaped(workflow.name))</title>
            <style>\(Self.style)</style>
            </head>
            <body>
            <h1>\(Markup.escaped(workflow.name))</h1>
            <p>\(counts), in \(Self.text(seconds)). Started \(Markup.escaped(began.formatted(.iso8601))).</p>
            <h2>Graph</h2>
            <div class="scroll">\(WorkflowDrawing(workflow.plan, outcomes).svg)</div>
            <h2>Waterfall</h2>
            <p class="legend">\(Phase.allCases.map { "<span><i class=\"\($0.rawValue)\"></i> \($0.title)</span>" }.joined(separator: " "))</p>
            <p id="search" hidden><label>Search <input type="search" autocomplete="off"></label></p>
            <div class="rows">
            \(rows)</div>
            <script>\(Self.script)</script>
            </body>
            </html>

            """
    }

    private enum Phase: String, CaseIterable {
        case dependencies, slot, retry, connect, wait, body

        var title: String {
            switch self {
            case .dependencies: "waiting for dependencies"
            case .slot: "waiting for a slot"
            case .retry: "between requests"
            case .connect: "connecting"
            case .wait: "waiting for the first byte"
            case .body: "body"
            }
        }
    }

    private struct Bar {
        var phase: Phase
        /// The time since the run started, in seconds.
        var start: Double
        var end: Double
    }

    private func bars(of outcome: RequestOutcome) -> [Bar] {
        var bars: [Bar] = []
        guard let ready = outcome.ready?.timeIntervalSince(began) else { return [] }
        if ready > 0 { bars.append(Bar(phase: .dependencies, start: 0, end: ready)) }
        guard let start = outcome.began?.timeIntervalSince(began) else { return bars }
        var last = max(ready, 0), isFirst = true
        for metrics in outcome.metrics.flatMap(\.transactions) {
            let base = metrics.startDate.timeIntervalSince(began)
            if base > last { bars.append(Bar(phase: isFirst ? .slot : .retry, start: last, end: base)) }
            let connected = metrics.isReusedConnection ? 0 : metrics.secured ?? metrics.connected ?? 0
            let first = max(metrics.firstByte ?? metrics.duration, connected)
            if connected > 0 { bars.append(Bar(phase: .connect, start: base, end: base + connected)) }
            bars.append(Bar(phase: .wait, start: base + connected, end: base + first))
            bars.append(Bar(phase: .body, start: base + first, end: base + max(metrics.duration, first)))
            last = base + max(metrics.duration, first)
            isFirst = false
        }
        if isFirst { bars.append(Bar(phase: .slot, start: start, end: start + outcome.seconds)) }
        return bars
    }

    private func row(_ outcome: RequestOutcome, _ total: Double) -> String {
        let bars = bars(of: outcome).map { bar in
            let left = min(max(bar.start / total, 0), 1) * 100, width = min(max((bar.end - bar.start) / total, 0), 1) * 100
            return String(
                format: "<b class=\"%@\" style=\"left:%.3f%%;width:max(1px,%.3f%%)\" title=\"%@ %@\"></b>",
                bar.phase.rawValue, left,
                min(width, 100 - left), bar.phase.title, Self.text(bar.end - bar.start))
        }.joined()
        var facts = [outcome.state.rawValue]
        if let status = outcome.status { facts.append("\(status)") }
        if outcome.began != nil { facts.append(Self.text(outcome.seconds)) }
        if outcome.requestCount > 1 { facts.append("\(outcome.requestCount) requests") }
        if outcome.retryCount > 0 { facts.append(outcome.retryCount == 1 ? "1 retry" : "\(outcome.retryCount) retries") }
        var details = ""
        if let url = outcome.url {
            details += "<div class=\"url\">\(Markup.escaped("\(outcome.method ?? "GET") \(url)"))</div>"
        }
        for failure in outcome.failures { details += "<div class=\"failure\">\(Markup.escaped(failure))</div>" }
        return """
            <div class="row \(outcome.state.rawValue)">
            <div class="name"><strong>\(Markup.escaped(outcome.name))</strong> <span>\(Markup.escaped(facts.joined(separator: ", ")))</span></div>
            <div class="track">\(bars)</div>
            \(details)
            </div>

            """
    }

    private static func text(_ seconds: Double) -> String {
        seconds < 1 ? String(format: "%.0f ms", seconds * 1000) : String(format: "%.2f s", seconds)
    }

    private static let style = """
        :root{color-scheme:light dark;--line:#d0d7de;--text:#1f2328;--soft:#59636e;--page:#fff;--bad:#c22;--good:#1a7f37}
        @media (prefers-color-scheme:dark){:root{--line:#3d444d;--text:#e6edf3;--soft:#9aa4af;--page:#12161b;--bad:#ff7b72;--good:#57ab5a}}
        *{box-sizing:border-box}
        body{margin:0 auto;padding:1rem;max-width:100rem;background:var(--page);color:var(--text);font:15px/1.45 system-ui,sans-serif}
        h1{font-size:1.3rem;overflow-wrap:anywhere}h2{font-size:1.05rem;margin-top:1.5rem}
        .scroll{overflow-x:auto}svg text{fill:var(--text);font:13px system-ui,sans-serif}
        svg rect{fill:var(--page);stroke:var(--soft)}svg .failed rect{stroke:var(--bad);stroke-width:2}
        svg .succeeded rect,svg .kept rect{stroke:var(--good)}svg .skipped rect{stroke-dasharray:4 3}
        svg path{fill:none;stroke:var(--soft)}
        .legend span{margin-right:1rem;white-space:nowrap}.legend i{display:inline-block;width:.8em;height:.8em}
        .row{border-top:1px solid var(--line);padding:.4rem 0}
        .name span,.url{color:var(--soft)}.name,.url,.failure{overflow-wrap:anywhere}
        .failure{white-space:pre-wrap}.row.failed strong,.failure{color:var(--bad)}.url,.failure{font-size:.85rem}
        .track{position:relative;height:14px;margin:.2rem 0;background:color-mix(in srgb,var(--line) 35%,transparent)}
        .track b{position:absolute;top:0;height:14px}
        .dependencies{background:#8c959f66}.slot{background:#8c959f}.retry{background:#bf8700}
        .connect{background:#8250df}.wait{background:#2da44e}.body{background:#0969da}
        input{font:inherit;max-width:100%}
        """

    private static let script = """
        (function(){var p=document.getElementById('search'),i=p.querySelector('input');p.hidden=false;
        i.addEventListener('input',function(){var t=i.value.toLowerCase();
        document.querySelectorAll('.row').forEach(function(r){r.hidden=r.textContent.toLowerCase().indexOf(t)<0;});});})();
        """
}

/// The graph of a workflow as a drawing. Each column contains requests that can run concurrently.
struct WorkflowDrawing {
    private static let (rowHeight, gap, boxHeight) = (44.0, 60.0, 30.0)

    let svg: String

    init(_ plan: WorkflowPlan, _ outcomes: [RequestOutcome]) {
        var column: [String: Int] = [:]
        // Requests without dependencies are in the first column. Every other request is after the last of its
        // dependencies.
        for _ in plan.requests {
            var changed = false
            for request in plan.requests {
                let place = (request.dependencies.compactMap { column[$0] }.max() ?? -1) + 1
                if column[request.id] != place { (column[request.id], changed) = (place, true) }
            }
            if !changed { break }
        }
        var states: [String: String] = [:]
        for outcome in outcomes where states[outcome.id] != "failed" { states[outcome.id] = outcome.state.rawValue }
        let columns = (column.values.max() ?? 0) + 1
        var boxes: [String: (x: Double, y: Double, width: Double)] = [:]
        var x = 1.0, height = 0.0
        for number in 0..<columns {
            let members = plan.requests.filter { column[$0.id] == number }
            let width = (members.map { Double($0.id.count) }.max() ?? 4) * 8.5 + 24
            for (row, request) in members.enumerated() { boxes[request.id] = (x, Double(row) * Self.rowHeight + 1, width) }
            height = max(height, Double(members.count) * Self.rowHeight)
            x += width + Self.gap
        }
        var text = String(
            format: "<svg role=\"img\" aria-label=\"graph\" width=\"%.0f\" height=\"%.0f\">", x - Self.gap + 2, height + 2)
        for request in plan.requests {
            for id in request.dependencies {
                guard let from = boxes[id], let to = boxes[request.id] else { continue }
                let (start, end) = (from.x + from.width, to.x)
                let (top, bottom) = (from.y + Self.boxHeight / 2, to.y + Self.boxHeight / 2)
                let middle = (start + end) / 2
                text += String(
                    format: "<path d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\"/>", start, top, middle, top, middle,
                    bottom, end, bottom)
            }
        }
        for request in plan.requests {
            guard let box = boxes[request.id] else { continue }
            text += "<g class=\"\(states[request.id] ?? "")\">"
            text += String(
                format: "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\"/>", box.x, box.y, box.width,
                Self.boxHeight)
            text +=
                String(format: "<text x=\"%.1f\" y=\"%.1f\">", box.x + 12, box.y + 20)
                + "\(Markup.escaped(request.id))</text></g>"
        }
        svg = text + "</svg>"
    }
}
