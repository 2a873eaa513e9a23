import Convoy
import ConvoyWorkflow
import Foundation

/// The lines about a request of a workflow.
enum WorkflowLines {
    static func success(_ outcome: RequestOutcome, _ display: Display) -> String {
        let mark = display.showsMarks ? display.paint(Display.hasUnicode ? "✓ " : "* ", .green) : ""
        let name = Printable.line(outcome.name)
        if outcome.state == .kept { return "\(mark)\(name): has succeeded before" }
        var figures: [String] = []
        if let status = outcome.status { figures.append("\(status)") }
        figures.append("\(Amounts.bytes(outcome.bytes)) in \(Amounts.seconds(outcome.seconds))")
        if outcome.requestCount > 1 { figures.append("\(outcome.requestCount) requests") }
        if outcome.retryCount > 0 { figures.append(outcome.retryCount == 1 ? "1 retry" : "\(outcome.retryCount) retries") }
        let file = outcome.file.map { ": \(Printable.line($0))" } ?? ""
        return "\(mark)\(name)\(file): \(figures.joined(separator: ", "))"
    }

    static func skip(_ outcome: RequestOutcome, _ display: Display) -> String {
        let mark = display.showsMarks ? display.paint(Display.hasUnicode ? "– " : "- ", .dim) : ""
        return "\(mark)\(Printable.line(outcome.name)): \(Printable.line(outcome.failures.first ?? "skipped"))"
    }

    /// Every failure, with the line of the manifest on which the request stands.
    static func failures(_ outcome: RequestOutcome, manifest: String) -> [String] {
        outcome.failures.map {
            "\(Printable.line(manifest)):\(outcome.line): \(Printable.line(outcome.name)): \(Printable.line($0))"
        }
    }

    /// The keys of `--json`, and those that only workflows have: `item`, `index`, `line`, `state`, `requests`, `retries`,
    /// `captures` and `failures`.
    static func json(_ outcome: RequestOutcome) -> String {
        var line = JSONLine()
        line.add("id", outcome.id)
        line.add("url", outcome.url)
        line.add("status", outcome.status.map { Int64($0) })
        line.add("bytes", outcome.bytes)
        line.add("file", outcome.file)
        line.add("sha256", nil as String?)
        line.add("seconds", outcome.seconds)
        line.add(
            "error", outcome.state == .failed || outcome.state == .skipped ? outcome.failures.joined(separator: "; ") : nil)
        line.add("errorCode", outcome.kind?.rawValue)
        line.add("item", outcome.item)
        line.add("index", outcome.index.map { Int64($0) })
        line.add("line", Int64(outcome.line))
        line.add("state", outcome.state.rawValue)
        line.add("requests", Int64(outcome.requestCount))
        line.add("retries", Int64(outcome.retryCount))
        line.add(
            "captures",
            outcome.captures.map { name, value in
                var capture = JSONLine()
                capture.add("name", name)
                capture.add("value", value)
                return capture
            })
        return line.text
    }
}

extension RequestOutcome {
    /// In what way it failed; nil for one that did not.
    var kind: FailureKind? {
        guard let cause, state == .failed || state == .skipped else { return nil }
        return switch cause {
        case .status: .status
        case .checksum: .checksum
        case .time: .timeout
        case .exchange(let error): FailureKind(error, statusCode: status)
        case .file: .disk
        case .dependency: .dependency
        case .condition: nil
        case .cancelled: .cancelled
        case .expectation, .capture, .value: .other
        }
    }
}
