import ConvoySupport
import Foundation

/// A value in the parameters of a request.
///
/// Literals can be used at every level:
///
/// ```swift
/// let parameters: ParameterValue = ["user": "ada", "tags": ["a", "b"], "n": 3, "ok": true, "none": nil]
/// ```
///
/// Each serializer defines how the cases are written; see ``URLRequestSerialization``. In a literal of parameters, nil
/// is ``null``. In a dictionary of other values, nil omits its key (``converting(_:)``). For functions that take a
/// `ParameterValue?`, nil means no parameters.
///
/// The counterpart of the `id` parameters in AFNetworking 2.x.
public enum ParameterValue: Sendable, Hashable {
    /// A null value, sent as `field` without `=` in a query, and as `null` in JSON.
    case null
    /// A boolean, sent as `1` or `0` in a query unless the ``QueryStringStyle`` specifies otherwise.
    case bool(Bool)
    /// An integer, sent with all of its digits.
    case integer(Int64)
    /// An integer that is too large for ``integer(_:)``.
    case unsignedInteger(UInt64)
    /// A floating-point number. In JSON, numbers that are not finite are an error.
    case double(Double)
    /// A number that is sent with exactly the given digits. In a property list, a number that would have to be rounded
    /// is an error.
    case number(JSONNumber)
    /// A string, sent as UTF-8.
    case string(String)
    /// Bytes, sent as Base64 in a query and in JSON, as `<data>` in a property list, and unchanged in a multipart form.
    case data(Data)
    /// A date and time.
    case date(Date)
    /// An ordered list of values.
    case array([ParameterValue])
    /// Unordered unique values. A query repeats the plain key for each value; JSON and property lists do not support
    /// sets and receive an array. The values are sorted by their description, so that equal sets are sent as equal
    /// bytes.
    case set(Set<ParameterValue>)
    /// A dictionary of values by key.
    case dictionary([String: ParameterValue])
    /// A dictionary whose keys may be equal as Swift strings, for example `é` as one code point and as two. The members
    /// are sent in the order of the code points of their keys. A property list keeps only one of several equal keys.
    case object(JSONObject)
}

extension ParameterValue {
    /// Creates an integer of any width. ``unsignedInteger(_:)`` is used only beyond the range of `Int64`, and
    /// ``number(_:)`` only beyond 64 bits, so that equal numbers become equal parameters.
    public init(_ value: some BinaryInteger) {
        if let small = Int64(exactly: value) {
            self = .integer(small)
        } else if let large = UInt64(exactly: value) {
            self = .unsignedInteger(large)
        } else {
            self = .number(JSONNumber(value))
        }
    }

    /// Creates a number with all of its digits. Plain 64-bit integers become ``integer(_:)`` or
    /// ``unsignedInteger(_:)``.
    package init(_ value: JSONNumber) {
        if let small = Int64(value.text), String(small) == value.text {
            self = .integer(small)
        } else if let large = UInt64(value.text), String(large) == value.text {
            self = .unsignedInteger(large)
        } else {
            self = .number(value)
        }
    }

    /// Creates a decimal number with all of its digits. NaN is an error in JSON.
    package init(_ value: Decimal) { self = JSONNumber(value).map { ParameterValue($0) } ?? .double(.nan) }

    /// Creates a value from a JSON tree. Numbers keep their digits. ``JSONRequestSerializer`` sorts the keys.
    public init(_ value: JSON) {
        switch value {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .number(let value): self.init(value)
        case .string(let value): self = .string(value)
        case .array(let values): self = .array(values.map { ParameterValue($0) })
        case .object(let object):
            let values = Dictionary(object.members.map { ($0.key, ParameterValue($0.value)) }, uniquingKeysWith: { $1 })
            self = values.count == object.members.count ? .dictionary(values) : .object(object)
        }
    }

    /// The value of a key; nil if the key is missing or the value is not a dictionary.
    public subscript(key: String) -> ParameterValue? {
        switch self {
        case .dictionary(let values): values[key]
        case .object(let object): object[key].map { ParameterValue($0) }
        default: nil
        }
    }
}

