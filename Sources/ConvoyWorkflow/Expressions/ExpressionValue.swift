import ConvoySerialization
import Foundation

/// A value of an expression.
enum ExpressionValue: Sendable {
    case json(JSON)
    case bytes(Data)
    case date(Date)
    /// A value that does not exist, with the reason, which may be empty.
    case missing(String)

    static let nothing = ExpressionValue.missing("")

    static func string(_ text: String) -> ExpressionValue { .json(.string(text)) }
    static func number(_ number: some BinaryInteger) -> ExpressionValue { .json(.number(JSONNumber(number))) }
    static func bool(_ value: Bool) -> ExpressionValue { .json(.bool(value)) }

    var isMissing: Bool { if case .missing = self { true } else { false } }

    /// Whether the value counts as true.
    var isTrue: Bool {
        switch self {
        case .json(let json): json.isTrue
        case .bytes(let data): !data.isEmpty
        case .date: true
        case .missing: false
        }
    }

    /// The value as JSON: a date in the form of RFC 3339, or nil for bytes and missing values.
    var json: JSON? {
        switch self {
        case .json(let json): json
        case .date(let date): .string(ExpressionDate.text(of: date))
        case .bytes, .missing: nil
        }
    }

    /// The bytes of a string in UTF-8, or the bytes; nil for other values.
    var utf8: Data? {
        switch self {
        case .json(.string(let text)): Data(text.utf8)
        case .bytes(let data): data
        default: nil
        }
    }

    /// The type, for messages.
    var typeName: String {
        switch self {
        case .json(let json): json.typeName
        case .bytes: "bytes"
        case .date: "date"
        case .missing: "missing"
        }
    }

    /// Returns the number of all values and bytes in the value, which limits the work on it; a larger number than the limit
    /// if there are more.
    func weight(limit: Int) -> Int {
        switch self {
        case .json(let json): json.weight(limit: limit)
        case .bytes(let data): data.count
        case .date, .missing: 1
        }
    }

    /// The number of bytes of a string or of bytes, and 1 for any other value.
    var length: Int {
        switch self {
        case .json(.string(let text)): text.utf8.count
        case .bytes(let data): data.count
        default: 1
        }
    }

    func isEqual(to other: ExpressionValue) -> Bool {
        switch (self, other) {
        case (.json(let one), .json(let other)): one == other
        case (.date(let one), .date(let other)): one == other
        case (.bytes, .bytes), (.bytes, .json(.string)), (.json(.string), .bytes): utf8 == other.utf8
        default: false
        }
    }
}

extension JSON {
    fileprivate func weight(limit: Int) -> Int {
        var total = 1
        switch self {
        case .string(let text): total += text.utf8.count
        case .array(let values):
            for value in values {
                guard total <= limit else { break }
                total += value.weight(limit: limit - total)
            }
        case .object(let object):
            for member in object.members {
                guard total <= limit else { break }
                total += member.value.weight(limit: limit - total)
            }
        default: break
        }
        return total
    }

    /// The type, for messages about expressions.
    var typeName: String {
        switch self {
        case .null: "null"
        case .bool: "boolean"
        case .number: "number"
        case .string: "string"
        case .array: "list"
        case .object: "object"
        }
    }
}
