import ConvoySupport

/// Reads the directives of `Cache-Control` one by one (RFC 9111, section 5.2). Nothing in a value is an error to it:
/// what is not a directive is skipped up to the next comma.
struct DirectiveScanner {
    struct Directive {
        /// In lower case.
        var name: String
        /// Without quotes; nil if there is no `=`.
        var value: String?
        /// Whether there is something about it that the grammar does not know, so that its value cannot be trusted.
        var isMalformed = false

        /// The value as a number of seconds; nil if it is none.
        var seconds: Int64? { isMalformed ? nil : value.flatMap { DeltaSeconds.parse($0.utf8) } }
    }

    private var rest: Substring.UTF8View

    init(_ value: String) { rest = Substring(value).utf8 }

    mutating func next() -> Directive? {
        rest = rest.drop { HTTPSyntax.isOptionalWhitespace($0) || $0 == UInt8(ascii: ",") }
        guard !rest.isEmpty else { return nil }
        let name = rest.prefix(while: HTTPSyntax.isTokenByte)
        rest = rest.dropFirst(name.count)
        var directive = Directive(name: FieldNames.lowercased(Substring(name)), value: nil)
        if rest.first == UInt8(ascii: "=") {
            rest = rest.dropFirst()
            directive.value = value()
        }
        directive.isMalformed = skipToComma() || name.isEmpty
        return directive
    }

    private mutating func value() -> String {
        guard rest.first == UInt8(ascii: "\"") else {
            let value = rest.prefix { $0 != UInt8(ascii: ",") && !HTTPSyntax.isOptionalWhitespace($0) }
            rest = rest.dropFirst(value.count)
            return String(Substring(value))
        }
        return String(decoding: HTTPSyntax.quotedString(&rest).text, as: UTF8.self)
    }

    /// Goes on to the next comma that is not quoted. True if there was anything but whitespace.
    private mutating func skipToComma() -> Bool {
        var isQuoted = false
        var found = false
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: ","), !isQuoted { return found }
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if !HTTPSyntax.isOptionalWhitespace(byte) { found = true }
        }
        return found
    }
}
