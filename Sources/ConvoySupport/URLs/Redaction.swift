/// URLs without their passwords, for everything that is printed.
package enum Redaction {
    /// A URL, or what was meant to be one: a bad one has a password too.
    package static func url(_ text: String) -> String {
        guard text.range(of: "//") == nil else { return self.text(text) }
        return withoutPassword(text[...])
    }

    /// A text with URLs in it.
    package static func text(_ text: String) -> String {
        var result = "", rest = text[...]
        while let slashes = rest.range(of: "//") {
            result += rest[..<slashes.upperBound]
            rest = rest[slashes.upperBound...]
            let end = rest.firstIndex { $0.isWhitespace || "\"'<>".contains($0) } ?? rest.endIndex
            result += withoutPassword(rest[..<end])
            rest = rest[end...]
        }
        return result + rest
    }

    /// Redacts the text after `//`, which may begin with user information (RFC 3986, section 3.2.1).
    private static func withoutPassword(_ text: Substring) -> String {
        let authority = text.prefix { !"/?#".contains($0) }
        // The colons of an IPv6 address.
        let isAddress = authority.first == "[" && !authority.contains("@")
        guard !isAddress, let colon = authority.firstIndex(of: ":") else { return String(text) }
        let behind = authority[authority.index(after: colon)...]
        // If this is not a port, it may be a password with an unescaped slash.
        let isPort = behind.allSatisfy { $0.isASCII && $0.isNumber }
        guard let at = authority.lastIndex(of: "@") ?? (isPort ? nil : text.lastIndex(of: "@")), at > colon else {
            return String(text)
        }
        return text[...colon] + "***" + text[at...]
    }
}
