/// The members of an object.
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

    // The protocol's own forms, which the other types have, look for a key three times.

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

    /// Nil also for null.
    private func valueIfPresent(_ key: Key) -> JSONToken? {
        let position = decoder.position(of: key.stringValue)
        guard position != 0 else { return nil }
        let value = decoder.index[position]
        return value.kind == .null ? nil : value
    }
}
