import ConvoySupport

/// A parsed `Set-Cookie` field (RFC 6265bis, section 5.6).
struct SetCookieField: Hashable {
    var name: [UInt8]
    var value: [UInt8]
    /// Seconds since 1970.
    var expires: Int64?
    /// Seconds, clamped.
    var maximumAge: Int64?
    /// Without the leading dot; nil or empty if the attribute is missing or empty.
    var domain: [UInt8]?
    /// As sent; nil if the attribute is missing.
    var path: [UInt8]?
    var isSecure = false
    var isHTTPOnly = false
    var sameSite = Cookie.SameSite.unspecified

    /// The maximum size of name and value together, in bytes.
    static let largestPair = 4096
    /// The maximum size of an attribute's value, in bytes; larger ones are ignored.
    static let largestAttribute = 1024

    init(_ bytes: some Collection<UInt8>) throws(CookieRefusal) {
        let bytes = Array(bytes)
        guard !bytes.contains(where: Self.isControl) else { throw .invalidCharacter }
        let end = bytes.firstIndex(of: UInt8(ascii: ";")) ?? bytes.endIndex
        let pair = bytes[..<end]
        if let equals = pair.firstIndex(of: UInt8(ascii: "=")) {
            name = Self.trimmed(pair[..<equals])
            value = Self.trimmed(pair[(equals + 1)...])
        } else {
            name = []
            value = Self.trimmed(pair)
        }
        guard name.count + value.count <= Self.largestPair else { throw .tooLarge }
        guard !name.isEmpty || !value.isEmpty else { throw .empty }
        for attribute in bytes[end...].dropFirst().split(separator: UInt8(ascii: ";")) { take(attribute) }
    }

    /// Whether a byte is a control character other than the tab, which must not occur.
    static func isControl(_ byte: UInt8) -> Bool { (byte < 0x20 && byte != 0x09) || byte == 0x7F }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        Array(ASCII.trimmed(bytes, blank: HTTPSyntax.isOptionalWhitespace))
    }

    /// Applies an attribute. Of several with the same name, the last one counts.
    private mutating func take(_ attribute: ArraySlice<UInt8>) {
        let equals = attribute.firstIndex(of: UInt8(ascii: "=")) ?? attribute.endIndex
        let name = ASCII.trimmed(attribute[..<equals], blank: HTTPSyntax.isOptionalWhitespace)
        let value = Self.trimmed(attribute[equals...].dropFirst())
        guard value.count <= Self.largestAttribute else { return }
        func isNamed(_ other: StaticString) -> Bool {
            other.withUTF8Buffer { ASCII.equalIgnoringCase(name, $0) }
        }
        if isNamed("Expires") {
            expires = CookieDate.parse(value) ?? expires
        } else if isNamed("Max-Age") {
            maximumAge = Self.seconds(value) ?? maximumAge
        } else if isNamed("Domain") {
            domain = (value.first == UInt8(ascii: ".") ? value.dropFirst() : value[...]).map(ASCII.lowercased)
        } else if isNamed("Path") {
            path = value
        } else if isNamed("Secure") {
            isSecure = true
        } else if isNamed("HttpOnly") {
            isHTTPOnly = true
        } else if isNamed("SameSite") {
            sameSite = Self.sameSite(value)
        }
    }

    private static func sameSite(_ value: [UInt8]) -> Cookie.SameSite {
        if ASCII.equalIgnoringCase(value, "none".utf8) { return .none }
        if ASCII.equalIgnoringCase(value, "lax".utf8) { return .lax }
        if ASCII.equalIgnoringCase(value, "strict".utf8) { return .strict }
        return .unspecified
    }

    /// A number of seconds, clamped so that sums do not overflow; nil if it is not a number.
    private static func seconds(_ value: [UInt8]) -> Int64? {
        let isNegative = value.first == UInt8(ascii: "-")
        let digits = isNegative ? value.dropFirst() : value[...]
        guard !digits.isEmpty, digits.allSatisfy(ASCII.isDigit) else { return nil }
        let largest: Int64 = 1 << 40
        let number = digits.reduce(Int64(0)) { min($0 * 10 + Int64($1 - UInt8(ascii: "0")), largest) }
        return isNegative ? -number : number
    }
}
