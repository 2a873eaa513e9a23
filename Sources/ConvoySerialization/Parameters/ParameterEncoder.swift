import Foundation

extension ParameterValue {
    /// Encodes a value as parameters.
    ///
    /// Data, dates, URLs and decimal numbers keep their types, so that each serializer can choose how to write them. A
    /// `Set` is encoded as an array. A nil optional is omitted if the type's `encode(to:)` omits it, as the synthesized
    /// implementation does.
    ///
    /// - Throws: The error of the value's `encode(to:)`, or an `EncodingError` if it is nested deeper than
    ///   ``maximumDepth``.
    public init(encoding value: some Encodable) throws {
        self = try ParameterEncoder.encode(value, at: [])
    }
}

/// An encoder that collects the output of a value's `encode(to:)`.
private final class ParameterEncoder: Encoder {
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }
    private let node: Node

    private init(codingPath: [any CodingKey]) {
        self.codingPath = codingPath
        node = Node(depth: codingPath.count)
    }

    static func encode(_ value: some Encodable, at path: [any CodingKey]) throws -> ParameterValue {
        switch value {
        case let value as ParameterValue: return value
        case let value as JSON: return ParameterValue(value)
        case let value as JSONNumber: return ParameterValue(value)
        case let value as Date: return .date(value)
        case let value as Data: return .data(value)
        case let value as URL: return .string(value.absoluteString)
        case let value as Decimal: return ParameterValue(value)
        default: break
        }
        func tooDeep() -> EncodingError {
            .invalidValue(
                value, .init(codingPath: [], debugDescription: "Nested deeper than \(ParameterValue.maximumDepth) levels."))
        }
        guard path.count <= ParameterValue.maximumDepth else { throw tooDeep() }
        let encoder = ParameterEncoder(codingPath: path)
        try value.encode(to: encoder)
        guard let parameter = encoder.node.parameter else { throw tooDeep() }
        return parameter
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

    /// Returns an encoder for a position in a container, for `superEncoder()`.
    static func nested(in node: Node, at path: [any CodingKey]) -> any Encoder {
        NestedEncoder(node: node, codingPath: path)
    }
}

/// A node in the tree under construction. It is a class because containers are filled after they have been returned.
///
/// As in Foundation's encoders, requesting the same container again returns the existing one. If two kinds of container
/// are requested, the last one is used; Foundation's encoders crash in this case.
private final class Node {
    private(set) var value: ParameterValue?
    private(set) var array: [Node]?
    private(set) var dictionary: [String: Node]?
    private let depth: Int

    init(depth: Int) { self.depth = depth }

    func set(_ parameter: ParameterValue) {
        value = parameter
        array = nil
        dictionary = nil
    }

    func becomeArray() {
        if array == nil {
            value = nil
            array = []
            dictionary = nil
        }
    }

    func becomeDictionary() {
        if dictionary == nil {
            value = nil
            array = nil
            dictionary = [:]
        }
    }

    /// Returns the node for a key, which may already have content.
    func child(_ key: String) -> Node {
        if let child = dictionary?[key] { return child }
        let child = Node(depth: depth + 1)
        if !isTooDeep { dictionary?[key] = child }
        return child
    }

    func appendChild() -> Node {
        let child = Node(depth: depth + 1)
        if !isTooDeep { array?.append(child) }
        return child
    }

    /// Whether the node is beyond the limit. Containers can be nested in a loop, and recursion into an arbitrarily deep
    /// tree would overflow the stack. The tree therefore grows only one level beyond the limit, which is enough to
    /// detect the excess.
    private var isTooDeep: Bool { depth > ParameterValue.maximumDepth }

    /// The completed tree; nil if it is too deep. As in Foundation's encoders, a type that encodes nothing becomes an
    /// empty dictionary.
    var parameter: ParameterValue? {
        if isTooDeep { return nil }
        if let value { return value }
        if let array {
            var values: [ParameterValue] = []
            for node in array {
                guard let value = node.parameter else { return nil }
                values.append(value)
            }
            return .array(values)
        }
        var values: [String: ParameterValue] = [:]
        for (key, node) in dictionary ?? [:] {
            guard let value = node.parameter else { return nil }
            values[key] = value
        }
        return .dictionary(values)
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
        node.becomeDictionary()
    }

    mutating func encodeNil(forKey key: Key) { node.child(key.stringValue).set(.null) }

    mutating func encode(_ value: some Encodable, forKey key: Key) throws {
        let parameter = try ParameterEncoder.encode(value, at: codingPath + [key])
        node.child(key.stringValue).set(parameter)
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(
            KeyedContainer<Nested>(node: node.child(key.stringValue), codingPath: codingPath + [key]))
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        UnkeyedContainer(node: node.child(key.stringValue), codingPath: codingPath + [key])
    }

    mutating func superEncoder() -> any Encoder {
        ParameterEncoder.nested(in: node.child(SuperKey().stringValue), at: codingPath + [SuperKey()])
    }

    mutating func superEncoder(forKey key: Key) -> any Encoder {
        ParameterEncoder.nested(in: node.child(key.stringValue), at: codingPath + [key])
    }
}

private struct UnkeyedContainer: UnkeyedEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]
    var count: Int { node.array?.count ?? 0 }

    init(node: Node, codingPath: [any CodingKey]) {
        self.node = node
        self.codingPath = codingPath
        node.becomeArray()
    }

    private var nextPath: [any CodingKey] { codingPath + [IndexKey(intValue: count)] }

    mutating func encodeNil() { node.appendChild().set(.null) }

    mutating func encode(_ value: some Encodable) throws {
        let parameter = try ParameterEncoder.encode(value, at: nextPath)
        node.appendChild().set(parameter)
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy keyType: Nested.Type) -> KeyedEncodingContainer<Nested> {
        let path = nextPath
        return KeyedEncodingContainer(KeyedContainer<Nested>(node: node.appendChild(), codingPath: path))
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        let path = nextPath
        return UnkeyedContainer(node: node.appendChild(), codingPath: path)
    }

    mutating func superEncoder() -> any Encoder {
        let path = nextPath
        return ParameterEncoder.nested(in: node.appendChild(), at: path)
    }
}

private struct SingleContainer: SingleValueEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]

    mutating func encodeNil() { node.set(.null) }
    mutating func encode(_ value: Bool) { node.set(.bool(value)) }
    mutating func encode(_ value: String) { node.set(.string(value)) }
    mutating func encode(_ value: Double) { node.set(.double(value)) }
    mutating func encode(_ value: Float) { node.set(ParameterValue(float: value)) }
    mutating func encode(_ value: Int) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: Int8) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: Int16) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: Int32) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: Int64) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: UInt) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: UInt8) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: UInt16) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: UInt32) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: UInt64) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: Int128) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: UInt128) { node.set(ParameterValue(value)) }
    mutating func encode(_ value: some Encodable) throws {
        node.set(try ParameterEncoder.encode(value, at: codingPath))
    }
}

private struct SuperKey: CodingKey {
    var stringValue: String { "super" }
    var intValue: Int? { nil }
    init() {}
    init?(stringValue: String) { return nil }
    init?(intValue: Int) { return nil }
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

extension ParameterValue {
    /// Creates a value from the shortest decimal form of a `Float`, so that 0.1 is sent as 0.1 and not as
    /// 0.10000000149011612.
    fileprivate init(float value: Float) {
        self = .double(Double(value.description) ?? Double(value))
    }
}
