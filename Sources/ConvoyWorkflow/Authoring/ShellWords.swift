/// Splits a command as a shell does.
enum ShellWords {
    /// The words of a command, as a POSIX shell splits them, with `$'…'` of bash. Variables and the like are text.
    static func split(_ text: String) throws(CurlCommandLine.Problem) -> [String] {
        var words: [String] = [], word = "", hasWord = false
        var rest = Array(text.unicodeScalars)[...]
        func end() {
            if hasWord { words.append(word) }
            (word, hasWord) = ("", false)
        }
        func closing(_ mark: Unicode.Scalar, escapes: Bool) throws(CurlCommandLine.Problem) {
            hasWord = true
            while let next = rest.popFirst() {
                if next == mark { return }
                guard next == "\\", escapes, let escaped = rest.popFirst() else {
                    word.unicodeScalars.append(next)
                    continue
                }
                if escaped == "\n" { continue }
                if !"\"\\$`".unicodeScalars.contains(escaped) { word.unicodeScalars.append("\\") }
                word.unicodeScalars.append(escaped)
            }
            throw CurlCommandLine.Problem(description: "a quote has no end")
        }
        while let next = rest.popFirst() {
            switch next {
            case " ", "\t", "\n", "\r": end()
            case "'": try closing("'", escapes: false)
            case "\"": try closing("\"", escapes: true)
            case "$" where rest.first == "'":
                rest.removeFirst()
                hasWord = true
                word += try ansi(&rest)
            case "\\":
                guard let escaped = rest.popFirst() else { break }
                if escaped == "\r", rest.first == "\n" {
                    rest.removeFirst()
                } else if escaped != "\n" {
                    word.unicodeScalars.append(escaped)
                    hasWord = true
                }
            default:
                word.unicodeScalars.append(next)
                hasWord = true
            }
        }
        end()
        return words
    }

    /// The text of `$'…'`.
    private static func ansi(_ rest: inout ArraySlice<Unicode.Scalar>) throws(CurlCommandLine.Problem) -> String {
        var text = ""
        while let next = rest.popFirst() {
            if next == "'" { return text }
            guard next == "\\", let escaped = rest.popFirst() else {
                text.unicodeScalars.append(next)
                continue
            }
            switch escaped {
            case "n": text += "\n"
            case "r": text += "\r"
            case "t": text += "\t"
            case "u", "x":
                let digits = rest.prefix(escaped == "u" ? 4 : 2).prefix { $0.properties.isASCIIHexDigit }
                let value = UInt32(String(String.UnicodeScalarView(digits)), radix: 16)
                text.unicodeScalars.append(value.flatMap(Unicode.Scalar.init) ?? "\u{FFFD}")
                rest = rest.dropFirst(digits.count)
            default: text.unicodeScalars.append(escaped)
            }
        }
        throw CurlCommandLine.Problem(description: "a quote has no end")
    }
}
