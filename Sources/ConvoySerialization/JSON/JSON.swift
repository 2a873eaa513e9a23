import Foundation

/// A JSON text as a tree (RFC 8259) that loses nothing: numbers keep their digits, objects the order of their members.
///
/// Two trees are equal as RFC 6902 has it (section 4.6): numbers by their value, text by its code points, and the
/// members of objects in any order.
public enum JSON: Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number, as it is written.
    case number(JSONNumber)
    /// Text.
    case string(String)
    /// Values in order.
    case array([JSON])
    /// Values by key.
    case object(JSONObject)

    /// Reads a text in UTF-8, with or without a byte-order mark.
    ///
    /// It is strict where Foundation's parser on Linux is not: a comma before a closing bracket is an error, and so is
    /// a key that an object has twice.
    ///
    /// - Parameter maximumDepth: how deep arrays and objects may be nested; a stack frame goes with each.
    public init(parsing data: Data, maximumDepth: Int = 512) throws(JSONSyntaxError) {
        self = try JSONParser.value(of: data, maximumDepth: maximumDepth)
    }

    /// The value that a pointer leads to; nil where it leads nowhere.
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
        // `String` takes different code points for the same text: a letter with an accent, and one before an accent.
        case (.string(let one), .string(let other)): one.utf8.elementsEqual(other.utf8)
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
        case .string(let value): hasher.combine(value)
        case .array(let values): hasher.combine(values)
        case .object(let values): hasher.combine(values)
        }
    }
}

extension JSON: CustomStringConvertible {
    /// The text of the tree, without any space.
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
