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
            // A comment, as a printed command has for what it leaves out.
            case "#" where !hasWord: rest = rest.drop { $0 != "\n" }
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
                var value = number(&rest, atMost: escaped == "u" ? 4 : 2)
                // Browsers write a character beyond U+FFFF as two.
                if let first = value, (0xD800...0xDBFF).contains(first), rest.starts(with: ["\\", "u"]) {
                    var behind = rest.dropFirst(2)
                    if let second = number(&behind, atMost: 4), (0xDC00...0xDFFF).contains(second) {
                        (value, rest) = (0x10000 + (first - 0xD800) << 10 + second - 0xDC00, behind)
                    }
                }
                text.unicodeScalars.append(value.flatMap(Unicode.Scalar.init) ?? "\u{FFFD}")
            default: text.unicodeScalars.append(escaped)
            }
        }
        throw CurlCommandLine.Problem(description: "a quote has no end")
    }

    /// Takes a hexadecimal number; nil without a digit.
    private static func number(_ rest: inout ArraySlice<Unicode.Scalar>, atMost count: Int) -> UInt32? {
        let digits = rest.prefix(count).prefix { $0.properties.isASCIIHexDigit }
        rest = rest.dropFirst(digits.count)
        return UInt32(String(String.UnicodeScalarView(digits)), radix: 16)
    }
}
