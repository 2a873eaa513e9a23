import ConvoySerialization
import Foundation

/// The comparisons and expectations in a script.
extension ScriptReader {
    /// Reads `a === b`, or a value that must be true.
    mutating func comparison() throws(Failure) -> String {
        let value = try value(), subject = try expression(value)
        guard case .mark(let mark)? = tokens.popFirst() else { return subject }
        let operators = ["===": "==", "!==": "!=", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="]
        guard let comparison = operators[mark] else { throw Failure() }
        return "\(subject) \(comparison) \(try constant(try self.value(), for: value))"
    }

    /// Reads the value and the words of `expect(value).to…`.
    mutating func expectation() throws(Failure) -> String {
        let value = try value()
        if takes(",") { _ = tokens.popFirst() }
        if tokens.first != .mark(")") {
            // expect(a > b).to.be.true
            guard case .mark(let mark)? = tokens.popFirst() else { throw Failure() }
            let operators = ["===": "==", "!==": "!=", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="]
            guard let comparison = operators[mark] else { throw Failure() }
            let text = "\(try expression(value)) \(comparison) \(try constant(try self.value(), for: value))"
            try expect(")")
            guard tokens.map(\.source).joined() == ".to.be.true" || tokens.map(\.source).joined() == ".to.eql(true)" else {
                throw Failure()
            }
            tokens = []
            return text
        }
        try expect(")")
        return try chain(of: value)
    }

    private static let fillers: Set<String> = [
        "to", "be", "been", "is", "that", "which", "and", "has", "have", "with", "at", "of", "same", "but", "does", "deep",
        "so",
    ]

    /// Reads the words of an expectation.
    ///
    /// - Parameter value: The value, or nil for the response of Postman.
    mutating func chain(of value: ScriptValue?) throws(Failure) -> String {
        var isNegated = false
        while true {
            try expect(".")
            guard case .name(let word)? = tokens.popFirst() else { throw Failure() }
            var arguments: [ScriptValue] = [], pattern: String?, isCall = false
            if takes("(") {
                isCall = true
                if case .regex(let text)? = tokens.first {
                    tokens.removeFirst()
                    pattern = text
                    try expect(")")
                } else {
                    while !takes(")") {
                        if !arguments.isEmpty { try expect(",") }
                        arguments.append(try self.value())
                    }
                }
            }
            if word == "not" {
                isNegated.toggle()
            } else if isCall || !Self.fillers.contains(word) {
                guard tokens.isEmpty else { throw Failure() }
                guard let value else { return try responseTest(word, arguments, isNegated: isNegated) }
                return try test(value, word, arguments, pattern, isNegated: isNegated)
            }
        }
    }

    func responseTest(
        _ word: String, _ arguments: [ScriptValue], isNegated: Bool
    ) throws(Failure) -> String {
        let not = isNegated ? "not " : ""
        func text(_ index: Int) throws(Failure) -> String {
            guard arguments.indices.contains(index), case .constant(let json) = arguments[index] else { throw Failure() }
            return ScriptValue.text(of: json)
        }
        switch (word, arguments.count) {
        case ("status", 1):
            guard case .constant(.number) = arguments[0] else { throw Failure() }
            return "status \(isNegated ? "!=" : "==") \(try text(0))"
        case ("header", 1): return "headers[\(try text(0))] \(not)exists"
        case ("header", 2): return "\(not)headers[\(try text(0))] == \(try text(1))"
        case ("body", 1): return "\(not)body == \(try text(0))"
        case ("body", 0), ("withBody", 0): return "body \(isNegated ? "" : "not ")isEmpty"
        case ("json", 0), ("jsonBody", 0): return isNegated ? "json not exists" : "json exists"
        case ("ok", 0): return "status \(isNegated ? "!=" : "==") 200"
        case ("success", 0): return isNegated ? "not (status >= 200 and status < 300)" : "status >= 200 and status < 300"
        case ("redirection", 0): return "\(not)(status >= 300 and status < 400)"
        case ("clientError", 0): return "\(not)(status >= 400 and status < 500)"
        case ("serverError", 0): return "\(not)(status >= 500)"
        default:
            let names = [
                "accepted": 202, "badRequest": 400, "unauthorized": 401, "forbidden": 403, "notFound": 404,
                "rateLimited": 429,
            ]
            guard let status = names[word], arguments.isEmpty else { throw Failure() }
            return "status \(isNegated ? "!=" : "==") \(status)"
        }
    }

    mutating func test(
        _ value: ScriptValue, _ word: String, _ arguments: [ScriptValue], _ pattern: String?, isNegated: Bool
    ) throws(Failure) -> String {
        let subject = try expression(value), not = isNegated ? "not " : ""
        func operand(_ index: Int) throws(Failure) -> String {
            guard arguments.indices.contains(index) else { throw Failure() }
            if case .variable(let name) = arguments[index] {
                guard let found = variables.expression(name) else { throw Failure() }
                return "${\(found)}"
            }
            return try constant(arguments[index], for: value)
        }
        func compared(_ comparison: String) throws(Failure) -> String {
            "\(not)\(subject) \(comparison) \(try operand(0))"
        }
        switch word {
        case "equal", "equals", "eq", "eql", "eqls": return "\(subject) \(isNegated ? "!=" : "==") \(try operand(0))"
        case "above", "gt", "greaterThan": return try compared(">")
        case "below", "lt", "lessThan": return try compared("<")
        case "least", "gte", "greaterThanOrEqual": return try compared(">=")
        case "most", "lte", "lessThanOrEqual": return try compared("<=")
        case "within": return "\(not)(\(subject) >= \(try operand(0)) and \(subject) <= \(try operand(1)))"
        case "include", "includes", "contain", "contains": return "\(subject) \(not)contains \(try operand(0))"
        case "oneOf": return "\(subject) \(not)in \(try operand(0))"
        case "match":
            guard let pattern else { throw Failure() }
            return "\(subject) \(not)matches \(HurlText.constant(pattern))"
        case "a", "an":
            let kinds = [
                "string": "isString", "number": "isNumber", "boolean": "isBoolean", "array": "isList", "object": "isObject",
                "null": "isNull",
            ]
            guard case .constant(.string(let name))? = arguments.first else { throw Failure() }
            if name == "undefined" { return "\(subject) \(isNegated ? "" : "not ")exists" }
            guard let kind = kinds[name.lowercased()] else { throw Failure() }
            return "\(subject) \(not)\(kind)"
        case "true", "false", "null": return "\(subject) \(isNegated ? "!=" : "==") \(word)"
        case "undefined": return "\(subject) \(isNegated ? "" : "not ")exists"
        case "exist":
            return isNegated
                ? "not (\(subject) exists and \(subject) not isNull)" : "\(subject) exists and \(subject) not isNull"
        case "ok": return "\(not)\(subject)"
        case "empty": return "\(subject) \(not)isEmpty"
        case "length", "lengthOf": return "\(subject) | count \(isNegated ? "!=" : "==") \(try operand(0))"
        case "property":
            guard case .constant(let key)? = arguments.first, let member = value.member(key) else { throw Failure() }
            let name = try expression(member)
            guard arguments.count > 1 else { return "\(name) \(not)exists" }
            return "\(name) \(isNegated ? "!=" : "==") \(try constant(arguments[1], for: member))"
        default: throw Failure()
        }
    }
}