extension ParameterValue: ExpressibleByStringLiteral, ExpressibleByStringInterpolation {
    /// Creates a string.
    public init(stringLiteral value: String) { self = .string(value) }
}

extension ParameterValue: ExpressibleByIntegerLiteral {
    /// Creates an integer.
    public init(integerLiteral value: Int64) { self = .integer(value) }
}

extension ParameterValue: ExpressibleByFloatLiteral {
    /// Creates a floating-point number.
    public init(floatLiteral value: Double) { self = .double(value) }
}

extension ParameterValue: ExpressibleByBooleanLiteral {
    /// Creates a boolean.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension ParameterValue: ExpressibleByNilLiteral {
    /// Creates ``null``. In a dictionary, a key with this value is not omitted.
    public init(nilLiteral: ()) { self = .null }
}

extension ParameterValue: ExpressibleByArrayLiteral {
    /// Creates an ordered list of values.
    public init(arrayLiteral elements: ParameterValue...) { self = .array(elements) }
}

extension ParameterValue: ExpressibleByDictionaryLiteral {
    /// Creates a dictionary of values by key. If a key is repeated, the last value is used.
    public init(dictionaryLiteral elements: (String, ParameterValue)...) {
        self = .dictionary(Dictionary(elements, uniquingKeysWith: { _, last in last }))
    }
}

extension ParameterValue: Encodable {
    /// Encodes the plain value: a set as an array, and data and dates according to the encoder's strategies.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .unsignedInteger(let value): try container.encode(value)
        case .double(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .data(let value): try container.encode(value)
        case .date(let value): try container.encode(value)
        case .array(let values): try container.encode(values)
        case .set(let values): try container.encode(values.sorted { $0.description < $1.description })
        case .dictionary(let values): try container.encode(values)
        case .object(let object): try container.encode(JSON.object(object))
        }
    }
}

extension ParameterValue: CustomStringConvertible {
    /// The value in AFNetworking's query style: strings unchanged, booleans as `1` or `0`, dates as `2013-01-01
    /// 00:00:00 +0000`, bytes as Base64. Containers list their elements in a fixed order, and the elements of sets are
    /// sorted by their descriptions. Values nested deeper than ``maximumDepth`` are shown as `…`.
    public var description: String { description(depth: 0) }

    private func description(depth: Int) -> String {
        if depth > ParameterValue.maximumDepth { return "…" }
        switch self {
        case .null: return "<null>"
        case .bool(let value): return value ? "1" : "0"
        case .integer(let value): return String(value)
        case .unsignedInteger(let value): return String(value)
        case .double(let value): return ParameterValue.text(of: value)
        case .number(let value): return value.text
        case .string(let value): return value
        case .data(let value): return value.base64EncodedString()
        case .date(let value): return DateText.description(of: value) ?? "\(value.timeIntervalSince1970)"
        case .array(let values):
            return "(" + values.map { $0.description(depth: depth + 1) }.joined(separator: ", ") + ")"
        case .set(let values):
            return "{(" + values.map { $0.description(depth: depth + 1) }.sorted().joined(separator: ", ") + ")}"
        case .dictionary(let values):
            return Self.description(of: values.sorted { $0.key < $1.key }, depth: depth)
        case .object(let object):
            return Self.description(of: Self.sortedMembers(object), depth: depth)
        }
    }

    private static func description(of pairs: [(key: String, value: ParameterValue)], depth: Int) -> String {
        "{" + pairs.map { "\($0.key) = \($0.value.description(depth: depth + 1));" }.joined() + "}"
    }

    /// Returns the members of an object in the order in which they are sent.
    static func sortedMembers(_ object: JSONObject) -> [(key: String, value: ParameterValue)] {
        // `<` treats canonically equivalent keys as equal.
        object.members.sorted { $0.key.unicodeScalars.lexicographicallyPrecedes($1.key.unicodeScalars) }
            .map { ($0.key, ParameterValue($0.value)) }
    }

    /// The maximum nesting for all request serializers. Deeper trees are rejected, because recursion into them could
    /// overflow the stack.
    public static let maximumDepth = 512

