import Foundation

extension JSONDecoder {
    /// Decodes a value like `decode(_:from:)`, with the same results and errors, but in a third of the time.
    ///
    /// Data that is not strict JSON in UTF-8 is passed to Foundation, which decodes it or throws an error. If the
    /// decoder is a subclass or allows JSON5, all data is passed to Foundation.
    package func decodeIndexed<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        try decodePlain(type, from: data, maximumDepth: 512) ?? decode(type, from: data)
    }

    /// Decodes strict JSON. Returns nil, before decoding any part of the value, if only `decode(_:from:)` can decode
    /// the text, or if the text is nested deeper than the limit.
    func decodePlain<Value: Decodable>(_ type: Value.Type, from data: Data, maximumDepth: Int) throws -> Value? {
        guard let options = JSONDecodingOptions(self) else { return nil }
        return try data.withUnsafeBytes { bytes in
            // Foundation's limit is 512.
            guard var index = JSONIndex(bytes, maximumDepth: min(maximumDepth, 512), options: options) else { return nil }
            defer {
                // An initializer may have stored its decoder or a container, which still refers to the bytes.
                if !isKnownUniquelyReferenced(&index) { index.keepBytes() }
            }
            do {
                return try JSONValueDecoder(index).decode(type, at: 0, nil)
            } catch is JSONNumberMismatch {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "The given data was not valid JSON."))
            }
        }
    }
}

/// The settings of a `JSONDecoder` at the time a document is decoded.
struct JSONDecodingOptions {
    let dates: JSONDecoder.DateDecodingStrategy
    let data: JSONDecoder.DataDecodingStrategy
    let floats: JSONDecoder.NonConformingFloatDecodingStrategy
    let keys: JSONDecoder.KeyDecodingStrategy
    /// Whether keys differ from those in the text.
    let convertsKeys: Bool
    let userInfo: [CodingUserInfoKey: Any]

    /// Reads the settings of a decoder; nil if they do not fully determine its behaviour.
    init?(_ decoder: JSONDecoder) {
        guard type(of: decoder) == JSONDecoder.self, !decoder.allowsJSON5 else { return nil }
        let userInfo = decoder.userInfo
        // `assumesTopLevelDictionary` is stored in `userInfo`.
        guard userInfo.isEmpty || !decoder.assumesTopLevelDictionary else { return nil }
        self.userInfo = userInfo
        dates = decoder.dateDecodingStrategy
        data = decoder.dataDecodingStrategy
        floats = decoder.nonConformingFloatDecodingStrategy
        keys = decoder.keyDecodingStrategy
        if case .useDefaultKeys = keys { convertsKeys = false } else { convertsKeys = true }
    }
}

/// A coding key that no type defines: an array index, the superclass, or a dictionary key.
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

/// A `Decoder` for a value in an indexed document. It also serves as the value's single-value container.
final class JSONValueDecoder: Decoder, SingleValueDecodingContainer {
    let index: JSONIndex
    /// The position of the value in the index.
    let position: Int
    let value: JSONToken
    private let parent: JSONValueDecoder?
    private let key: (any CodingKey)?
    /// Whether the decoder was created for a nested container rather than for an initializer. For an invalid ISO 8601
    /// date, `JSONDecoder` reports the coding path of the running initializer.
    private let isNestedContainer: Bool
    /// The position of the value of each key; nil while keys are searched for in the text.
    var members: [String: Int]?
    /// The number of keys compared in the text so far.
    var comparedKeys = 0

    /// Creates a decoder for the entire document.
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

    /// Returns a decoder for a value inside this one.
    func child(at position: Int, _ key: any CodingKey, isNestedContainer: Bool = false) -> JSONValueDecoder {
        JSONValueDecoder(index, position, parent: self, key: key, isNestedContainer: isNestedContainer)
    }

    // MARK: Decoder

    var userInfo: [CodingUserInfoKey: Any] { index.options.userInfo }

    var codingPath: [any CodingKey] { path() }

    /// Returns the coding path to this value, or to a value inside it.
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

