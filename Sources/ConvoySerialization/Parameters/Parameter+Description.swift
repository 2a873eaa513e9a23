import ConvoySupport
import Foundation

extension Parameter: CustomStringConvertible {
    /// The value in AFNetworking's query style: text unchanged, booleans as `1` or `0`, dates as `2013-01-01 00:00:00
    /// +0000`, bytes as Base64. Containers list their elements in a fixed order. Sets are sorted by this text. Nesting
    /// deeper than ``maximumDepth`` is shown as `…`.
    public var description: String { description(depth: 0) }

    private func description(depth: Int) -> String {
        if depth > Parameter.maximumDepth { return "…" }
        switch self {
        case .null: return "<null>"
        case .bool(let value): return value ? "1" : "0"
        case .integer(let value): return String(value)
        case .unsignedInteger(let value): return String(value)
        case .double(let value): return Parameter.text(of: value)
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

    private static func description(of pairs: [(key: String, value: Parameter)], depth: Int) -> String {
        "{" + pairs.map { "\($0.key) = \($0.value.description(depth: depth + 1));" }.joined() + "}"
    }

    /// The members of an object in the order in which they are sent.
    static func sortedMembers(_ object: JSONObject) -> [(key: String, value: Parameter)] {
        // `<` takes keys for equal that are canonically so.
        object.members.sorted { $0.key.unicodeScalars.lexicographicallyPrecedes($1.key.unicodeScalars) }
            .map { ($0.key, Parameter($0.value)) }
    }

    /// The maximum nesting for all request serializers. Deeper trees are an error, as recursing into them would
    /// overflow the stack.
    public static let maximumDepth = 512

    /// The shortest text that parses to the same number, as in `NSNumber`'s description: `3` for 3.0, `1e+20`.
    static func text(of value: Double) -> String {
        let text = value.description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// The elements of a set in the order in which they are sent.
    static func sorted(_ values: Set<Parameter>) -> [Parameter] {
        // Two different elements can have the same description (`1` and "1"). Their kind then decides, as the order of
        // a set differs from run to run.
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
