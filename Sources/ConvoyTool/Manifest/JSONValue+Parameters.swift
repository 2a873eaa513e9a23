import Convoy

extension JSONValue {
    var isNull: Bool {
        if case .null = content { return true }
        return false
    }

    func problem(_ text: String) -> JSONProblem { JSONProblem(text: text, position: position) }

    /// As the parameters of a request.
    var parameters: Parameter {
        get throws(JSONProblem) {
            switch content {
            case .null: return .null
            case .bool(let value): return .bool(value)
            case .string(let text): return .string(text)
            case .number(let text):
                if let number = Int64(text) { return .integer(number) }
                if let number = UInt64(text) { return .unsignedInteger(number) }
                guard let number = Double(text), number.isFinite else { throw problem("a number that is too large") }
                return .double(number)
            case .array(let values):
                var parameters: [Parameter] = []
                for value in values { parameters.append(try value.parameters) }
                return .array(parameters)
            case .object(let members):
                var parameters: [String: Parameter] = [:]
                for member in members { parameters[member.key] = try member.value.parameters }
                return .dictionary(parameters)
            }
        }
    }
}
