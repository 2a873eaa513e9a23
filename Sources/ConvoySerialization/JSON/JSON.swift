import ConvoySupport
import Foundation

/// A JSON value as a lossless tree (RFC 8259). Numbers keep their digits, and objects keep the order of their members.
///
/// Trees are compared as specified in RFC 6902, section 4.6: numbers by value, strings by code points, and objects
/// regardless of the order of their members.
///
/// Comparing, writing and freeing a tree use one stack frame per level. The parser limits the depth of parsed trees.
/// Trees that you build should not be deeper than a few thousand levels.
public enum JSON: Sendable {
    /// The value `null`.
    case null
    /// The value `true` or `false`.
    case bool(Bool)
    /// A number, as written in the text.
    case number(JSONNumber)
    /// A string, without the escapes of its JSON form.
    case string(String)
    /// An ordered list of values.
    case array([JSON])
    /// A dictionary of values by key, in their original order.
    case object(JSONObject)

    /// Parses JSON in UTF-8, with or without a byte-order mark.
    ///
    /// The parser is stricter than Foundation's on Linux: a comma before a closing bracket is an error. If a key is
    /// repeated, the first value is used, as in `JSONDecoder`.
    ///
    /// - Parameters:
    ///   - data: The text, in UTF-8.
    ///   - maximumDepth: The maximum nesting of arrays and objects. Each level uses a stack frame.
    ///   - rejectsDuplicateKeys: Whether a repeated key is an error.
    public init(
        parsing data: Data, maximumDepth: Int = 512, rejectsDuplicateKeys: Bool = false
    ) throws(JSONSyntaxError) {
        self = try JSONParser.value(of: data, maximumDepth: maximumDepth, rejectsDuplicateKeys: rejectsDuplicateKeys)
    }

    /// The value at a pointer; nil if it does not exist.
    public subscript(pointer: JSONPointer) -> JSON? {
        var value = self
        for token in pointer.tokens {
            guard let next = value[token] ?? JSONPointer.index(token).flatMap({ value[$0] }) else { return nil }
            value = next
        }
        return value
    }

    /// The member of an object with the given key; nil if the key is missing or the value is not an object.
    public subscript(key: String) -> JSON? {
        guard case .object(let object) = self else { return nil }
        return object[key]
    }

    /// The element of an array at the given index; nil if the index is out of range or the value is not an array.
    public subscript(index: Int) -> JSON? {
        guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
        return elements[index]
    }
}

extension JSON: Hashable {
    public static func == (one: JSON, other: JSON) -> Bool {
        switch (one, other) {
        case (.null, .null): true
        case (.bool(let one), .bool(let other)): one == other
        case (.number(let one), .number(let other)): one == other
        case (.string(let one), .string(let other)): one.hasSameCodePoints(as: other)
        case (.array(let one), .array(let other)): one == other
        case (.object(let one), .object(let other)): one == other
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .number(let value): hasher.combine(value)
        case .string(let value): value.hashCodePoints(into: &hasher)
        case .array(let values): hasher.combine(values)
        case .object(let values): hasher.combine(values)
        }
    }
}

extension JSON: CustomStringConvertible {
    /// The JSON text, without whitespace.
    public var description: String {
        var output = JSONOutput()
        write(to: &output)
        return String(decoding: output.bytes, as: UTF8.self)
    }

    private func write(to output: inout JSONOutput) {
        switch self {
        case .null: output.append("null")
        case .bool(let value): output.append(value ? "true" : "false")
        case .number(let value): output.append(value.text)
        case .string(let value): output.appendQuoted(value)
        case .array(let values):
            output.append("[")
            for (index, value) in values.enumerated() {
                if index > 0 { output.append(",") }
                value.write(to: &output)
            }
            output.append("]")
        case .object(let object):
            output.append("{")
            for (index, member) in object.members.enumerated() {
                if index > 0 { output.append(",") }
                output.appendQuoted(member.key)
                output.append(":")
                member.value.write(to: &output)
            }
            output.append("}")
        }
    }
}

/// Literals can be used at every level: `let json: JSON = ["name": "ada", "tags": ["a", "b"], "n": 3, "none": nil]`.
extension JSON: ExpressibleByNilLiteral {
    /// Creates `null`.
    public init(nilLiteral: ()) { self = .null }
}

extension JSON: ExpressibleByBooleanLiteral {
    /// Creates a boolean.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSON: ExpressibleByIntegerLiteral {
    /// Creates an integer.
    public init(integerLiteral value: Int) { self = .number(JSONNumber(value)) }
}

extension JSON: ExpressibleByFloatLiteral {
    /// Creates a number, in the shortest form of a `Double`; `null` if the value is not finite.
    public init(floatLiteral value: Double) { self = JSONNumber(value).map(JSON.number) ?? .null }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByStringInterpolation {
    /// Creates a string.
    public init(stringLiteral value: String) { self = .string(value) }
}

extension JSON: ExpressibleByArrayLiteral {
    /// Creates an array.
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }
}