    /// Returns the shortest text that parses to the same number, as in `NSNumber`'s description: `3` for 3.0, `1e+20`.
    static func text(of value: Double) -> String {
        let text = value.description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// Returns the elements of a set in the order in which they are sent.
    static func sorted(_ values: Set<ParameterValue>) -> [ParameterValue] {
        // Different elements can have the same description (`1` and "1"). They are ordered by kind, because the order
        // of a set differs between runs.
        values.map { (text: $0.description, value: $0) }
            .sorted { ($0.text, $0.value.kind) < ($1.text, $1.value.kind) }
            .map(\.value)
    }

    private var kind: Int {
        switch self {
        case .null: 0
        case .bool: 1
        case .integer: 2
        case .unsignedInteger: 3
        case .double: 4
        case .number: 5
        case .string: 6
        case .data: 7
        case .date: 8
        case .array: 9
        case .set: 10
        case .dictionary: 11
        case .object: 12
        }
    }
}

extension ParameterValue {
    /// Converts any value that can be expressed as parameters. ``RequestParameters`` are converted in the same way.
    ///
    /// The supported types are dictionaries with `String` keys, arrays and array slices, sets, strings, numbers,
    /// booleans, `Data`, `Date`, `URL`, the corresponding Foundation classes, enumerations with raw values of these
    /// types, and all `Encodable` types. If the value of a key is nil, the key is omitted; use `ParameterValue.null` or
    /// `NSNull()` to send null. In an array, nil becomes null, which keeps the positions of the other elements.
    ///
    /// - Returns: The parameters; nil if the value is nil.
    /// - Throws: An `NSError` in ``URLRequestSerializationErrorDomain`` that names the key of an unsupported value or
    ///   of a value nested deeper than ``maximumDepth``; the error of an `Encodable` value's `encode(to:)`.
    public static func converting(_ value: Any?) throws -> ParameterValue? {
        try convert(value, at: []) { try ParameterValue(encoding: $0) }
    }

    /// A closure that encodes a value of a type that is not known.
    package typealias Encode = (any Encodable) throws -> ParameterValue

    /// Converts an array.
    static func converting(_ values: [Any?], encodingWith encode: Encode) throws -> ParameterValue {
        try array(of: values, at: [], encode)
    }

    /// Converts a dictionary.
    static func converting(_ values: [String: Any?], encodingWith encode: Encode) throws -> ParameterValue {
        try convert(values, at: [], encode)
    }

    /// Converts the members of a dictionary. If a key is repeated, its last value is used.
    static func converting(_ members: [(String, Any?)], encodingWith encode: Encode) throws -> ParameterValue {
        var converted = [String: ParameterValue](minimumCapacity: members.count)
        for (key, value) in members {
            converted[key] = try value.flatMap(common) ?? convert(value, at: [key], encode)
        }
        return .dictionary(converted)
    }

    /// Encodes a value; nil if the value is nil.
    static func encoding(_ value: any Encodable, with encode: Encode) throws -> ParameterValue? {
        guard let optional = value as? any OptionalValue else { return try encode(value) }
        guard let wrapped = optional.wrapped else { return nil }
        return try (wrapped as? any Encodable).flatMap { try encoding($0, with: encode) }
    }

    private static func convert(_ value: Any?, at path: [String], _ encode: Encode) throws -> ParameterValue? {
        guard let value else { return nil }
        // Handle the most common type first, because the casts below are slow.
        if type(of: value) == [String: Any?].self, let values = value as? [String: Any?] {
            return try convert(values, at: path, encode)
        }
        // An optional inside `Any` can be nested to any depth.
        if let optional = value as? any OptionalValue { return try convert(optional.wrapped, at: path, encode) }
        guard path.count <= maximumDepth else {
            throw NSError.request(.parametersTooDeep, "The parameters are nested deeper than \(maximumDepth) levels.")
        }
        if type(of: value) is NSNumber.Type, let value = value as? NSNumber { return number(value) }
        if let scalar = scalar(value) { return scalar }
        switch value {
        case let values as [String: Any?]: return try convert(values, at: path, encode)
        case let values as [Any?]: return try array(of: values, at: path, encode)
        case let values as Set<AnyHashable>:
            return .set(Set(try values.map { try convert($0.base, at: path + ["set"], encode) ?? .null }))
        case let value as any Encodable:
            return try encode(value)
        case let value as any RawRepresentable:
            return try convert(value.rawValue, at: path, encode)
        // This case handles array slices and other ordered collections.
        case let values as any RandomAccessCollection:
            return try array(of: values.map { $0 }, at: path, encode)
        default:
            let place = path.isEmpty ? "The parameters are" : "The parameter \(path.joined(separator: ".")) is"
            throw NSError.request(
                .invalidParameters, "\(place) of type \(type(of: value)), which cannot be sent.",
                subject: path.joined(separator: "."))
        }
    }

