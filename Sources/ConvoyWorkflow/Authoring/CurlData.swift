/// The body that `-d`, `--json` and similar options produce together.
struct CurlData {
    private(set) var text = ""
    /// Whether an option has supplied data, which may be empty.
    private(set) var isGiven = false
    /// The file that supplies the entire body.
    private(set) var file: String?

    /// Adds data as curl does, separated by an ampersand, or without a separator for `--json`.
    mutating func add(_ more: String, separator: String = "&") {
        text += (isGiven ? separator : "") + more
        isGiven = true
    }

    /// Sets the path of the file that is sent as the body.
    mutating func set(file path: String) {
        file = path
        isGiven = true
    }

    /// Records that the command sends a body of unknown content.
    mutating func addUnknown() { isGiven = true }

    /// Encodes a value of `--data-urlencode` or `--url-query`: `content`, `=content` or `name=content`. Returns nil if
    /// the content comes from a file.
    static func encoded(_ value: String) -> String? {
        guard let mark = value.firstIndex(where: { "=@".contains($0) }) else { return escaped(value) }
        guard value[mark] == "=" else { return nil }
        let content = escaped(String(value[value.index(after: mark)...]))
        return mark == value.startIndex ? content : "\(value[..<mark])=\(content)"
    }

    /// Encodes a string as curl does, but keeps references to variables.
    private static func escaped(_ text: String) -> String {
        text.split(separator: "\0" as Character, omittingEmptySubsequences: false).enumerated()
            .map { $0.offset % 2 == 1 ? "\0\($0.element)\0" : Escaping.url(String($0.element)).replacing("%20", with: "+") }
            .joined()
    }
}
