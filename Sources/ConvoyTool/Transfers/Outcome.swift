/// The outcome of one request.
struct Outcome: Sendable {
    /// Its id in the manifest; nil for a download.
    var id: String?
    /// Without its password.
    var url: String
    var status: Int?
    /// Bytes of the body that have arrived.
    var bytes: Int64 = 0
    /// The path of the file with the body.
    var file: String?
    var sha256: String?
    var seconds: Double = 0
    /// The error message, on one line; nil for a success.
    var error: String?

    /// The outcome as one line of JSON. All keys but `id` are always present, with null for missing values.
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
