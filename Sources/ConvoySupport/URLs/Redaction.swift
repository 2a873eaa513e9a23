/// URLs without their secrets, for everything that is printed: user information (RFC 3986, section 3.2.1), and the
/// values of query items with a sensitive name, in the query and in the fragment.
///
/// It works on bytes: a combining accent behind an `@` or a `=` must not hide it.
package enum Redaction {
    /// What stands for a secret.
    package static let mask = "***"

    /// A URL, or what was meant to be one: a bad one has secrets too.
    package static func url(_ text: String, _ names: SensitiveNames = .standard) -> String {
        if hasNothingToHide(text) { return text }
        let bytes = Array(text.utf8)
        guard let start = slashes(in: bytes[...]) else { return string(part(bytes[...], names)) }
        return string(bytes[..<(start + 2)] + part(bytes[(start + 2)...], names))
    }

    /// Whether it is a URL without user information, query, fragment, and another URL in its path, as most are: that is seen
    /// without a copy.
    private static func hasNothingToHide(_ text: String) -> Bool {
        let found = text.utf8.withContiguousStorageIfAvailable { bytes in
            var slashes = 0, previous: UInt8 = 0
            for byte in bytes {
                switch byte {
                case UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: "@"): return false
                case UInt8(ascii: "/") where previous == UInt8(ascii: "/"): slashes += 1
                default: break
                }
                previous = byte
            }
            return slashes == 1
        }
        return found ?? false
    }

    /// A text with URLs in it.
    package static func text(_ text: String, _ names: SensitiveNames = .standard) -> String {
        let bytes = Array(text.utf8)
        return slashes(in: bytes[...]) == nil ? text : string(self.text(bytes, names))
    }

    /// The items of a query or of a form, separated by `&` or `;`.
    package static func items(_ query: String, _ names: SensitiveNames = .standard) -> String {
        string(items(Array(query.utf8)[...], names, depth: 0))
    }

    /// A path with its query, as in a request line.
    package static func target(_ target: String, _ names: SensitiveNames = .standard) -> String {
        string(query(Array(target.utf8)[...], names, depth: 0))
    }

    // MARK: Bytes

    private static func string(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private static func slashes(in bytes: ArraySlice<UInt8>) -> Int? {
        bytes.indices.dropLast().first { bytes[$0] == UInt8(ascii: "/") && bytes[$0 + 1] == UInt8(ascii: "/") }
    }

    private static func text(_ bytes: [UInt8], _ names: SensitiveNames) -> [UInt8] {
        var result: [UInt8] = [], rest = bytes[...]
        while let start = slashes(in: rest) {
            result += rest[..<(start + 2)]
            rest = rest[(start + 2)...]
            let end = rest.firstIndex { $0 <= 0x20 || "\"'<>".utf8.contains($0) } ?? rest.endIndex
            result += part(rest[..<end], names)
            rest = rest[end...]
        }
        return result + rest
    }

    /// Redacts the text after `//`, which may begin with user information.
    private static func part(_ text: ArraySlice<UInt8>, _ names: SensitiveNames) -> [UInt8] {
        let authority = text.prefix { !"/?#".utf8.contains($0) }
        var rest = text
        if let at = authority.lastIndex(of: UInt8(ascii: "@")) ?? endOfOddPassword(in: text, authority) {
            rest = text[at...]
            return Array(mask.utf8) + query(rest, names, depth: 0)
        }
        return query(rest, names, depth: 0)
    }

    /// The `@` behind what may be a password with an unescaped slash: the text behind the colon is not a port.
    private static func endOfOddPassword(in text: ArraySlice<UInt8>, _ authority: ArraySlice<UInt8>) -> Int? {
        // The colons of an IPv6 address.
        guard authority.first != UInt8(ascii: "["), let colon = authority.firstIndex(of: UInt8(ascii: ":")),
            !authority[(colon + 1)...].allSatisfy(ASCII.isDigit), let at = text.lastIndex(of: UInt8(ascii: "@")),
            at > colon
        else { return nil }
        return at
    }

    /// Redacts what follows the first `?` or `#`.
    private static func query(_ text: ArraySlice<UInt8>, _ names: SensitiveNames, depth: Int) -> [UInt8] {
        let mark = text.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? text.endIndex
        // There may be a URL in the path.
        let path = slashes(in: text[..<mark]) == nil ? Array(text[..<mark]) : self.text(Array(text[..<mark]), names)
        guard mark < text.endIndex else { return path }
        return path + [text[mark]] + items(text[(mark + 1)...], names, depth: depth)
    }

    private static func items(_ text: ArraySlice<UInt8>, _ names: SensitiveNames, depth: Int) -> [UInt8] {
        var result: [UInt8] = [], rest = text
        while true {
            // A `?` or `#` begins another list of items, of a URL in the URL.
            let end = rest.firstIndex { "&;?#".utf8.contains($0) } ?? rest.endIndex
            result += item(rest[..<end], names, depth: depth)
            guard end < rest.endIndex else { return result }
            result.append(rest[end])
            rest = rest[(end + 1)...]
        }
    }

    private static func item(_ text: ArraySlice<UInt8>, _ names: SensitiveNames, depth: Int) -> [UInt8] {
        guard let equals = text.firstIndex(of: UInt8(ascii: "=")), equals + 1 < text.endIndex else { return Array(text) }
        let value = text[(equals + 1)...]
        if names.contains(PercentEncoding.decoded(text[..<equals])) { return text[...equals] + Array(mask.utf8) }
        // The value may be a URL of its own, with its own items.
        guard depth < 3, value.contains(UInt8(ascii: "%")) || slashes(in: value) != nil else { return Array(text) }
        let decoded = PercentEncoding.decoded(value)
        let isHarmless = query(decoded[...], names, depth: depth + 1) == decoded && !hasUserInfo(decoded)
        return isHarmless ? Array(text) : text[...equals] + Array(mask.utf8)
    }

    private static func hasUserInfo(_ bytes: [UInt8]) -> Bool {
        guard let start = slashes(in: bytes[...]) else { return false }
        return bytes[(start + 2)...].prefix { !"/?#".utf8.contains($0) }.contains(UInt8(ascii: "@"))
    }
}
