/// A keyed container with the members of an object.
struct JSONKeyedContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: JSONValueDecoder

    var codingPath: [any CodingKey] { decoder.codingPath }
    var allKeys: [Key] { decoder.names.compactMap(Key.init(stringValue:)) }
    func contains(_ key: Key) -> Bool { decoder.position(of: key.stringValue) != 0 }
    func decodeNil(forKey key: Key) throws -> Bool { try value(key).kind == .null }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try decoder.bool(value(key), key) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try decoder.string(value(key), key) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try decoder.double(value(key), key) }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try decoder.float(value(key), key) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try decoder.integer(value(key), key) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try decoder.integer(value(key), key) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try decoder.integer(value(key), key) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try decoder.integer(value(key), key) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try decoder.integer(value(key), key) }
    func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 { try decoder.integer(value(key), key) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try decoder.integer(value(key), key) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try decoder.integer(value(key), key) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try decoder.integer(value(key), key) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try decoder.integer(value(key), key) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try decoder.integer(value(key), key) }
    func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 { try decoder.integer(value(key), key) }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try decoder.decode(type, at: position(key), key)
    }

    // The following overloads look up a key once. The protocol's default implementation, which is used for all other
    // types, looks it up three times.

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        guard let value = valueIfPresent(key) else { return nil }
        return try decoder.bool(value, key)
    }

    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        guard let value = valueIfPresent(key) else { return nil }
        return try decoder.string(value, key)
    }

    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        guard let value = valueIfPresent(key) else { return nil }
        return try decoder.double(value, key)
    }

    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        guard let value = valueIfPresent(key) else { return nil }
        return try decoder.integer(value, key)
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        let position = decoder.position(of: key.stringValue)
        guard position != 0, decoder.index[position].kind != .null else { return nil }
        return try decoder.decode(type, at: position, key)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> {
        try decoder.child(at: position(key), key, isNestedContainer: true).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try decoder.child(at: position(key), key, isNestedContainer: true).unkeyedContainer()
    }

    func superDecoder() -> any Decoder { superDecoder(at: JSONPathKey.name("super")) }
    func superDecoder(forKey key: Key) -> any Decoder { superDecoder(at: key) }

    private func superDecoder(at key: any CodingKey) -> any Decoder {
        let position = decoder.position(of: key.stringValue)
        return decoder.child(at: position == 0 ? decoder.index.null : position, key)
    }

    private func position(_ key: Key) throws -> Int {
        let name = key.stringValue
        let position = decoder.position(of: name)
        guard position != 0 else {
            throw DecodingError.keyNotFound(
                key,
                .init(
                    codingPath: codingPath,
                    debugDescription: "No value associated with key \(key) (\"\(name)\")."))
        }
        return position
    }

    private func value(_ key: Key) throws -> JSONToken { decoder.index[try position(key)] }

    /// Returns the value of a key; nil if the key is missing or its value is null.
    private func valueIfPresent(_ key: Key) -> JSONToken? {
        let position = decoder.position(of: key.stringValue)
        guard position != 0 else { return nil }
        let value = decoder.index[position]
        return value.kind == .null ? nil : value
    }
}

/// An unkeyed container with the elements of an array.
///
/// The position and the number of remaining elements are 32-bit numbers, so that the container fits into an existential
/// without an allocation.
struct JSONUnkeyedContainer: UnkeyedDecodingContainer {
    private let decoder: JSONValueDecoder
    /// The position of the next element.
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

    // Like `JSONDecoder`, the following methods advance even at the end. The protocol's default implementations do not.

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