extension JSON: ExpressibleByDictionaryLiteral {
    /// Creates an object with its members in the order written. If a key is repeated, the last value is used.
    public init(dictionaryLiteral elements: (String, JSON)...) {
        var object = JSONObject()
        for (key, value) in elements { object[key] = value }
        self = .object(object)
    }
}

extension JSON: Codable {
    /// Decodes any value. Foundation's decoders convert numbers first, so a number with more than 38 digits is rounded
    /// to a `Decimal` or a `Double`, and they do not preserve the order of members.
    /// ``init(parsing:maximumDepth:rejectsDuplicateKeys:)`` parses the text directly, without any loss. Manager calls
    /// that return a `JSON` use that initializer.
    public init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: JSONKey.self) {
            var object = JSONObject()
            for key in container.allKeys {
                object.append(key: key.stringValue, value: try container.decode(JSON.self, forKey: key))
            }
            self = .object(object)
        } else if var container = try? decoder.unkeyedContainer() {
            var values: [JSON] = []
            while !container.isAtEnd { values.append(try container.decode(JSON.self)) }
            self = .array(values)
        } else {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() {
                self = .null
            } else if let value = try? container.decode(Bool.self) {
                self = .bool(value)
            } else if let value = try? container.decode(String.self) {
                self = .string(value)
            } else {
                self = .number(try container.decode(JSONNumber.self))
            }
        }
    }

    /// Encodes the value. The encoder determines the order of members.
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .object(let object):
            var container = encoder.container(keyedBy: JSONKey.self)
            for member in object.members { try container.encode(member.value, forKey: JSONKey(stringValue: member.key)) }
        case .array(let values):
            var container = encoder.unkeyedContainer()
            for value in values { try container.encode(value) }
        case .string(let value): try value.encode(to: encoder)
        case .number(let value): try value.encode(to: encoder)
        case .bool(let value): try value.encode(to: encoder)
        case .null:
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        }
    }
}

extension JSONNumber: Codable {
    /// Decodes a number, with as many digits as the decoder preserves.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let value = try? container.decode(Int64.self) {
            self.init(value)
        } else if let value = try? container.decode(UInt64.self) {
            self.init(value)
        } else if let value = try? container.decode(Decimal.self), let number = JSONNumber(value) {
            self = number
        } else if let number = JSONNumber(try container.decode(Double.self)) {
            self = number
        } else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "The number is not finite.")
        }
    }

    /// Encodes the number as the first of `Int64`, `UInt64`, `Decimal` and `Double` that preserves its value.
    ///
    /// - Throws: `EncodingError` if the number exceeds the range of `Double`.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let value = integer(as: Int64.self) { return try container.encode(value) }
        if let value = integer(as: UInt64.self) { return try container.encode(value) }
        if let value = Decimal(string: text), JSONNumber(value) == self { return try container.encode(value) }
        guard let double else {
            throw EncodingError.invalidValue(
                self, .init(codingPath: encoder.codingPath, debugDescription: "\(text) is beyond the range of a Double."))
        }
        try container.encode(double)
    }
}

/// A key with an arbitrary name.
private struct JSONKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { return nil }
}

/// A number that keeps all of its digits (RFC 8259, section 6).
///
/// Numbers are compared by value: `1.10`, `1.1` and `11e-1` are equal.
public struct JSONNumber: Sendable {
    /// The number as written: `-12.50e+3`.
    public let text: String

    /// Creates a number from its text; nil if the text is not a JSON number, for example `+1`, `.5`, `01` or `NaN`.
    public init?(_ text: String) {
        guard !text.isEmpty, JSONNumber.length(text.utf8) == text.utf8.count else { return nil }
        self.text = text
    }

    /// Creates a number from an integer of any width.
    public init(_ value: some BinaryInteger) { text = value.description }

    /// Creates a number in the shortest form that parses to the same value; nil if the value is not finite.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        let text = value.description
        self.text = text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// Creates a decimal number with all of its digits; nil for NaN.
    public init?(_ value: Decimal) { self.init(value.description) }

    /// The nearest `Double`; nil if the number exceeds its range.
    public var double: Double? { Double(text).flatMap { $0.isFinite ? $0 : nil } }

    /// Returns the number as an integer; nil if it has a fractional part or exceeds the range of the type.
    public func integer<Integer: FixedWidthInteger>(as type: Integer.Type = Integer.self) -> Integer? {
        guard let value else { return Integer(text) }
        // No Swift integer has a thousand digits.
        guard value.exponent >= 0, value.exponent < 1000 else { return nil }
        let zeros = String(repeating: "0", count: value.exponent)
        return Integer((value.isNegative ? "-" : "") + value.digits + zeros)
    }

    /// Returns the length of the number at the start of the bytes; 0 if it is missing or incomplete.
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

    /// The value of a number: the digits without leading and trailing zeros, and the exponent of the last digit.
    private struct Value: Hashable {
        var isNegative: Bool
        var digits: String
        var exponent: Int
    }

    /// The value; nil if the exponent exceeds 64 bits.
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
