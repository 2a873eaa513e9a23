import Convoy
import Foundation

/// The line about a transfer that succeeded.
enum OutcomeText {
    /// The line about a file that has another name than it should, as that is another URL's.
    static func line(ofRenamed url: URL, path: String, wanted: String) -> String {
        "\(url.forPeople) goes to \(Printable.line(path)): \(Printable.line(wanted)) is another URL's"
    }

    static func line(_ outcome: Outcome, name: String, _ display: Display) -> String {
        var text = display.showsMarks ? display.paint(Display.hasUnicode ? "✓ " : "* ", .green) : ""
        text += Printable.line(outcome.file ?? name)
        if let id = outcome.id, outcome.file != nil { text = "\(Printable.line(id)): \(text)" }
        switch outcome.result {
        case .skipped: return "\(text): is there already"
        case .notModified: return "\(text): has not changed"
        case .downloaded, nil: break
        }
        var figures = [Amounts.bytes(outcome.bytes)]
        if outcome.result != nil, outcome.fetched < outcome.bytes {
            figures.append("(\(Amounts.bytes(outcome.bytes - outcome.fetched)) from before)")
        }
        figures.append("in \(Amounts.seconds(outcome.seconds))")
        if outcome.fetched >= 100_000, outcome.seconds > 0 {
            figures.append("(\(Amounts.speed(Double(outcome.fetched) / outcome.seconds)))")
        }
        if outcome.id != nil, let status = outcome.status { figures.insert("\(status),", at: 0) }
        var line = "\(text): \(figures.joined(separator: " "))"
        if outcome.hasReplacedUnprovenFile {
            line += ": fetched anew, as nothing proves that what was there is a part of it"
        }
        if let length = outcome.earlierLength {
            line += ": begun anew, as the file had \(Amounts.bytes(length)) before"
        }
        return line
    }
}

/// The line about a try that is repeated.
enum RetryText {
    /// nil for an event that nobody needs to know.
    static func line(_ event: RetryEvent) -> String? {
        guard case .retry(let delay) = event.decision, delay > 0 else { return nil }
        let reason =
            switch event.reason {
            case .status(let status): "the server answered with \(status)"
            case .error(let error): ErrorText.line(for: error)
            case .closedGate(let host): "\(host) is busy"
            }
        return "\(reason); trying again in \(Amounts.seconds(delay))"
    }
}
