/// The elements of an array.
///
/// It fits into an existential without an allocation: hence the numbers of 32 bits.
struct JSONUnkeyedContainer: UnkeyedDecodingContainer {
    private let decoder: JSONValueDecoder
    /// Where the next element stands.
    private var position: UInt32
    private var rest: UInt32
    private(set) var currentIndex = 0

    init(_ decoder: JSONValueDecoder) {
        self.decoder = decoder
        position = UInt32(truncatingIfNeeded: decoder.position + 1)
        rest = decoder.value.count
    }

    var codingPath: [any CodingKey] { decoder.codingPath }
    var count: Int? { Int(decoder.value.count) }
    var isAtEnd: Bool { rest == 0 }

    mutating func decodeNil() throws -> Bool {
        guard try next(Never.self).kind == .null else { return false }
        advance()
        return true
    }

    mutating func decode(_ type: Bool.Type) throws -> Bool { advance(after: try decoder.bool(next(type), key)) }
    mutating func decode(_ type: String.Type) throws -> String { advance(after: try decoder.string(next(type), key)) }
    mutating func decode(_ type: Double.Type) throws -> Double { advance(after: try decoder.double(next(type), key)) }
    mutating func decode(_ type: Float.Type) throws -> Float { advance(after: try decoder.float(next(type), key)) }
    mutating func decode(_ type: Int.Type) throws -> Int { try integer() }
    mutating func decode(_ type: Int8.Type) throws -> Int8 { try integer() }
    mutating func decode(_ type: Int16.Type) throws -> Int16 { try integer() }
    mutating func decode(_ type: Int32.Type) throws -> Int32 { try integer() }
    mutating func decode(_ type: Int64.Type) throws -> Int64 { try integer() }
    mutating func decode(_ type: Int128.Type) throws -> Int128 { try integer() }
    mutating func decode(_ type: UInt.Type) throws -> UInt { try integer() }
    mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try integer() }
    mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try integer() }
    mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try integer() }
    mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try integer() }
    mutating func decode(_ type: UInt128.Type) throws -> UInt128 { try integer() }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        _ = try next(type)
        return advance(after: try decoder.decode(type, at: Int(position), key))
    }

    // `JSONDecoder` steps on even at the end, other than the protocol's own forms.

    mutating func decodeIfPresent(_ type: Bool.Type) throws -> Bool? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: String.Type) throws -> String? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: Double.Type) throws -> Double? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: Float.Type) throws -> Float? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: Int.Type) throws -> Int? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: Int8.Type) throws -> Int8? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: Int16.Type) throws -> Int16? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: Int32.Type) throws -> Int32? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: Int64.Type) throws -> Int64? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: UInt.Type) throws -> UInt? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: UInt8.Type) throws -> UInt8? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: UInt16.Type) throws -> UInt16? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: UInt32.Type) throws -> UInt32? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent(_ type: UInt64.Type) throws -> UInt64? { try unlessNull { try $0.decode(type) } }
    mutating func decodeIfPresent<Value: Decodable>(_ type: Value.Type) throws -> Value? {
        try unlessNull { try $0.decode(type) }
    }

    mutating func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type
    ) throws -> KeyedDecodingContainer<NestedKey> {
        let nested = try child(KeyedDecodingContainer<NestedKey>.self, isNestedContainer: true)
        return advance(after: try nested.container(keyedBy: type))
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        let nested = try child((any UnkeyedDecodingContainer).self, isNestedContainer: true)
        return advance(after: try nested.unkeyedContainer())
    }

    mutating func superDecoder() throws -> any Decoder {
        advance(after: try child((any Decoder).self, atEnd: "Cannot get superDecoder() -- unkeyed container is at end."))
    }

    // MARK: Elements

    private var key: JSONPathKey { .index(currentIndex) }

    private func next(
        _ type: Any.Type, atEnd message: @autoclosure () -> String = "Unkeyed container is at end."
    ) throws -> JSONToken {
        guard rest > 0 else {
            throw DecodingError.valueNotFound(
                type, .init(codingPath: decoder.path(to: key), debugDescription: message()))
        }
        return decoder.index[Int(position)]
    }

    private func child(
        _ type: Any.Type, isNestedContainer: Bool = false,
        atEnd message: @autoclosure () -> String = "Unkeyed container is at end."
    ) throws -> JSONValueDecoder {
        _ = try next(type, atEnd: message())
        return decoder.child(at: Int(position), key, isNestedContainer: isNestedContainer)
    }

    private mutating func integer<Integer: FixedWidthInteger & Decodable>() throws -> Integer {
        advance(after: try decoder.integer(next(Integer.self), key))
    }

    private mutating func unlessNull<Value>(_ decode: (inout Self) throws -> Value) throws -> Value? {
        guard rest > 0, decoder.index[Int(position)].kind != .null else {
            advance()
            return nil
        }
        return try decode(&self)
    }

    private mutating func advance<Value>(after value: Value) -> Value {
        advance()
        return value
    }

    private mutating func advance() {
        currentIndex += 1
        guard rest > 0 else { return }
        rest -= 1
        position = decoder.index[Int(position)].next
    }
}
