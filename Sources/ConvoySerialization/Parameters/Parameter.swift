import Foundation

/// A value in a request's parameters: one node of their tree.
///
/// Literals work at every level:
///
/// ```swift
/// let parameters: Parameter = ["user": "ada", "tags": ["a", "b"], "n": 3, "ok": true, "none": nil]
/// ```
///
/// A serializer decides what becomes of each case; see ``URLRequestSerialization``. Inside a literal of parameters nil
/// is ``null``, while in a dictionary of other values nil leaves its key out (``converting(_:)``). Where a function
/// takes `Parameter?`, nil means that there are no parameters at all.
///
/// The counterpart of the `id` that AFNetworking 2.x accepts.
public enum Parameter: Sendable, Hashable {
    /// No value: `field` without `=` in a query, `null` in JSON.
    case null
    /// True or false: `1` or `0` in a query, unless the ``QueryStringStyle`` says otherwise.
    case bool(Bool)
    /// A whole number.
    case integer(Int64)
    /// A whole number too large for ``integer(_:)``.
    case unsignedInteger(UInt64)
    /// A floating-point number. One that is not finite is an error in JSON, which cannot express it.
    case double(Double)
    /// A number that is sent with exactly these digits. It is an error in a property list if that would have to round
    /// it.
    case number(JSONNumber)
    /// Text. Sent as UTF-8.
    case string(String)
    /// Bytes: Base64 in a query and in JSON, `<data>` in a property list, raw in a multipart form.
    case data(Data)
    /// A moment in time.
    case date(Date)
    /// Values in order.
    case array([Parameter])
    /// Unordered unique values. A query repeats the plain key for each; JSON and property lists, which have no sets,
    /// get an array. The values are sorted by their description, so that equal sets are sent as equal bytes.
    case set(Set<Parameter>)
    /// Values by key.
    case dictionary([String: Parameter])
    /// Values by keys that ``dictionary(_:)`` cannot tell apart: such as `é` in one code point and in two. Sent in the order
    /// of their code points; only in a property list one of them is lost.
    case object(JSONObject)
}

/// Another name for ``Parameter``, for signatures that take a whole tree.
public typealias Parameters = Parameter

extension Parameter {
    /// A text.
    public init(_ value: String) { self = .string(value) }
    /// A truth value.
    public init(_ value: Bool) { self = .bool(value) }
    /// A number with a fraction.
    public init(_ value: Double) { self = .double(value) }
    /// Bytes.
    public init(_ value: Data) { self = .data(value) }
    /// A moment.
    public init(_ value: Date) { self = .date(value) }
    /// The absolute string of a URL.
    public init(_ value: URL) { self = .string(value.absoluteString) }
    /// Values in order.
    public init(_ value: [Parameter]) { self = .array(value) }
    /// Values in no order.
    public init(_ value: Set<Parameter>) { self = .set(value) }
    /// Values by key.
    public init(_ value: [String: Parameter]) { self = .dictionary(value) }

    /// A whole number of any width; ``unsignedInteger(_:)`` is used only past the range of `Int64`, and ``number(_:)``
    /// only past 64 bits, so that equal numbers make equal parameters.
    public init(_ value: some BinaryInteger) {
        if let small = Int64(exactly: value) {
            self = .integer(small)
        } else if let large = UInt64(exactly: value) {
            self = .unsignedInteger(large)
        } else {
            self = .number(JSONNumber(value))
        }
    }

    /// A number with all its digits. One that is written as a plain whole number of 64 bits is ``integer(_:)`` or
    /// ``unsignedInteger(_:)``.
    public init(_ value: JSONNumber) {
        if let small = Int64(value.text), String(small) == value.text {
            self = .integer(small)
        } else if let large = UInt64(value.text), String(large) == value.text {
            self = .unsignedInteger(large)
        } else {
            self = .number(value)
        }
    }

    /// A decimal number with all its digits. One that is none is an error in JSON.
    public init(_ value: Decimal) { self = JSONNumber(value).map { Parameter($0) } ?? .double(.nan) }

    /// A JSON tree, whose numbers keep their digits. ``JSONRequestSerializer`` sorts its keys.
    public init(_ value: JSON) {
        switch value {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .number(let value): self.init(value)
        case .string(let value): self = .string(value)
        case .array(let values): self = .array(values.map { Parameter($0) })
        case .object(let object):
            let values = Dictionary(object.members.map { ($0.key, Parameter($0.value)) }, uniquingKeysWith: { $1 })
            self = values.count == object.members.count ? .dictionary(values) : .object(object)
        }
    }

    /// The values under a key, or nil where this is no dictionary or has no such key.
    public subscript(key: String) -> Parameter? {
        switch self {
        case .dictionary(let values): values[key]
        case .object(let object): object[key].map { Parameter($0) }
        default: nil
        }
    }
}

extension Parameter: ExpressibleByStringLiteral, ExpressibleByStringInterpolation {
    /// A text.
    public init(stringLiteral value: String) { self = .string(value) }
}

extension Parameter: ExpressibleByIntegerLiteral {
    /// A whole number.
    public init(integerLiteral value: Int64) { self = .integer(value) }
}

extension Parameter: ExpressibleByFloatLiteral {
    /// A number.
    public init(floatLiteral value: Double) { self = .double(value) }
}

extension Parameter: ExpressibleByBooleanLiteral {
    /// True or false.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension Parameter: ExpressibleByNilLiteral {
    /// Null, which is a value: its key is not left out.
    public init(nilLiteral: ()) { self = .null }
}

extension Parameter: ExpressibleByArrayLiteral {
    /// An array of these.
    public init(arrayLiteral elements: Parameter...) { self = .array(elements) }
}

extension Parameter: ExpressibleByDictionaryLiteral {
    /// A key that is written twice keeps its last value.
    public init(dictionaryLiteral elements: (String, Parameter)...) {
        self = .dictionary(Dictionary(elements, uniquingKeysWith: { _, last in last }))
    }
}

extension Parameter: Encodable {
    /// Encodes the value as what it is; a set as an array, data and dates in the encoder's way.
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
