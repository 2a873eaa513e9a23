import Foundation

/// The key of a value that is in no `CodingKey` of a type: an index, the superclass, a key of a dictionary.
enum JSONPathKey: CodingKey {
    case index(Int)
    case name(String)

    init(stringValue: String) { self = .name(stringValue) }
    init(intValue: Int) { self = .index(intValue) }

    var stringValue: String {
        switch self {
        case .index(let index): "Index \(index)"
        case .name(let name): name
        }
    }

    var intValue: Int? {
        switch self {
        case .index(let index): index
        case .name: nil
        }
    }
}

/// A `Decoder` for one value of an indexed document. It is the value's container, too, if that is asked for as a single
/// one.
final class JSONValueDecoder: Decoder, SingleValueDecodingContainer {
    let index: JSONIndex
    /// Where the value stands in the index.
    let position: Int
    let value: JSONToken
    let parent: JSONValueDecoder?
    private let key: (any CodingKey)?
    /// Whether it was made for a nested container rather than for an initializer. `JSONDecoder` names the position of an
    /// invalid ISO 8601 date by that of the initializer that runs.
    private let isNestedContainer: Bool
    /// The value of each key, where these are not looked for in the text; see `JSONValueDecoder+Keys.swift`.
    var members: [String: Int]?
    /// How many keys were looked at in the text.
    var comparedKeys = 0

    /// A decoder for the whole document.
    convenience init(_ index: JSONIndex) { self.init(index, 0, parent: nil, key: nil) }

    private init(
        _ index: JSONIndex, _ position: Int, parent: JSONValueDecoder?, key: (any CodingKey)?,
        isNestedContainer: Bool = false
    ) {
        self.index = index
        self.position = position
        value = index[position]
        self.parent = parent
        self.key = key
        self.isNestedContainer = isNestedContainer
    }

    /// A decoder for a value in this one.
    func child(at position: Int, _ key: any CodingKey, isNestedContainer: Bool = false) -> JSONValueDecoder {
        JSONValueDecoder(index, position, parent: self, key: key, isNestedContainer: isNestedContainer)
    }

    // MARK: Decoder

    var userInfo: [CodingUserInfoKey: Any] { index.options.userInfo }

    var codingPath: [any CodingKey] { path() }

    /// The coding path to this value, or to one in it.
    func path(to last: (any CodingKey)? = nil) -> [any CodingKey] {
        var path: [any CodingKey] = []
        if let last { path.append(last) }
        var decoder: JSONValueDecoder? = self
        while let next = decoder {
            if let key = next.key { path.append(key) }
            decoder = next.parent
        }
        path.reverse()
        return path
    }

    /// The coding path of the initializer that decodes this value.
    var pathOfInitializer: [any CodingKey] {
        var decoder = self
        while decoder.isNestedContainer, let parent = decoder.parent { decoder = parent }
        return decoder.codingPath
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard value.kind == .object else { throw notAContainer([String: Any].self, "keyed") }
        convertKeys()
        return KeyedDecodingContainer(JSONKeyedContainer<Key>(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard value.kind == .array else { throw notAContainer([Any].self, "unkeyed") }
        return JSONUnkeyedContainer(self)
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    // MARK: Single value

    func decodeNil() -> Bool { value.kind == .null }
    func decode(_ type: Bool.Type) throws -> Bool { try bool(value, nil) }
    func decode(_ type: String.Type) throws -> String { try string(value, nil) }
    func decode(_ type: Double.Type) throws -> Double { try double(value, nil) }
    func decode(_ type: Float.Type) throws -> Float { try float(value, nil) }
    func decode(_ type: Int.Type) throws -> Int { try integer(value, nil) }
    func decode(_ type: Int8.Type) throws -> Int8 { try integer(value, nil) }
    func decode(_ type: Int16.Type) throws -> Int16 { try integer(value, nil) }
    func decode(_ type: Int32.Type) throws -> Int32 { try integer(value, nil) }
    func decode(_ type: Int64.Type) throws -> Int64 { try integer(value, nil) }
    func decode(_ type: Int128.Type) throws -> Int128 { try integer(value, nil) }
    func decode(_ type: UInt.Type) throws -> UInt { try integer(value, nil) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try integer(value, nil) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try integer(value, nil) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try integer(value, nil) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try integer(value, nil) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try integer(value, nil) }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try decode(type, at: position, nil) }
}
