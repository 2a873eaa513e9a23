import Convoy
import ConvoySerialization
import Foundation

/// The outcome of one request.
struct Outcome: Sendable {
    /// The error of a transfer that was ended by an interruption.
    static let cancelled = "cancelled"

    /// Its id in the manifest; nil for a download.
    var id: String?
    /// As it was given, without its secrets.
    var url: String
    /// Where a list has it; nil for one that no list has.
    var place: DownloadItem.Place?
    var status: Int?
    /// Bytes of the body that are there.
    var bytes: Int64 = 0
    /// How many of them this run has fetched.
    var fetched: Int64 = 0
    /// The path of the file with the body.
    var file: String?
    var sha256: String?
    /// Where the server has the upload, without secrets; nil for what is none.
    var upload: String?
    var seconds: Double = 0
    /// What a download has done; nil for others, and after a failure.
    var result: DownloadOutcome?
    /// The length of what an earlier run had begun, where the server has a file of another length now.
    var earlierLength: Int64?
    /// Whether the whole was fetched although a file was there to go on with.
    var hasReplacedUnprovenFile = false
    /// The error message, on one line; nil for a success.
    var error: String?
    /// In what way it failed; nil for a success.
    var kind: FailureKind?
    var timings: [TransactionMetrics] = []
    /// The head of the response, if it is to be printed.
    var head: String?
    /// What else went wrong.
    var note: String?

    /// A failure that is known before anything is sent.
    static func failure(_ error: ToolError, url: String) -> Outcome {
        Outcome(url: url, error: error.text, kind: FailureKind(error, statusCode: nil))
    }

    /// The outcome as one line of JSON. All keys are always present but `id`, `list`, `line`, `upload`, `outcome` and
    /// `timing`, with null
    /// for missing values.
    ///
    /// - Parameter showsTimings: whether it has the times of the requests.
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

/// The line about a transfer that succeeded.
enum OutcomeText {
    /// The line about a file that has another name than it should, as that is another URL's.
    static func line(ofRenamed url: URL, path: String, wanted: String) -> String {
        "\(url.forPeople) goes to \(Printable.line(path)): \(Printable.line(wanted)) is another URL's"
    }

    /// The line about a transfer that failed.
    static func failure(_ outcome: Outcome) -> String {
        let subjects = [outcome.id ?? "", outcome.file ?? "", outcome.url].filter { !$0.isEmpty }
        return subjects.map { "\(Printable.line($0)): " }.joined() + (outcome.error ?? "")
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
    /// nil for an event that is not printed.
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

/// A JSON object (RFC 8259) on one line, with its keys in the order of addition.
struct JSONLine {
    private var members: [String] = []

    var text: String { "{\(members.joined(separator: ","))}" }

    mutating func add(_ key: String, _ value: String?) { append(key, value.map(Self.quoted) ?? "null") }
    mutating func add(_ key: String, _ value: Int64?) { append(key, value.map { String($0) } ?? "null") }

    mutating func add(_ key: String, _ value: Bool) { append(key, value ? "true" : "false") }

    /// A number of seconds, to the microsecond.
    mutating func add(_ key: String, _ value: Double) {
        append(key, value.isFinite ? String(format: "%.6f", value) : "null")
    }

    mutating func add(_ key: String, _ objects: [JSONLine]) {
        append(key, "[\(objects.map(\.text).joined(separator: ","))]")
    }

    private mutating func append(_ key: String, _ value: String) { members.append("\(Self.quoted(key)):\(value)") }

    /// A JSON string, in which characters that control a terminal are escaped.
    static func quoted(_ text: String) -> String {
        var output = JSONOutput(escaping: Printable.isObeyed)
        output.appendQuoted(text)
        return String(decoding: output.bytes, as: UTF8.self)
    }
}
