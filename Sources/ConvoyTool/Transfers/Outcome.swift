import Convoy

/// The outcome of one request.
struct Outcome: Sendable {
    /// The error of a transfer that was ended by an interruption.
    static let cancelled = "cancelled"

    /// Its id in the manifest; nil for a download.
    var id: String?
    /// Without its password.
    var url: String
    var status: Int?
    /// Bytes of the body that are there.
    var bytes: Int64 = 0
    /// How many of them this run has fetched.
    var fetched: Int64 = 0
    /// The path of the file with the body.
    var file: String?
    var sha256: String?
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

    /// A failure that is known before anything is sent.
    static func failure(_ error: ToolError, url: String) -> Outcome {
        Outcome(url: url, error: error.text, kind: FailureKind(error, statusCode: nil))
    }

    /// The outcome as one line of JSON. All keys are always present but `id`, `outcome` and `timing`, with null for missing
    /// values.
    ///
    /// - Parameter showsTimings: whether it has the times of the requests.
    func json(showsTimings: Bool) -> String {
        var line = JSONLine()
        if let id { line.add("id", id) }
        line.add("url", url)
        line.add("status", status.map(Int64.init))
        line.add("bytes", bytes)
        line.add("file", file)
        line.add("sha256", sha256)
        line.add("seconds", seconds)
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
