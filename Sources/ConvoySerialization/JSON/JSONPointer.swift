import ConvoySupport

/// The path from the root of a JSON tree to one of its values (RFC 6901): `/requests/0/id`.
public struct JSONPointer: Sendable {
    /// The keys and indices of the path, unescaped.
    public var tokens: [String]

    /// A pointer with these tokens; by default to the root.
    public init(tokens: [String] = []) { self.tokens = tokens }

    /// A pointer from its text, which is empty or begins with `/`, with `~1` for `/` and `~0` for `~`; nil for other
    /// text.
    public init?(_ text: String) {
        guard text.isEmpty || text.utf8.first == UInt8(ascii: "/") else { return nil }
        tokens = []
        for part in text.unicodeScalars.split(separator: "/", omittingEmptySubsequences: false).dropFirst() {
            var token = String.UnicodeScalarView()
            var isEscaped = false
            for scalar in part {
                switch (isEscaped, scalar) {
                case (true, "0"): token.append("~")
                case (true, "1"): token.append("/")
                case (true, _): return nil
                case (false, "~"): break
                case (false, _): token.append(scalar)
                }
                isEscaped = !isEscaped && scalar == "~"
            }
            if isEscaped { return nil }
            tokens.append(String(token))
        }
    }

    /// The pointer with one more token.
    public func appending(_ token: String) -> JSONPointer { JSONPointer(tokens: tokens + [token]) }

    /// A token as an array index: decimal digits without leading zeros; nil for other tokens.
    static func index(_ token: String) -> Int? {
        let isPlain = token.utf8.allSatisfy(ASCII.isDigit) && (token.utf8.count == 1 || token.utf8.first != 0x30)
        return isPlain ? Int(token) : nil
    }
}

extension JSONPointer: CustomStringConvertible {
    /// The text of the pointer.
    public var description: String {
        var text = String.UnicodeScalarView()
        for token in tokens {
            text.append("/")
            for scalar in token.unicodeScalars {
                switch scalar {
                case "~": text.append(contentsOf: "~0".unicodeScalars)
                case "/": text.append(contentsOf: "~1".unicodeScalars)
                default: text.append(scalar)
                }
            }
        }
        return String(text)
    }
}

extension JSONPointer: Hashable {
    public static func == (one: JSONPointer, other: JSONPointer) -> Bool {
        one.tokens.elementsEqual(other.tokens) { $0.utf8.elementsEqual($1.utf8) }
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(tokens) }
}
