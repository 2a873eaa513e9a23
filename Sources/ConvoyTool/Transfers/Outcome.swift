/// What came of one request.
struct Outcome: Sendable {
    /// Its name in a manifest; nil for a request that is only a URL.
    var id: String?
    /// Without its password.
    var url: String
    var status: Int?
    /// Bytes of the body that have arrived.
    var bytes: Int64 = 0
    /// Where the body is.
    var file: String?
    var sha256: String?
    var seconds: Double = 0
    /// One line; nil for a success.
    var error: String?

    /// One line of JSON. Every key is there every time, null where there is nothing.
    var json: String {
        var line = JSONLine()
        if let id { line.add("id", id) }
        line.add("url", url)
        line.add("status", status.map(Int64.init))
        line.add("bytes", bytes)
        line.add("file", file)
        line.add("sha256", sha256)
        line.add("seconds", seconds)
        line.add("error", error)
        return line.text
    }
}