    /// The coding path of the initializer that is decoding this value.
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

/// Decoding of values by type, with the same errors as `JSONDecoder`. A key argument identifies a value inside this
/// one; nil denotes this value itself.
extension JSONValueDecoder {
    typealias Key = () -> (any CodingKey)?

    func bool(_ token: JSONToken, _ key: @autoclosure Key) throws -> Bool {
        switch token.kind {
        case .true: return true
        case .false: return false
        default: throw mismatch(Bool.self, token, key())
        }
    }

    func string(_ token: JSONToken, _ key: @autoclosure Key) throws -> String {
        guard let value = index.string(token) else { throw failure(String.self, token, key()) }
        return value
    }

    func integer<Integer: FixedWidthInteger & Decodable>(_ token: JSONToken, _ key: @autoclosure Key) throws -> Integer {
        guard let value = try index.integer(token, as: Integer.self) else { throw failure(Integer.self, token, key()) }
        return value
    }

    func double(_ token: JSONToken, _ key: @autoclosure Key) throws -> Double {
        if let value = try index.double(token) ?? unusual(token) { return value }
        throw failure(Double.self, token, key())
    }

    func float(_ token: JSONToken, _ key: @autoclosure Key) throws -> Float {
        if let value = try index.float(token) ?? unusual(token) { return value }
        throw failure(Float.self, token, key())
    }

    /// Returns infinity or NaN, if the text represents it according to the float strategy.
    private func unusual<Value: BinaryFloatingPoint>(_ token: JSONToken) -> Value? {
        // Like Foundation, accept only strings without escapes.
        guard token.kind == .string, token.isSimple,
            case .convertFromString(let infinity, let negativeInfinity, let nan) = index.options.floats
        else { return nil }
        let text = index.text(of: token)
        if text.elementsEqual(infinity.utf8) { return .infinity }
        if text.elementsEqual(negativeInfinity.utf8) { return -.infinity }
        return text.elementsEqual(nan.utf8) ? .nan : nil
    }

    /// Decodes a value of any type. Types that are subject to a strategy are handled here; all others use their own
    /// initializer.
    func decode<Value: Decodable>(_ type: Value.Type, at position: Int, _ key: @autoclosure Key) throws -> Value {
        // The most common types are decoded directly.
        if type == String.self { return same(try string(index[position], key())) }
        if type == Int.self { return same(try integer(index[position], key()) as Int) }
        if type == Double.self { return same(try double(index[position], key())) }
        if type == Bool.self { return same(try bool(index[position], key())) }
        if type == Date.self { return same(try date(position, key())) }
        if type == URL.self { return same(try url(index[position], key())) }
        if type == Data.self { return same(try data(position, key())) }
        if type == Decimal.self { return same(try decimal(index[position], key())) }
        if index.options.convertsKeys, let dictionary = type as? any StringKeyedDictionary.Type {
            return try decode(dictionary, at: position, key())
        }
        guard let key = key() else { return try type.init(from: self) }
        return try type.init(from: child(at: position, key))
    }

    @inline(never) private func decode<Value>(
        _ dictionary: any StringKeyedDictionary.Type, at position: Int, _ key: (any CodingKey)?
    ) throws -> Value {
        let value = try dictionary.init(position, key, in: self)
        guard let value = value as? Value else { throw mismatch(Value.self, index[position], key) }
        return value
    }

    /// Casts a value to the type that it is known to have.
    private func same<Known, Value>(_ value: Known) -> Value { unsafeBitCast(value, to: Value.self) }

    // MARK: Types with a strategy

    private static let iso8601 = Date.ISO8601FormatStyle()

    private func date(_ position: Int, _ key: (any CodingKey)?) throws -> Date {
        let token = index[position]
        guard token.kind != .null else { throw failure(Date.self, token, key) }
        switch index.options.dates {
        case .deferredToDate: return Date(timeIntervalSinceReferenceDate: try double(token, key))
        case .secondsSince1970: return Date(timeIntervalSince1970: try double(token, key))
        case .millisecondsSince1970: return Date(timeIntervalSince1970: try double(token, key) / 1000)
        case .iso8601:
            let text = try string(token, key)
            guard let date = try? JSONValueDecoder.iso8601.parse(text) else {
                throw DecodingError.dataCorrupted(
                    .init(
                        codingPath: pathOfInitializer,
                        debugDescription: "Expected date string to be ISO8601-formatted."))
            }
            return date
        case .custom(let decode): return try decode(itself(or: position, key))
        }
    }

