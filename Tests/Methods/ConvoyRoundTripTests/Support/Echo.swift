import Foundation

/// The description of a request, as returned by `/anything` and similar paths.
struct Echo: Decodable, Sendable {
    /// The query items.
    var args: [String: JSON]
    /// The body if it is not a form; a `data:` URL if it is not text.
    var data: String?
    var files: [String: String]?
    var form: [String: JSON]?
    var headers: [String: String]
    /// The body parsed as JSON; nil if it is not JSON.
    var json: JSON?
    var method: String?
    var url: String

    /// Returns a header field. Names are case-insensitive.
    func header(_ name: String) -> String? {
        headers.first { $0.key.lowercased() == name.lowercased() }?.value
    }

    /// The bytes of the body.
    var body: Data? { data.flatMap(Self.bytes) }
    /// Returns the bytes of a file.
    func file(_ name: String) -> Data? { files?[name].flatMap(Self.bytes) }

    /// Returns the bytes of the text, or of its base64 content.
    static func bytes(of text: String) -> Data? {
        guard text.hasPrefix("data:"), let mark = text.range(of: ";base64,") else { return Data(text.utf8) }
        return Data(base64Encoded: String(text[mark.upperBound...]))
    }
}

/// Any JSON value, for comparison with a literal.
enum JSON: Decodable, Hashable, Sendable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSON].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSON].self))
        }
    }

    subscript(key: String) -> JSON? {
        guard case .object(let values) = self else { return nil }
        return values[key]
    }

    var text: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByNilLiteral,
    ExpressibleByFloatLiteral, ExpressibleByIntegerLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    init(stringLiteral value: String) { self = .string(value) }
    init(booleanLiteral value: Bool) { self = .bool(value) }
    init(nilLiteral: ()) { self = .null }
    init(floatLiteral value: Double) { self = .number(value) }
    init(integerLiteral value: Int) { self = .number(Double(value)) }
    init(arrayLiteral elements: JSON...) { self = .array(elements) }
    init(dictionaryLiteral elements: (String, JSON)...) {
        self = .object(Dictionary(elements, uniquingKeysWith: { $1 }))
    }
}
