import ConvoySerialization

/// A JSON Pointer (RFC 6901) in which `*` stands for each element of a list, or each value of an object.
struct JSONPath: Sendable, Equatable, CustomStringConvertible {
    let tokens: [String]

    /// A path from its text; nil for one that is no pointer.
    init?(_ text: String) {
        guard let pointer = JSONPointer(text) else { return nil }
        tokens = pointer.tokens
    }

    var description: String { JSONPointer(tokens: tokens).description }

    /// The value; with a `*` the list of all values, which is empty where there are no elements. Nil if there is none.
    func value(in json: JSON) -> JSON? {
        guard let star = tokens.firstIndex(of: "*") else { return json[JSONPointer(tokens: tokens)] }
        guard let container = json[JSONPointer(tokens: Array(tokens[..<star]))] else { return nil }
        let elements: [JSON]
        switch container {
        case .array(let values): elements = values
        case .object(let object): elements = object.members.map(\.value)
        default: return nil
        }
        let rest = JSONPath(tokens: Array(tokens[(star + 1)...]))
        let values = elements.compactMap { rest.value(in: $0) }
        guard !values.isEmpty || elements.isEmpty else { return nil }
        // A second star makes one flat list.
        guard rest.tokens.contains("*") else { return .array(values) }
        return .array(values.flatMap { value -> [JSON] in if case .array(let inner) = value { inner } else { [value] } })
    }

    /// Whether some element of a `*` lacks the value.
    func isMissingSomewhere(in json: JSON) -> Bool {
        guard let star = tokens.firstIndex(of: "*") else { return json[JSONPointer(tokens: tokens)] == nil }
        let rest = JSONPath(tokens: Array(tokens[(star + 1)...]))
        return switch json[JSONPointer(tokens: Array(tokens[..<star]))] {
        case .array(let values)?: values.contains { rest.isMissingSomewhere(in: $0) }
        case .object(let object)?: object.members.contains { rest.isMissingSomewhere(in: $0.value) }
        default: true
        }
    }

    private init(tokens: [String]) { self.tokens = tokens }
}
