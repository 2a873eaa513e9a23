import ConvoySupport

/// The path from the root of a JSON tree to one of its values (RFC 6901), for example `/requests/0/id`.
public struct JSONPointer: Sendable {
    /// The keys and indices of the path, unescaped.
    public var tokens: [String]

    /// Creates a pointer from tokens. Without tokens, it refers to the root.
    public init(tokens: [String] = []) { self.tokens = tokens }

    /// Creates a pointer from its text. The text must be empty or begin with `/`; `~1` represents `/`, and `~0`
    /// represents `~`. Returns nil for any other text.
    public init?(_ text: String) {
        let bytes = text.utf8
        guard bytes.isEmpty || bytes.first == UInt8(ascii: "/") else { return nil }
        tokens = []
        for part in bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst() {
            guard let token = Self.unescaped(part) else { return nil }
            tokens.append(token)
        }
    }

    private static func unescaped(_ part: Substring.UTF8View) -> String? {
        guard part.contains(UInt8(ascii: "~")) else { return String(Substring(part)) }
        var token: [UInt8] = []
        var rest = part[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "~") else {
                token.append(byte)
                continue
            }
            switch rest.popFirst() {
            case UInt8(ascii: "0"): token.append(UInt8(ascii: "~"))
            case UInt8(ascii: "1"): token.append(UInt8(ascii: "/"))
            default: return nil
            }
        }
        return String(decoding: token, as: UTF8.self)
    }

    /// Returns the pointer with a token appended.
    public func appending(_ token: String) -> JSONPointer { JSONPointer(tokens: tokens + [token]) }

    /// Returns whether the other pointer refers to the same value, or to a value inside it.
    public func isPrefix(of other: JSONPointer) -> Bool {
        tokens.count <= other.tokens.count && zip(tokens, other.tokens).allSatisfy { $0.hasSameCodePoints(as: $1) }
    }

    /// Returns a token as an array index: decimal digits without leading zeros. Returns nil for other tokens.
    package static func index(_ token: String) -> Int? {
        let isPlain = token.utf8.allSatisfy(ASCII.isDigit) && (token.utf8.count == 1 || token.utf8.first != 0x30)
        return isPlain ? Int(token) : nil
    }
}

extension JSONPointer: CustomStringConvertible {
    /// The text of the pointer.
    public var description: String {
        var text: [UInt8] = []
        for token in tokens {
            text.append(UInt8(ascii: "/"))
            for byte in token.utf8 {
                switch byte {
                case UInt8(ascii: "~"): text.append(contentsOf: "~0".utf8)
                case UInt8(ascii: "/"): text.append(contentsOf: "~1".utf8)
                default: text.append(byte)
                }
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

extension JSONPointer: ExpressibleByArrayLiteral {
    /// Creates a pointer from tokens, which are not escaped: `["users", "0", "name"]`.
    public init(arrayLiteral tokens: String...) { self.init(tokens: tokens) }
}

extension JSONPointer: Codable {
    /// Decodes a pointer from its text.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let pointer = JSONPointer(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "The text is not a JSON Pointer.")
        }
        self = pointer
    }

    /// Encodes the pointer as its text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension JSONPointer: Hashable {
    public static func == (one: JSONPointer, other: JSONPointer) -> Bool {
        one.tokens.elementsEqual(other.tokens) { $0.hasSameCodePoints(as: $1) }
    }

    public func hash(into hasher: inout Hasher) {
        for token in tokens { token.hashCodePoints(into: &hasher) }
    }
}

/// The URI fragment form (RFC 6901, section 6), for example `#/a%20b`.
extension JSONPointer {
    /// Creates a pointer from a URL fragment, with or without the `#`: the pointer's text in UTF-8, percent-encoded.
    /// Returns nil if the fragment is invalid, for example if it contains an invalid percent-encoding.
    public init?(uriFragment: String) {
        let fragment = uriFragment.utf8.first == UInt8(ascii: "#") ? uriFragment.utf8.dropFirst() : uriFragment.utf8[...]
        guard let bytes = PercentEncoding.strictlyDecoded(Array(fragment)[...]),
            let text = String(validating: bytes, as: UTF8.self)
        else { return nil }
        self.init(text)
    }

    /// The pointer as a URL fragment, including the `#`.
    public var uriFragment: String {
        let bytes = PercentEncoding.encoded(Array(description.utf8)[...], allowing: .query, keepsEncodings: false)
        return "#" + String(decoding: bytes, as: UTF8.self)
    }
}
