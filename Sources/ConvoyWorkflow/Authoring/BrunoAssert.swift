import ConvoySerialization
import Foundation

/// A line of the block `assert` of Bruno: `res.body.id: eq 7`.
enum BrunoAssert {
    /// Returns an expression, or nil if there is none.
    static func expression(_ subject: String, _ test: String, _ variables: inout ImportedVariables) -> String? {
        guard let value = ScriptReader.value(of: subject), let text = value.expression else { return nil }
        let words = test.split(separator: " ", maxSplits: 1).map(String.init)
        let operand = words.count > 1 ? words[1].trimmingCharacters(in: .whitespaces) : ""
        switch words.first ?? "" {
        case "isEmpty": return "\(text) isEmpty"
        case "isNotEmpty": return "\(text) not isEmpty"
        case "isNull": return "\(text) isNull"
        case "isUndefined": return "\(text) not exists"
        case "isDefined": return "\(text) exists"
        case "isTruthy": return text
        case "isFalsy": return "not \(text)"
        case "isJson": return "json exists"
        case "isNumber": return "\(text) isNumber"
        case "isString": return "\(text) isString"
        case "isBoolean": return "\(text) isBoolean"
        case "isArray": return "\(text) isList"
        case "in", "notIn":
            let list = operand.hasPrefix("[") ? String(operand.dropFirst().dropLast()) : operand
            let values = list.split(separator: ",").compactMap {
                constant($0.trimmingCharacters(in: .whitespaces), value, &variables)
            }
            guard values.count == list.split(separator: ",").count else { return nil }
            return "\(text) \(words[0] == "in" ? "" : "not ")in [\(values.joined(separator: ", "))]"
        case "between":
            let ends = operand.split(separator: ",").compactMap {
                constant($0.trimmingCharacters(in: .whitespaces), value, &variables)
            }
            return ends.count == 2 ? "\(text) >= \(ends[0]) and \(text) <= \(ends[1])" : nil
        case "matches", "notMatches":
            let pattern =
                operand.hasPrefix("/") && operand.hasSuffix("/") && operand.count > 1
                ? String(operand.dropFirst().dropLast()).replacing("\\/", with: "/") : operand
            return "\(text) \(words[0] == "matches" ? "" : "not ")matches \(HurlText.constant(pattern))"
        case let word:
            let tests = [
                "eq": "==", "neq": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "contains": "contains",
                "notContains": "not contains", "startsWith": "startsWith", "endsWith": "endsWith",
            ]
            if word == "length" { return constant(operand, value, &variables).map { "\(text) | count == \($0)" } }
            if let predicate = tests[word], words.count > 1 {
                return constant(operand, value, &variables).map { "\(text) \(predicate) \($0)" }
            }
            // Without an operator, the value must be equal.
            return tests[word] == nil ? constant(test, value, &variables).map { "\(text) == \($0)" } : nil
        }
    }

    /// Returns a constant as Bruno reads it: a template, a string in quotes, a number, a word, or text.
    private static func constant(
        _ text: String, _ value: ScriptValue, _ variables: inout ImportedVariables
    ) -> String? {
        if text.hasPrefix("{{"), text.hasSuffix("}}"),
            let found = variables.expression(String(text.dropFirst(2).dropLast(2)))
        {
            return found.contains("(") ? found : "${\(found)}"
        }
        // A template within a text is not a constant.
        guard !text.contains("{{") else { return nil }
        if text.count > 1, let first = text.first, "'\"".contains(first), text.last == first {
            return HurlText.constant(String(text.dropFirst().dropLast()))
        }
        if ["true", "false", "null"].contains(text) { return text }
        guard let number = JSONNumber(text) else { return HurlText.constant(text) }
        if case .duration = value, let seconds = number.double.flatMap({ JSONNumber($0 / 1000) }) { return seconds.text }
        return number.text
    }
}
