import ConvoyOperations
import ConvoyTransport
import Foundation

/// The page of the runs: for each one the graph of its requests, and a waterfall of their phases, failures first.
///
/// The page is a single HTML file without external resources. It is readable without JavaScript, which adds a search
/// field.
extension WorkflowReport {
    /// The runs as an HTML page. The phases of the requests require ``WorkflowRun/Options/collectsMetrics``.
    public var html: String {
        let title = runs.count == 1 ? runs[0].title : "\(runs.count) runs"
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(Markup.escaped(title))</title>
            <style>\(Self.style)</style>
            </head>
            <body>
            <h1>\(Markup.escaped(title))</h1>
            <p>\(Self.summary(outcomes, seconds)) Started \(Markup.escaped(began.formatted(.iso8601))).</p>
            \(overview)<p class="legend">\(Phase.allCases.map { "<span><i class=\"\($0.rawValue)\"></i> \($0.title)</span>" }.joined(separator: " "))</p>
            <p id="search" hidden><label>Search <input type="search" autocomplete="off"></label></p>
            \(runs.map { Waterfall($0).section(hasTitle: runs.count > 1) }.joined())<script>\(Self.script)</script>
            </body>
            </html>

            """
    }

    fileprivate static func summary(_ outcomes: [RequestOutcome], _ seconds: Double) -> String {
        "\(OutcomeCounts(outcomes).text), in \(Waterfall.text(seconds))."
    }

    /// A table of the runs, if there are several.
    private var overview: String {
        guard runs.count > 1 else { return "" }
        let rows = runs.map { run in
            let counts = OutcomeCounts(run.result.outcomes)
            return """
                <tr class="\(counts.failed > 0 ? "failed" : "succeeded")"><td><strong>\(Markup.escaped(run.title))</strong></td>\
                <td>\(Self.summary(run.result.outcomes, run.result.seconds))</td></tr>

                """
        }
        return "<table>\n\(rows.joined())</table>\n"
    }

    private static let style = """
        :root{color-scheme:light dark;--line:#d0d7de;--text:#1f2328;--soft:#59636e;--page:#fff;--bad:#c22;--good:#1a7f37}
        @media (prefers-color-scheme:dark){:root{--line:#3d444d;--text:#e6edf3;--soft:#9aa4af;--page:#12161b;--bad:#ff7b72;--good:#57ab5a}}
        *{box-sizing:border-box}
        body{margin:0 auto;padding:1rem;max-width:120rem;background:var(--page);color:var(--text);font:14px/1.3 system-ui,sans-serif}
        h1{font-size:1.3rem}h2{font-size:1.05rem;margin:1.5rem 0 .3rem}h1,h2,td,.name,.url,.failure{overflow-wrap:anywhere}
        td{padding:.1rem 1rem .1rem 0}td+td,.facts,.url{color:var(--soft)}
        .run{display:grid;grid-template-columns:minmax(0,1fr);gap:1rem}
        .graph{overflow:auto;max-height:24rem}svg text{fill:var(--text);font:13px system-ui,sans-serif}
        svg rect{fill:var(--page);stroke:var(--soft)}svg .failed rect{stroke:var(--bad);stroke-width:2}
        svg .succeeded rect,svg .kept rect{stroke:var(--good)}svg .skipped rect{stroke-dasharray:4 3}
        svg path{fill:none;stroke:var(--soft)}
        .legend span{margin-right:1rem;white-space:nowrap}.legend i{display:inline-block;width:.8em;height:.8em}
        .row,.axis{display:grid;grid-template-columns:14rem 12rem minmax(0,1fr);gap:0 .8rem;align-items:center}
        .row{min-height:28px;border-top:1px solid var(--line)}.row[hidden]{display:none}
        .axis{position:sticky;top:0;height:22px;background:var(--page);color:var(--soft);font-size:12px;z-index:1}
        .axis .track{height:16px;background:none}.axis span{position:absolute;white-space:nowrap}
        .failed strong,.failure{color:var(--bad)}.row.skipped strong{color:var(--soft)}
        .url,.failure{grid-column:1/-1;font-size:13px}.failure{white-space:pre-wrap;padding-bottom:.3rem}
        .track{position:relative;height:14px;grid-column:3;background:repeating-linear-gradient(to right,var(--line) 0 1px,transparent 1px var(--step))}
        .track b{position:absolute;top:1px;height:12px}
        .dependencies{background:#8c959f66}.slot{background:#8c959f}.retry{background:#bf8700}
        .connect{background:#8250df}.wait{background:#2da44e}.body{background:#0969da}
        input{font:inherit;max-width:100%}
        @media (min-width:1300px){.run{grid-template-columns:minmax(0,1fr) minmax(14rem,30rem)}
        .graph{order:1;position:sticky;top:0;align-self:start;max-height:100vh}}
        @media (max-width:700px){.row,.axis{grid-template-columns:minmax(0,1fr) auto}.row{padding:.2rem 0}.track{grid-column:1/-1}}
        @media print{body{print-color-adjust:exact;-webkit-print-color-adjust:exact;padding:0}#search{display:none}
        .graph{max-height:none;overflow:visible}svg{max-width:100%;height:auto}.row{break-inside:avoid}.axis{position:static}}
        """

    private static let script = """
        (function(){var p=document.getElementById('search'),i=p.querySelector('input');p.hidden=false;
        i.addEventListener('input',function(){var t=i.value.toLowerCase();
        document.querySelectorAll('.row').forEach(function(r){
        r.hidden=(r.textContent+' '+r.title).toLowerCase().indexOf(t)<0;});});})();
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

/// The part of the page for one run.
private struct Waterfall {
    private struct Bar {
        var phase: Phase
        /// The time since the run started, in seconds.
        var start: Double
        var end: Double
    }

    private let run: WorkflowReport.Run
    /// The duration that the axis shows, in seconds.
    private let total: Double
    /// The distance between two marks of the axis, in seconds.
    private let step: Double

    init(_ run: WorkflowReport.Run) {
        self.run = run
        let total = max(run.result.seconds, 0.001)
        self.total = total
        // At most six marks, at 1, 2 or 5 times a power of ten.
        let power = pow(10, (log10(total / 6)).rounded(.down))
        step = ([1, 2, 5, 10].map { $0 * power }.first { total / $0 <= 6 }) ?? total
    }

    func section(hasTitle: Bool) -> String {
        let outcomes = run.result.outcomes
        let ordered = outcomes.filter { $0.state == .failed } + outcomes.filter { $0.state != .failed }
        return """
            <section>
            \(hasTitle ? "<h2>\(Markup.escaped(run.title))</h2>\n" : "")<div class="run">
            <div class="graph">\(WorkflowDrawing(run.workflow.plan, outcomes).svg)</div>
            <div class="rows" style="--step:\(percent(step))">
            \(axis)\(ordered.map(row).joined())</div>
            </div>
            </section>

            """
    }

    private func percent(_ seconds: Double) -> String {
        String(format: "%.3f%%", min(max(seconds / total, 0), 1) * 100)
    }

    private var axis: String {
        let marks = stride(from: 0, through: total * 0.93, by: step).map { time in
            "<span style=\"left:\(percent(time))\">\(time == 0 ? "0" : Self.text(time))</span>"
        }
        return "<div class=\"axis\" aria-hidden=\"true\"><div class=\"track\">\(marks.joined())</div></div>\n"
    }

    private func bars(of outcome: RequestOutcome) -> [Bar] {
        let began = run.result.began
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

    private func row(_ outcome: RequestOutcome) -> String {
        let bars = bars(of: outcome).map { bar in
            let left = min(max(bar.start / total, 0), 1) * 100, width = min(max((bar.end - bar.start) / total, 0), 1) * 100
            return String(
                format: "<b class=\"%@\" style=\"left:%.3f%%;width:max(1px,%.3f%%)\" title=\"%@ %@\"></b>",
                bar.phase.rawValue, left, min(width, 100 - left), bar.phase.title, Self.text(bar.end - bar.start))
        }.joined()
        var facts: [String] = []
        if let status = outcome.status { facts.append("\(status)") }
        if outcome.state != .succeeded, outcome.state != .failed { facts.append(outcome.state.rawValue) }
        if outcome.began != nil { facts.append(Self.text(outcome.seconds)) }
        if outcome.requestCount > 1 { facts.append("\(outcome.requestCount) requests") }
        if outcome.retryCount > 0 { facts.append(outcome.retryCount == 1 ? "1 retry" : "\(outcome.retryCount) retries") }
        let target = Markup.escaped(outcome.url.map { "\(outcome.method ?? "GET") \($0)" } ?? "")
        // The address is part of the row only if it helps to explain a failure.
        var details = outcome.state == .failed && !target.isEmpty ? "<div class=\"url\">\(target)</div>\n" : ""
        for failure in outcome.locatedFailures { details += "<div class=\"failure\">\(Markup.escaped(failure))</div>\n" }
        return """
            <div class="row \(outcome.state.rawValue)" title="\(target)">
            <strong class="name">\(Markup.escaped(outcome.name))</strong><span class="facts">\(Markup.escaped(facts.joined(separator: ", ")))</span>
            <div class="track">\(bars)</div>
            \(details)</div>

            """
    }

    static func text(_ seconds: Double) -> String {
        switch seconds {
        case ..<0.001: String(format: "%.1f ms", seconds * 1000)
        case ..<1: String(format: "%.0f ms", seconds * 1000)
        default: String(format: "%.4g s", seconds)
        }
    }
}
