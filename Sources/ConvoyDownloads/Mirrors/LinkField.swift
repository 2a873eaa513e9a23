import ConvoySupport

/// A link of a `Link` field (RFC 8288, section 3): `<target>; name=value; name="value"`.
struct LinkField {
    /// The URI reference between the angle brackets.
    let target: String
    /// The names in lower case, and their values without quotes; empty for one without a value.
    let parameters: [(name: String, value: String)]

    /// The value of a parameter. The first one of a name counts (section 3.3).
    subscript(name: String) -> String? { parameters.first { $0.name == name }?.value }

    /// Whether one of its relation types (section 2.1), separated by spaces, is this one, given in lower case.
    func hasRelation(_ type: String) -> Bool {
        guard let types = self["rel"] else { return false }
        return types.utf8.split(separator: UInt8(ascii: " ")).contains { ASCII.equalIgnoringCase($0, type.utf8) }
    }

    /// The links of a line. What breaks the grammar is skipped up to the next comma (section 3 and appendix B.2).
    static func links(in line: String) -> [LinkField] {
        var scanner = LinkScanner(line)
        var links: [LinkField] = []
        while let link = scanner.next() { links.append(link) }
        return links
    }
}

/// Reads links one by one.
private struct LinkScanner {
    private var rest: ArraySlice<UInt8>

    init(_ line: String) { rest = Array(line.utf8)[...] }

    mutating func next() -> LinkField? {
        while !rest.isEmpty {
            rest = rest.drop { HTTPSyntax.isOptionalWhitespace($0) || $0 == comma }
            guard rest.first == UInt8(ascii: "<"), let end = rest.firstIndex(of: UInt8(ascii: ">")) else {
                skipLink()
                continue
            }
            let target = ASCII.trimmed(rest[rest.startIndex..<end].dropFirst())
            rest = rest[(end + 1)...]
            return LinkField(target: String(decoding: target, as: UTF8.self), parameters: parameters())
        }
        return nil
    }

    /// The parameters up to the end of the link.
    private mutating func parameters() -> [(name: String, value: String)] {
        var parameters: [(name: String, value: String)] = []
        while true {
            skipSpaces()
            guard rest.first == semicolon else { break }
            rest = rest.dropFirst()
            skipSpaces()
            let name = rest.prefix(while: HTTPSyntax.isTokenByte)
            rest = rest[name.endIndex...]
            skipSpaces()
            var value: [UInt8] = []
            if rest.first == UInt8(ascii: "=") {
                rest = rest.dropFirst()
                skipSpaces()
                value = self.value()
            }
            guard !name.isEmpty else { continue }
            parameters.append(
                (
                    String(decoding: name.map(ASCII.lowercased), as: UTF8.self), String(decoding: value, as: UTF8.self)
                ))
        }
        skipLink()
        return parameters
    }

    private mutating func value() -> [UInt8] {
        guard rest.first == UInt8(ascii: "\"") else {
            let value = rest.prefix { $0 != comma && $0 != semicolon && !HTTPSyntax.isOptionalWhitespace($0) }
            rest = rest[value.endIndex...]
            return Array(value)
        }
        return HTTPSyntax.quotedString(&rest).text
    }

    /// Skips to the next comma outside quoted strings.
    private mutating func skipLink() {
        rest = rest[(HTTPSyntax.firstSeparator(",", in: rest) ?? rest.endIndex)...]
    }

    private mutating func skipSpaces() { rest = rest.drop(while: HTTPSyntax.isOptionalWhitespace) }

    private let comma = UInt8(ascii: ",")
    private let semicolon = UInt8(ascii: ";")
}
