import Foundation

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
            format:
                "<svg role=\"img\" aria-label=\"graph\" width=\"%1$.0f\" height=\"%2$.0f\" viewBox=\"0 0 %1$.0f %2$.0f\">",
            x - Self.gap + 2, height + 2)
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
