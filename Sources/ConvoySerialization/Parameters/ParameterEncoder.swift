import Foundation

extension Parameter {
    /// Any value that can be encoded, as parameters.
    ///
    /// Data, dates, URLs and decimal numbers keep their meaning; each serializer then writes them in its own way. A
    /// `Set` encodes itself as an array. An optional that is nil is left out of a dictionary where the type's own
    /// `encode(to:)` leaves it out, as the synthesized one does.
    ///
    /// - Throws: what the value's `encode(to:)` throws, and an `EncodingError` for nesting beyond ``maximumDepth``.
    public init(encoding value: some Encodable) throws {
        self = try ParameterEncoder.encode(value, at: [])
    }
}

/// Collects what one value encodes. It lives only as long as that value's `encode(to:)`.
private final class ParameterEncoder: Encoder {
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }
    private let node = Node()

    private init(codingPath: [any CodingKey]) { self.codingPath = codingPath }

    static func encode(_ value: some Encodable, at path: [any CodingKey]) throws -> Parameter {
        switch value {
        case let value as Parameter: return value
        case let value as Date: return .date(value)
        case let value as Data: return .data(value)
        case let value as URL: return .string(value.absoluteString)
        case let value as Decimal: return Parameter(value)
        default: break
        }
        guard path.count <= Parameter.maximumDepth else {
            throw EncodingError.invalidValue(
                value, .init(codingPath: [], debugDescription: "Nested deeper than \(Parameter.maximumDepth) levels."))
        }
        let encoder = ParameterEncoder(codingPath: path)
        try value.encode(to: encoder)
        return encoder.node.parameter
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(KeyedContainer<Key>(node: node, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        UnkeyedContainer(node: node, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        SingleContainer(node: node, codingPath: codingPath)
    }

    /// An encoder for one place inside a container, for `superEncoder()`.
    static func nested(in node: Node, at path: [any CodingKey]) -> any Encoder {
        NestedEncoder(node: node, codingPath: path)
    }
}

/// A place in the tree that is being built; a class, because containers are filled after they were handed out.
private final class Node {
    var value: Parameter?
    var array: [Node]?
    var dictionary: [String: Node]?

    init(_ value: Parameter? = nil) { self.value = value }

    /// What a type that encodes nothing at all leaves behind is an empty dictionary, as in Foundation's encoders.
    var parameter: Parameter {
        if let value { return value }
        if let array { return .array(array.map(\.parameter)) }
        return .dictionary((dictionary ?? [:]).mapValues(\.parameter))
    }
}

private struct NestedEncoder: Encoder {
    let node: Node
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(KeyedContainer<Key>(node: node, codingPath: codingPath))
    }
    func unkeyedContainer() -> any UnkeyedEncodingContainer { UnkeyedContainer(node: node, codingPath: codingPath) }
    func singleValueContainer() -> any SingleValueEncodingContainer {
        SingleContainer(node: node, codingPath: codingPath)
    }
}

private struct KeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: Node
    let codingPath: [any CodingKey]

    init(node: Node, codingPath: [any CodingKey]) {
        self.node = node
        self.codingPath = codingPath
        if node.dictionary == nil { node.dictionary = [:] }
    }

    private func child(_ key: String) -> Node {
        let child = Node()
        node.dictionary?[key] = child
        return child
    }

    mutating func encodeNil(forKey key: Key) { child(key.stringValue).value = .null }

    mutating func encode(_ value: some Encodable, forKey key: Key) throws {
        child(key.stringValue).value = try ParameterEncoder.encode(value, at: codingPath + [key])
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(KeyedContainer<Nested>(node: child(key.stringValue), codingPath: codingPath + [key]))
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        UnkeyedContainer(node: child(key.stringValue), codingPath: codingPath + [key])
    }

    mutating func superEncoder() -> any Encoder {
        ParameterEncoder.nested(in: child("super"), at: codingPath)
    }

    mutating func superEncoder(forKey key: Key) -> any Encoder {
        ParameterEncoder.nested(in: child(key.stringValue), at: codingPath + [key])
    }
}

private struct UnkeyedContainer: UnkeyedEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]
    var count: Int { node.array?.count ?? 0 }

    init(node: Node, codingPath: [any CodingKey]) {
        self.node = node
        self.codingPath = codingPath
        if node.array == nil { node.array = [] }
    }

    private func child() -> Node {
        let child = Node()
        node.array?.append(child)
        return child
    }

    private var nextPath: [any CodingKey] { codingPath + [IndexKey(intValue: count)] }

    mutating func encodeNil() { child().value = .null }

    mutating func encode(_ value: some Encodable) throws {
        let parameter = try ParameterEncoder.encode(value, at: nextPath)
        child().value = parameter
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy keyType: Nested.Type) -> KeyedEncodingContainer<Nested> {
        let path = nextPath
        return KeyedEncodingContainer(KeyedContainer<Nested>(node: child(), codingPath: path))
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        let path = nextPath
        return UnkeyedContainer(node: child(), codingPath: path)
    }

    mutating func superEncoder() -> any Encoder {
        let path = nextPath
        return ParameterEncoder.nested(in: child(), at: path)
    }
}

private struct SingleContainer: SingleValueEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]

    mutating func encodeNil() { node.value = .null }
    mutating func encode(_ value: Bool) { node.value = .bool(value) }
    mutating func encode(_ value: String) { node.value = .string(value) }
    mutating func encode(_ value: Double) { node.value = .double(value) }
    mutating func encode(_ value: Float) { node.value = Parameter(float: value) }
    mutating func encode(_ value: Int) { node.value = Parameter(value) }
    mutating func encode(_ value: Int8) { node.value = Parameter(value) }
    mutating func encode(_ value: Int16) { node.value = Parameter(value) }
    mutating func encode(_ value: Int32) { node.value = Parameter(value) }
    mutating func encode(_ value: Int64) { node.value = Parameter(value) }
    mutating func encode(_ value: UInt) { node.value = Parameter(value) }
    mutating func encode(_ value: UInt8) { node.value = Parameter(value) }
    mutating func encode(_ value: UInt16) { node.value = Parameter(value) }
    mutating func encode(_ value: UInt32) { node.value = Parameter(value) }
    mutating func encode(_ value: UInt64) { node.value = Parameter(value) }
    mutating func encode(_ value: some Encodable) throws {
        node.value = try ParameterEncoder.encode(value, at: codingPath)
    }
}

private struct IndexKey: CodingKey {
    let stringValue: String
    let intValue: Int?
    init(intValue: Int) {
        self.intValue = intValue
        stringValue = "Index \(intValue)"
    }
    init?(stringValue: String) { return nil }
}

extension Parameter {
    /// By way of its shortest text, so that 0.1 as a `Float` is sent as 0.1 and not as 0.10000000149011612.
    fileprivate init(float value: Float) {
        self = .double(Double(value.description) ?? Double(value))
    }
}