    private func data(_ position: Int, _ key: (any CodingKey)?) throws -> Data {
        let token = index[position]
        guard token.kind != .null else { throw failure(Data.self, token, key) }
        switch index.options.data {
        case .deferredToData: return try Data(from: itself(or: position, key))
        case .base64:
            guard let data = Data(base64Encoded: try string(token, key)) else {
                throw corrupted("Encountered Data is not valid Base64.", key)
            }
            return data
        case .custom(let decode): return try decode(itself(or: position, key))
        }
    }

    private func url(_ token: JSONToken, _ key: (any CodingKey)?) throws -> URL {
        guard token.kind != .null else { throw failure(URL.self, token, key) }
        guard let url = URL(string: try string(token, key)) else { throw corrupted("Invalid URL string.", key) }
        return url
    }

    private func decimal(_ token: JSONToken, _ key: (any CodingKey)?) throws -> Decimal {
        guard token.kind != .null else { throw failure(Decimal.self, token, key) }
        guard let value = try index.decimal(token) else {
            throw DecodingError.typeMismatch(Decimal.self, .init(codingPath: path(to: key), debugDescription: ""))
        }
        return value
    }

    private func itself(or position: Int, _ key: (any CodingKey)?) -> JSONValueDecoder {
        guard let key else { return self }
        return child(at: position, key)
    }

    // MARK: Errors

    /// Returns the error for a value that is null or has the wrong type.
    @inline(never) func failure(_ type: Any.Type, _ token: JSONToken, _ key: (any CodingKey)?) -> DecodingError {
        guard token.kind == .null else { return mismatch(type, token, key) }
        return .valueNotFound(
            type,
            .init(
                codingPath: path(to: key),
                debugDescription: "Cannot get value of type \(type) -- found null value instead"))
    }

    @inline(never) func mismatch(_ type: Any.Type, _ token: JSONToken, _ key: (any CodingKey)?) -> DecodingError {
        .typeMismatch(
            type,
            .init(
                codingPath: path(to: key),
                debugDescription: "Expected to decode \(type) but found \(token.kind.description) instead."))
    }

    func notAContainer(_ type: Any.Type, _ name: String) -> DecodingError {
        guard value.kind == .null else { return mismatch(type, value, nil) }
        return .valueNotFound(
            type,
            .init(
                codingPath: codingPath,
                debugDescription: "Cannot get \(name) decoding container -- found null value instead"))
    }

    private func corrupted(_ description: String, _ key: (any CodingKey)?) -> DecodingError {
        .dataCorrupted(.init(codingPath: path(to: key), debugDescription: description))
    }
}

extension JSONToken.Kind: CustomStringConvertible {
    /// The names used in `JSONDecoder`'s errors.
    var description: String {
        switch self {
        case .null: "null"
        case .true, .false: "bool"
        case .number: "number"
        case .string: "a string"
        case .array: "an array"
        case .object: "a dictionary"
        }
    }
}

/// A dictionary with string keys. Key strategies apply to the keys of types, not to those of dictionaries.
private protocol StringKeyedDictionary {
    init(_ position: Int, _ key: (any CodingKey)?, in decoder: JSONValueDecoder) throws
}

extension Dictionary: StringKeyedDictionary where Key == String, Value: Decodable {
    fileprivate init(_ position: Int, _ key: (any CodingKey)?, in decoder: JSONValueDecoder) throws {
        let token = decoder.index[position]
        guard token.kind == .object else { throw decoder.failure([String: Any].self, token, key) }
        var parent = decoder
        if let key { parent = decoder.child(at: position, key, isNestedContainer: true) }
        self.init(minimumCapacity: Int(token.count))
        try decoder.index.forEachMember(of: position) { name, value in
            let element = try parent.decode(Value.self, at: value, JSONPathKey.name(name))
            // If a key is repeated, the first value is used.
            if self[name] == nil { self[name] = element }
        }
    }
}
