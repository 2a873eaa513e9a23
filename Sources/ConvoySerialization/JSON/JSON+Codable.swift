import Foundation

extension JSON: Codable {
    /// Reads any value. A decoder of Foundation's has read the numbers before: of more than 38 digits it keeps what a
    /// `Decimal` or a `Double` does, and the members of an object are in no order. `init(parsing:maximumDepth:)` reads
    /// the text itself and loses nothing; a manager's calls use that where a `JSON` is awaited.
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

    /// Writes the same value; an encoder of Foundation's decides about the order of members.
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
    /// Reads a number, with as many digits as the decoder has kept.
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

    /// Writes the number as the narrowest of `Int64`, `UInt64`, `Decimal` and `Double` that keeps its value.
    ///
    /// - Throws: `EncodingError` for a number beyond the range of `Double`.
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

/// A key of any name.
private struct JSONKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { return nil }
}
