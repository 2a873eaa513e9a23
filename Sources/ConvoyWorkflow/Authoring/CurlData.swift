/// The body that `-d`, `--json` and their siblings make together.
struct CurlData {
    private(set) var text = ""
    /// Whether an option has given data, which may be empty.
    private(set) var isGiven = false
    /// The file that is the whole body.
    private(set) var file: String?

    /// Adds text as curl does: with an ampersand, but none between texts of `--json`.
    mutating func add(_ more: String, separator: String = "&") {
        text += (isGiven ? separator : "") + more
        isGiven = true
    }

    /// Sets the file of the body.
    mutating func set(file path: String) { (file, isGiven) = (path, true) }

    /// Makes curl send a body whose content is not known.
    mutating func addUnknown() { isGiven = true }

    /// The text for `--data-urlencode` and `--url-query`: `content`, `=content` or `name=content`; nil for one with the
    /// content of a file.
    static func encoded(_ value: String) -> String? {
        guard let mark = value.firstIndex(where: { "=@".contains($0) }) else { return escaped(value) }
        guard value[mark] == "=" else { return nil }
        let content = escaped(String(value[value.index(after: mark)...]))
        return mark == value.startIndex ? content : "\(value[..<mark])=\(content)"
    }

    /// Encodes as curl does, except references to variables.
    private static func escaped(_ text: String) -> String {
        text.split(separator: "\0" as Character, omittingEmptySubsequences: false).enumerated()
            .map { $0.offset % 2 == 1 ? "\0\($0.element)\0" : Escaping.url(String($0.element)).replacing("%20", with: "+") }
            .joined()
    }
}