    private static func array(of values: [Any?], at path: [String], _ encode: Encode) throws -> ParameterValue {
        .array(try values.enumerated().map { try convert($0.element, at: path + [String($0.offset)], encode) ?? .null })
    }

    private static func convert(
        _ values: [String: Any?], at path: [String], _ encode: Encode
    ) throws -> ParameterValue {
        guard path.count <= maximumDepth else {
            throw NSError.request(.parametersTooDeep, "The parameters are nested deeper than \(maximumDepth) levels.")
        }
        if path.count < maximumDepth {
            // If all values are leaves, as is common, no key has to be hashed again.
            var areLeaves = true
            let leaves = values.mapValues { value in
                if areLeaves, let leaf = value.flatMap(common) { return leaf }
                areLeaves = false
                return .null
            }
            if areLeaves { return .dictionary(leaves) }
        }
        var converted = [String: ParameterValue](minimumCapacity: values.count)
        for (key, value) in values {
            if path.count < maximumDepth, let value, let leaf = common(value) {
                converted[key] = leaf
            } else {
                converted[key] = try convert(value, at: path + [key], encode)
            }
        }
        return .dictionary(converted)
    }

    /// Converts the most common leaf types without looking up conformances; nil for all other values.
    private static func common(_ value: Any) -> ParameterValue? {
        let type = type(of: value)
        if type == String.self { return (value as? String).map { .string($0) } }
        if type == Int.self { return (value as? Int).map { .integer(Int64($0)) } }
        if type == Bool.self { return (value as? Bool).map { .bool($0) } }
        if type == Double.self { return (value as? Double).map { .double($0) } }
        return nil
    }

    /// Returns the converted value if it is a leaf; otherwise nil.
    private static func scalar(_ value: Any) -> ParameterValue? {
        switch value {
        case let value as ParameterValue: value
        case let value as String: .string(value)
        case let value as Bool: .bool(value)
        case let value as any BinaryInteger: ParameterValue(value)
        case let value as Double: .double(value)
        case let value as Decimal: ParameterValue(value)
        case let value as Data: .data(value)
        case let value as Date: .date(value)
        case let value as URL: .string(value.absoluteString)
        case let value as Substring: .string(String(value))
        case let value as JSON: ParameterValue(value)
        case let value as JSONNumber: ParameterValue(value)
        case is NSNull: .null
        default: nil
        }
    }

    /// Distinguishes the kinds of `NSNumber`, because Swift casts all of them to `Bool`, `Int` and `Double`.
    private static func number(_ value: NSNumber) -> ParameterValue {
        if let decimal = value as? NSDecimalNumber { return ParameterValue(decimal.decimalValue) }
        switch UInt8(bitPattern: value.objCType.pointee) {
        case UInt8(ascii: "f"), UInt8(ascii: "d"): return .double(value.doubleValue)
        case UInt8(ascii: "Q"): return ParameterValue(value.uint64Value)
        // Booleans look like 8-bit numbers, but only two instances represent booleans.
        case _ where value === NSNumber(value: true): return true
        case _ where value === NSNumber(value: false): return false
        default: return ParameterValue(value.int64Value)
        }
    }
}

/// An optional inside an `Any`.
private protocol OptionalValue {
    var wrapped: Any? { get }
}

extension Optional: OptionalValue {
    fileprivate var wrapped: Any? { self }
}
