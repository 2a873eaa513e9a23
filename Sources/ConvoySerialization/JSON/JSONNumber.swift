import ConvoySupport
import Foundation

/// A number that keeps all its digits (RFC 8259, section 6).
///
/// Numbers are compared by value: `1.10`, `1.1` and `11e-1` are equal.
public struct JSONNumber: Sendable {
    /// The number as written: `-12.50e+3`.
    public let text: String

    /// A number from its text; nil for text that is not a JSON number, such as `+1`, `.5`, `01` and `NaN`.
    public init?(_ text: String) {
        guard !text.isEmpty, JSONNumber.length(text.utf8) == text.utf8.count else { return nil }
        self.text = text
    }

    /// A whole number of any width.
    public init(_ value: some BinaryInteger) { text = value.description }

    /// A number in the shortest form that parses to the same value; nil for one that is not finite.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        let text = value.description
        self.text = text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// A decimal number, with all its digits; nil for NaN.
    public init?(_ value: Decimal) { self.init(value.description) }

    /// The nearest `Double`; nil for a number beyond its range.
    public var double: Double? { Double(text).flatMap { $0.isFinite ? $0 : nil } }

    /// The number as an integer; nil for one that is not whole, or beyond the range.
    public func integer<Integer: FixedWidthInteger>(as type: Integer.Type = Integer.self) -> Integer? {
        guard let value else { return Integer(text) }
        // No Swift integer has a thousand digits.
        guard value.exponent >= 0, value.exponent < 1000 else { return nil }
        let zeros = String(repeating: "0", count: value.exponent)
        return Integer((value.isNegative ? "-" : "") + value.digits + zeros)
    }

    /// How many bytes at the beginning form a number; 0 if there is none, or an incomplete one.
    static func length(_ bytes: some Collection<UInt8>) -> Int {
        var rest = bytes[...]
        func digits() -> Int {
            let count = rest.prefix(while: ASCII.isDigit).count
            rest = rest.dropFirst(count)
            return count
        }
        func take(_ characters: StaticString) -> Bool {
            guard let first = rest.first else { return false }
            let isThere = characters.withUTF8Buffer { $0.contains(first) }
            if isThere { rest = rest.dropFirst() }
            return isThere
        }
        _ = take("-")
        let startsWithZero = rest.first == UInt8(ascii: "0")
        let whole = digits()
        guard whole == 1 || (whole > 1 && !startsWithZero) else { return 0 }
        if take("."), digits() == 0 { return 0 }
        if take("eE") {
            _ = take("+-")
            if digits() == 0 { return 0 }
        }
        return bytes.count - rest.count
    }
}

extension JSONNumber: CustomStringConvertible {
    /// The number as written.
    public var description: String { text }
}

extension JSONNumber: Hashable {
    public static func == (one: JSONNumber, other: JSONNumber) -> Bool {
        if one.text == other.text { return true }
        guard let value = one.value, let otherValue = other.value else { return false }
        return value == otherValue
    }

    public func hash(into hasher: inout Hasher) {
        if let value { hasher.combine(value) } else { hasher.combine(text) }
    }

    /// The value: the digits without leading and trailing zeros, and the power of ten of the last one.
    private struct Value: Hashable {
        var isNegative: Bool
        var digits: String
        var exponent: Int
    }

    /// Nil for an exponent of more than 64 bits.
    private var value: Value? {
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let parts = text.utf8.dropFirst(isNegative ? 1 : 0).split(maxSplits: 1) { $0 | 0x20 == UInt8(ascii: "e") }
        let mantissa = parts[0].split(separator: UInt8(ascii: "."))
        let fraction = mantissa.count > 1 ? mantissa[1] : "".utf8[...]
        let digits = (Array(mantissa[0]) + fraction).drop { $0 == UInt8(ascii: "0") }
        let zeros = digits.reversed().prefix { $0 == UInt8(ascii: "0") }.count
        if digits.isEmpty { return Value(isNegative: false, digits: "0", exponent: 0) }
        guard let stated = parts.count > 1 ? Int(Substring(parts[1])) : 0 else { return nil }
        let (exponent, overflow) = stated.addingReportingOverflow(zeros - fraction.count)
        if overflow { return nil }
        return Value(
            isNegative: isNegative, digits: String(decoding: digits.dropLast(zeros), as: UTF8.self), exponent: exponent)
    }
}
