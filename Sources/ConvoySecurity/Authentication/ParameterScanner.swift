import ConvoySupport

/// Reads words and parameters of a field value from left to right. It never fails: what is not there is nil.
struct ParameterScanner {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: some Sequence<UInt8>) {
        rest = Array(bytes)[...]
    }

    var isAtEnd: Bool { rest.isEmpty }
    /// Whether an element of the list ends here.
    var isAtSeparator: Bool { rest.isEmpty || rest.first == UInt8(ascii: ",") }
    var isAtAssignment: Bool { rest.first == UInt8(ascii: "=") }

    /// Skips spaces and tabs, and tells whether there were any.
    @discardableResult
    mutating func skipSpaces() -> Bool {
        let count = rest.count
        rest = rest.drop(while: HTTPSyntax.isOptionalWhitespace)
        return rest.count < count
    }

    /// Skips commas and the space around them, and with them empty elements.
    mutating func skipSeparators() {
        rest = rest.drop { $0 == UInt8(ascii: ",") || HTTPSyntax.isOptionalWhitespace($0) }
    }

    /// Skips the rest of an element. A comma in quotes is none of its ends.
    mutating func skipElement() {
        while !isAtSeparator {
            if rest.first == UInt8(ascii: "\"") { _ = quotedString() } else { rest = rest.dropFirst() }
        }
    }

    /// A token (RFC 9110, section 5.6.2) in lower case.
    mutating func word() -> String? {
        let word = rest.prefix(while: HTTPSyntax.isTokenByte)
        guard !word.isEmpty else { return nil }
        rest = rest[word.endIndex...]
        return String(decoding: word.map(ASCII.lowercased), as: UTF8.self)
    }

    /// The rest of an element, if it has the form of a `token68` (RFC 9110, section 11.2).
    mutating func token68() -> String? {
        let letters = rest.prefix(while: BearerAuthorization.isTokenByte)
        guard !letters.isEmpty else { return nil }
        let end = rest[letters.endIndex...].drop { $0 == UInt8(ascii: "=") }.startIndex
        var after = self
        after.rest = rest[end...]
        after.skipSpaces()
        guard after.isAtSeparator else { return nil }
        let token = String(decoding: rest[rest.startIndex..<end], as: UTF8.self)
        self = after
        return token
    }

    /// The value of a parameter whose "=" comes next, and the spaces after it.
    ///
    /// - Returns: nil for a value that is no token where it has to be one, or that has control characters or no last
    ///   quote.
    mutating func value(of name: String) -> String? {
        rest = rest.dropFirst()
        skipSpaces()
        let value = rest.first == UInt8(ascii: "\"") ? quotedString() : unquotedText(withSpaces: name == "realm")
        skipSpaces()
        return value
    }

    /// A quoted string (RFC 9110, section 5.6.4), without its quotes and escapes. It is skipped also if it is bad.
    private mutating func quotedString() -> String? {
        rest = rest.dropFirst()
        var text: [UInt8] = []
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\"") {
                return HTTPSyntax.isFieldValue(text) ? String(decoding: text, as: UTF8.self) : nil
            }
            guard byte == UInt8(ascii: "\\") else {
                text.append(byte)
                continue
            }
            guard let escaped = rest.popFirst() else { return nil }
            text.append(escaped)
        }
        return nil
    }

    /// A value without quotes. Many of them are no tokens, such as a nonce in base64.
    private mutating func unquotedText(withSpaces: Bool) -> String? {
        let text = rest.prefix {
            $0 != UInt8(ascii: ",") && (withSpaces || !HTTPSyntax.isOptionalWhitespace($0))
        }
        guard HTTPSyntax.isFieldValue(text), !text.contains(UInt8(ascii: "\"")) else { return nil }
        rest = rest[text.endIndex...]
        return String(decoding: ASCII.trimmed(text, blank: HTTPSyntax.isOptionalWhitespace), as: UTF8.self)
    }

    /// The parameters of a field that is a list of them, such as `Authentication-Info`; nil if one is damaged.
    static func parameters(in fieldValue: String) -> [String: String]? {
        var scanner = ParameterScanner(fieldValue.utf8.prefix(HTTPChallenge.fieldLimit + 1))
        guard scanner.rest.count <= HTTPChallenge.fieldLimit else { return nil }
        var parameters: [String: String] = [:]
        scanner.skipSeparators()
        while !scanner.isAtEnd {
            guard let name = scanner.word() else { return nil }
            scanner.skipSpaces()
            guard scanner.isAtAssignment, let value = scanner.value(of: name), scanner.isAtSeparator else { return nil }
            if parameters[name] == nil, parameters.count < HTTPChallenge.parameterLimit { parameters[name] = value }
            scanner.skipSeparators()
        }
        return parameters
    }
}
