import Convoy
import ConvoySerialization
import Foundation

/// The outcome of one request.
struct Outcome: Sendable {
    /// The ID in the manifest, or nil for a download.
    var id: String?
    /// The URL as it was given, without secrets.
    var url: String
    /// The position in a list, or nil.
    var place: DownloadItem.Place?
    var status: Int?
    /// The number of body bytes that are stored.
    var bytes: Int64 = 0
    /// The number of bytes that this run has received.
    var fetched: Int64 = 0
    /// The path of the file with the body.
    var file: String?
    var sha256: String?
    /// The URL of the upload on the server, without secrets, or nil.
    var upload: String?
    var seconds: Double = 0
    /// The result of a download, or nil for other transfers and after a failure.
    var result: DownloadOutcome?
    /// The length of the file in an interrupted run, if the server's file now has a different length.
    var earlierLength: Int64?
    /// Whether the file was downloaded completely although an existing part could have been resumed.
    var hasReplacedUnprovenFile = false
    /// The error message on one line, or nil after a success.
    var error: String?
    /// The kind of failure, or nil after a success.
    var kind: FailureKind?
    var timings: [TransactionMetrics] = []
    /// The head of the response, if it must be printed.
    var head: String?
    /// The reason why the body of an error response could not be kept.
    var note: String?

    /// Returns a failure that is detected before anything is sent.
    static func failure(_ error: ToolError, url: String) -> Outcome {
        Outcome(url: url, error: error.text, kind: FailureKind(error, statusCode: nil))
    }

    /// Returns the outcome as one line of JSON. All keys except `id`, `list`, `line`, `upload`, `outcome` and `timing` are
    /// always present, with null for missing values.
    ///
    /// - Parameter showsTimings: Whether to include the metrics of the requests.
    func json(showsTimings: Bool) -> String {
        var line = JSONLine()
        if let id { line.add("id", id) }
        line.add("url", url.isEmpty ? nil : url)
        if let place {
            line.add("list", place.list)
            line.add("line", Int64(place.line))
        }
        line.add("status", status.map(Int64.init))
        line.add("bytes", bytes)
        line.add("file", file)
        line.add("sha256", sha256)
        line.add("seconds", seconds)
        if let upload { line.add("upload", upload) }
        if let result { line.add("outcome", "\(result)") }
        line.add("error", error)
        line.add("errorCode", kind?.rawValue)
        if showsTimings { line.add("timing", timings.map(Self.object)) }
        return line.text
    }

    private static func object(_ timing: TransactionMetrics) -> JSONLine {
        var line = JSONLine()
        line.add("name", timing.nameFound ?? .nan)
        line.add("connect", timing.connected ?? .nan)
        line.add("tls", timing.secured ?? .nan)
        line.add("firstByte", timing.firstByte ?? .nan)
        line.add("total", timing.duration)
        line.add("protocol", timing.networkProtocolName)
        line.add("reused", timing.isReusedConnection)
        line.add("address", timing.remoteAddress)
        return line
    }
}

/// The lines about transfers.
enum OutcomeText {
    /// Returns the line about a file that was renamed because its preferred name belongs to a different URL.
    static func line(ofRenamed url: URL, path: String, wanted: String) -> String {
        "\(url.forPeople) is saved as \(Printable.line(path)): \(Printable.line(wanted)) belongs to another URL"
    }

    /// Returns the line about a failed transfer.
    static func failure(_ outcome: Outcome) -> String {
        let subjects = [outcome.id ?? "", outcome.file ?? "", outcome.url].filter { !$0.isEmpty }
        return subjects.map { "\(Printable.line($0)): " }.joined() + (outcome.error ?? "")
    }

    static func line(_ outcome: Outcome, name: String, _ display: Display) -> String {
        var text = display.showsMarks ? display.paint(Display.hasUnicode ? "✓ " : "* ", .green) : ""
        text += Printable.line(outcome.file ?? name)
        if let id = outcome.id, outcome.file != nil { text = "\(Printable.line(id)): \(text)" }
        switch outcome.result {
        case .skipped: return "\(text): already exists"
        case .notModified: return "\(text): has not changed"
        case .downloaded, nil: break
        }
        var figures = [Amounts.bytes(outcome.bytes)]
        if outcome.result != nil, outcome.fetched < outcome.bytes {
            figures.append("(\(Amounts.bytes(outcome.bytes - outcome.fetched)) from an earlier run)")
        }
        figures.append("in \(Amounts.seconds(outcome.seconds))")
        if outcome.fetched >= 100_000, outcome.seconds > 0 {
            figures.append("(\(Amounts.speed(Double(outcome.fetched) / outcome.seconds)))")
        }
        if outcome.id != nil, let status = outcome.status { figures.insert("\(status),", at: 0) }
        var line = "\(text): \(figures.joined(separator: " "))"
        if outcome.hasReplacedUnprovenFile {
            line += ": downloaded again, because the existing part could not be verified"
        }
        if let length = outcome.earlierLength {
            line += ": restarted, because the file on the server had \(Amounts.bytes(length)) before"
        }
        return line
    }
}

/// The line about a retry.
enum RetryText {
    /// Returns the line, or nil for an event that is not printed.
    static func line(_ event: RetryEvent) -> String? {
        guard case .retry(let delay) = event.decision, delay > 0 else { return nil }
        let reason =
            switch event.reason {
            case .status(let status): "the server returned \(status)"
            case .error(let error): ErrorText.line(for: error)
            case .closedGate(let host): "\(host) is busy"
            }
        return "\(reason); retrying in \(Amounts.seconds(delay))"
    }
}

/// A JSON object (RFC 8259) on one line, with its keys in the order in which they were added.
struct JSONLine {
    private var members: [String] = []

    var text: String { "{\(members.joined(separator: ","))}" }

    mutating func add(_ key: String, _ value: String?) { append(key, value.map(Self.quoted) ?? "null") }
    mutating func add(_ key: String, _ value: Int64?) { append(key, value.map { String($0) } ?? "null") }

    mutating func add(_ key: String, _ value: Bool) { append(key, value ? "true" : "false") }

    /// Adds a number of seconds, rounded to microseconds.
    mutating func add(_ key: String, _ value: Double) {
        append(key, value.isFinite ? String(format: "%.6f", value) : "null")
    }

    mutating func add(_ key: String, _ objects: [JSONLine]) {
        append(key, "[\(objects.map(\.text).joined(separator: ","))]")
    }

    private mutating func append(_ key: String, _ value: String) { members.append("\(Self.quoted(key)):\(value)") }

    /// Returns a JSON string in which characters that control a terminal are escaped.
    static func quoted(_ text: String) -> String {
        var output = JSONOutput(escaping: Printable.isObeyed)
        output.appendQuoted(text)
        return String(decoding: output.bytes, as: UTF8.self)
    }
}
