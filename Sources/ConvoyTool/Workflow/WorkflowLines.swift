import Convoy
import ConvoyWorkflow
import Foundation

/// The lines that the run of a workflow prints about its requests.
enum WorkflowLines {
    static func success(_ outcome: RequestOutcome, _ display: Display) -> String {
        let mark = display.showsMarks ? display.paint(Display.hasUnicode ? "✓ " : "* ", .green) : ""
        let name = Printable.line(outcome.name)
        if outcome.state == .kept { return "\(mark)\(name): already succeeded in an earlier run" }
        var figures: [String] = []
        if let status = outcome.status { figures.append("\(status)") }
        figures.append("\(Amounts.bytes(outcome.bytes)) in \(Amounts.seconds(outcome.seconds))")
        if outcome.hasMorePages {
            figures.append(outcome.pagesNote)
        } else if outcome.requestCount > 1 {
            figures.append("\(outcome.requestCount) requests")
        }
        if outcome.retryCount > 0 { figures.append(outcome.retryCount == 1 ? "1 retry" : "\(outcome.retryCount) retries") }
        let file = outcome.file.map { ": \(Printable.line($0))" } ?? ""
        return "\(mark)\(name)\(file): \(figures.joined(separator: ", "))"
    }

    /// Returns the numbers of outcomes in each state.
    static func total(_ outcomes: [RequestOutcome]) -> String {
        let counts = [
            (outcomes.count { $0.state == .succeeded }, "succeeded"),
            (outcomes.count { $0.state == .kept }, "in an earlier run"),
            (outcomes.count { $0.state == .skipped }, "skipped"), (outcomes.count { $0.state == .failed }, "failed"),
        ]
        let shown = counts.enumerated().filter { $0.offset == 0 || $0.element.0 > 0 }.map(\.element)
        return shown.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }

    static func skip(_ outcome: RequestOutcome, _ display: Display) -> String {
        let mark = display.showsMarks ? display.paint(Display.hasUnicode ? "– " : "- ", .dim) : ""
        return "\(mark)\(Printable.line(outcome.name)): \(Printable.line(outcome.failures.first ?? "skipped"))"
    }

    /// Returns a text for every failure, with the position of the check or the line of the request in the manifest. Its
    /// other lines are indented.
    static func failures(_ outcome: RequestOutcome, row: DataRow?) -> [String] {
        outcome.failures.enumerated().map { index, text in
            let position = outcome.failurePositions[index].map { "\($0.line):\($0.column)" }
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { Printable.line(String($0)) }
            return start(outcome, row, at: position) + lines.joined(separator: "\n    ")
        }
    }

    private static func start(_ outcome: RequestOutcome, _ row: DataRow?, at position: String? = nil) -> String {
        let row = row.map { "\($0.title): " } ?? "", position = position ?? "\(outcome.line)"
        return "\(Printable.line(outcome.manifest)):\(position): \(row)\(Printable.line(outcome.name)): "
    }

    /// Returns the line of a request that was in flight when the program was interrupted.
    static func interruption(_ outcome: RequestOutcome, row: DataRow?) -> String {
        start(outcome, row) + "interrupted"
    }

    /// Returns the outcome as a line of `--json`, with the keys that only workflows have: `item`, `index`, `manifest`,
    /// `line`, `state`, `requests`, `retries`, `captures`, `row` with `--data`, and `morePages` if it is true.
    static func json(_ outcome: RequestOutcome, row: DataRow?) -> String {
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
        line.add("manifest", outcome.manifest)
        line.add("line", Int64(outcome.line))
        line.add("state", outcome.state.rawValue)
        line.add("requests", Int64(outcome.requestCount))
        line.add("retries", Int64(outcome.retryCount))
        if outcome.hasMorePages { line.add("morePages", true) }
        if let number = row?.number { line.add("row", Int64(number)) }
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
    /// The kind of failure, or nil if the request did not fail.
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
