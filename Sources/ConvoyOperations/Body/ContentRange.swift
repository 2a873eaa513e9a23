import Foundation

/// The `Content-Range` header field (RFC 9110, section 14.4).
package struct ContentRange: Equatable {
    package let first: Int64
    package let last: Int64
    /// nil for `*`.
    package let total: Int64?

    package init?(_ text: String?) {
        guard let rest = Self.afterUnit(text), let slash = rest.firstIndex(of: "/"),
            let dash = rest[..<slash].firstIndex(of: "-"),
            let first = Self.number(rest[..<dash]), let last = Self.number(rest[rest.index(after: dash)..<slash]),
            first <= last
        else { return nil }
        let length = rest[rest.index(after: slash)...]
        if length == "*" {
            total = nil
        } else {
            guard let number = Self.number(length), last < number else { return nil }
            total = number
        }
        self.first = first
        self.last = last
    }

    /// The length in `bytes */1234`.
    static func unsatisfied(_ text: String?) -> Int64? {
        guard let rest = afterUnit(text), rest.hasPrefix("*/") else { return nil }
        return number(rest.dropFirst(2))
    }

    private static func afterUnit(_ text: String?) -> Substring? {
        guard let text, text.lowercased().hasPrefix("bytes ") else { return nil }
        return text.dropFirst(6)
    }

    private static func number(_ digits: Substring) -> Int64? {
        guard !digits.isEmpty, digits.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) else {
            return nil
        }
        return Int64(digits)
    }
}
