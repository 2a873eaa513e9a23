import Foundation

/// Strings of Hurl.
enum HurlText {
    /// Returns a text without its escapes.
    static func unescaped(_ text: String) -> String {
        var result = String.UnicodeScalarView(), rest = Array(text.unicodeScalars)[...]
        while let scalar = rest.popFirst() {
            guard scalar == "\\", let next = rest.popFirst() else {
                result.append(scalar)
                continue
            }
            switch next {
            case "n": result.append("\n")
            case "r": result.append("\r")
            case "t": result.append("\t")
            case "b": result.append("\u{8}")
            case "f": result.append("\u{C}")
            case "u" where rest.first == "{":
                let digits = rest.dropFirst().prefix { $0 != "}" }
                if let value = UInt32(String(String.UnicodeScalarView(digits)), radix: 16), let found = Unicode.Scalar(value)
                {
                    result.append(found)
                }
                rest = rest.dropFirst(digits.count + 2)
            default: result.append(next)
            }
        }
        return String(result)
    }

    /// Returns a string as a constant of an expression.
    static func constant(_ text: String) -> String {
        guard text.contains("'"), !text.contains("\"") else {
            return "'\(text.replacing("'", with: "''"))'"
        }
        return "\"\(text)\""
    }
}
