import ConvoySupport

/// Reads the parameters of a field value one by one: `head; name=value; name="quoted value"`.
struct ParameterList {
    struct Parameter {
        var name: ArraySlice<UInt8>
        /// Without quotes and escapes.
        var value: [UInt8]
        var isQuoted: Bool
    }

    /// What comes before the first semicolon, without the whitespace around it.
    let head: ArraySlice<UInt8>
    private var rest: ArraySlice<UInt8>

    init(_ text: String) {
        let bytes = Array(text.utf8)
        let end = bytes.firstIndex(of: Self.semicolon) ?? bytes.endIndex
        head = ASCII.trimmed(bytes[..<end])
        rest = bytes[end...].dropFirst()
    }

    /// The next parameter that has a value. One whose last quote is missing has none, and neither has what follows it.
    mutating func next() -> Parameter? {
        while !rest.isEmpty {
            let name = rest.prefix { $0 != Self.semicolon && $0 != UInt8(ascii: "=") }
            rest = rest[name.endIndex...]
            guard rest.popFirst() == UInt8(ascii: "=") else { continue }
            rest = rest.drop(while: ASCII.isWhitespace)
            guard rest.first == UInt8(ascii: "\"") else {
                let value = rest.prefix { $0 != Self.semicolon }
                rest = rest[value.endIndex...].dropFirst()
                return Parameter(name: ASCII.trimmed(name), value: Array(ASCII.trimmed(value)), isQuoted: false)
            }
            let (value, isClosed) = HTTPSyntax.quotedString(&rest)
            guard isClosed else { return nil }
            rest = rest.drop { $0 != Self.semicolon }.dropFirst()
            return Parameter(name: ASCII.trimmed(name), value: value, isQuoted: true)
        }
        return nil
    }

    private static let semicolon = UInt8(ascii: ";")
}
