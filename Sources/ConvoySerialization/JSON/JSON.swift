import Foundation

/// A JSON value as a lossless tree (RFC 8259): numbers keep their digits, objects the order of their members.
///
/// Trees are compared as in RFC 6902, section 4.6: numbers by value, strings by code points, and the members of objects
/// in any order.
///
/// Comparing, writing and freeing a tree take a stack frame for each level. A parsed tree is as deep as the parser's limit
/// allows; one that is made otherwise should not be deeper than a few thousand levels.
public enum JSON: Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number, as written.
    case number(JSONNumber)
    /// Text.
    case string(String)
    /// Values in order.
    case array([JSON])
    /// Values by key.
    case object(JSONObject)

    /// Parses UTF-8, with or without a byte-order mark.
    ///
    /// It is stricter than Foundation's parser on Linux: a comma before a closing bracket is an error. Of a repeated key
    /// the first value counts, as for `JSONDecoder`.
    ///
    /// - Parameters:
    ///   - data: the text, in UTF-8.
    ///   - maximumDepth: how deep arrays and objects may be nested; each level takes a stack frame.
    ///   - rejectsDuplicateKeys: whether a repeated key is an error.
    public init(
        parsing data: Data, maximumDepth: Int = 512, rejectsDuplicateKeys: Bool = false
    ) throws(JSONSyntaxError) {
        self = try JSONParser.value(of: data, maximumDepth: maximumDepth, rejectsDuplicateKeys: rejectsDuplicateKeys)
    }

    /// The value at a pointer; nil if there is none.
    public subscript(pointer: JSONPointer) -> JSON? {
        var value = self
        for token in pointer.tokens {
            switch value {
            case .object(let object):
                guard let member = object[token] else { return nil }
                value = member
            case .array(let elements):
                guard let index = JSONPointer.index(token), index < elements.count else { return nil }
                value = elements[index]
            default: return nil
            }
        }
        return value
    }
}

extension JSON: Hashable {
    public static func == (one: JSON, other: JSON) -> Bool {
        switch (one, other) {
        case (.null, .null): true
        case (.bool(let one), .bool(let other)): one == other
        case (.number(let one), .number(let other)): one == other
        case (.string(let one), .string(let other)): one.hasSameCodePoints(as: other)
        case (.array(let one), .array(let other)): one == other
        case (.object(let one), .object(let other)): one == other
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .number(let value): hasher.combine(value)
        case .string(let value): value.hashCodePoints(into: &hasher)
        case .array(let values): hasher.combine(values)
        case .object(let values): hasher.combine(values)
        }
    }
}

extension JSON: CustomStringConvertible {
    /// The JSON text, without whitespace.
    public var description: String {
        var output = JSONOutput()
        write(to: &output)
        return String(decoding: output.bytes, as: UTF8.self)
    }

    private func write(to output: inout JSONOutput) {
        switch self {
        case .null: output.append("null")
        case .bool(let value): output.append(value ? "true" : "false")
        case .number(let value): output.append(value.text)
        case .string(let value): output.appendQuoted(value)
        case .array(let values):
            output.append("[")
            for (index, value) in values.enumerated() {
                if index > 0 { output.append(",") }
                value.write(to: &output)
            }
            output.append("]")
        case .object(let object):
            output.append("{")
            for (index, member) in object.members.enumerated() {
                if index > 0 { output.append(",") }
                output.appendQuoted(member.key)
                output.append(":")
                member.value.write(to: &output)
            }
            output.append("}")
        }
    }
}
