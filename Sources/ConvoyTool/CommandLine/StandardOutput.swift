/// The options that write to standard output, in addition to the messages. At most one of them may be used.
enum StandardOutput {
    /// Returns the options that write to standard output.
    ///
    /// - Parameter body: The option that prints response bodies to standard output, or nil.
    static func users(_ options: Options, body: String?) -> [String] {
        var users = options.has("json") ? ["--json"] : []
        if let body { users.append(body) }
        for text in options.all("report") {
            let path = text.firstIndex(of: "=").map { String(text[text.index(after: $0)...]) }
            if text == "tap" || path.map(SpecialFile.isStandardOutput) == true {
                users.append("--report \(text)")
            }
        }
        for name in ["timeline", "har"] {
            if let path = options.value(name), SpecialFile.isStandardOutput(path) { users.append("--\(name) \(path)") }
        }
        return users
    }
}
