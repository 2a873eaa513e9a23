import ConvoySerialization
import Foundation

/// A reader for the test scripts of Postman and Bruno. It recognizes checks of the response and variables that are set from
/// it, and returns all other statements as lines.
struct ScriptReader {
    private struct Failure: Error {}

    /// The expressions that the response must meet.
    private(set) var checks: [String] = []
    /// The variables that are set from the response: their names and the sources of captures.
    private(set) var captures: [(name: String, source: String)] = []
    /// The variables that are set to constants.
    private(set) var constants: [(name: String, value: JSON)] = []
    /// The statements that are not recognized.
    private(set) var others: [String] = []

    /// The variables of the collection, with those that a check needs.
    private(set) var variables: ImportedVariables
    private var aliases: [String: ScriptValue] = [:]
    private var tokens: ArraySlice<ScriptToken> = []
    /// The number of values that contain the current one.
    private var depth = 0

    init(_ script: String, _ variables: ImportedVariables) {
        self.variables = variables
        guard let all = ScriptToken.all(in: script) else {
            others = script.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
            others.removeAll(where: \.isEmpty)
            return
        }
        read(all[...], depth: 0)
    }

    /// Returns the value of an expression of a script, or nil if it is not recognized.
    static func value(of text: String) -> ScriptValue? {
        var reader = ScriptReader("", ImportedVariables(functions: [:]))
        guard let tokens = ScriptToken.all(in: text) else { return nil }
        reader.tokens = tokens[...]
        guard let value = try? reader.value(), reader.tokens.isEmpty else { return nil }
        return value
    }

    // MARK: Statements

    private mutating func read(_ script: ArraySlice<ScriptToken>, depth: Int) {
        var rest = script
        while !rest.isEmpty {
            let statement = Self.statement(&rest)
            guard !statement.isEmpty else { continue }
            let known = variables
            if depth < 20, let body = Self.body(of: statement) {
                read(body, depth: depth + 1)
            } else if !take(statement) {
                variables = known
                others.append(ScriptToken.line(statement))
                forgetChanged(by: statement)
            }
        }
    }

    /// Forgets the values of the names to which a statement that is not recognized may assign.
    private mutating func forgetChanged(by statement: ArraySlice<ScriptToken>) {
        for index in statement.indices.dropLast() {
            guard case .name(let name) = statement[index], case .mark(let mark) = statement[index + 1] else { continue }
            if ["=", "+", "-", "*", "/"].contains(mark) { aliases[name] = nil }
        }
    }

    /// Removes and returns the tokens up to a semicolon, or to the start of the next statement.
    private static func statement(_ rest: inout ArraySlice<ScriptToken>) -> ArraySlice<ScriptToken> {
        var depth = 0, end = rest.startIndex
        let controls = ["if", "for", "while", "else", "switch", "try", "do", "function"]
        let isControl = rest.first.map { controls.contains($0.source) } ?? false
        while end < rest.endIndex {
            switch rest[end] {
            case .mark("("), .mark("["), .mark("{"): depth += 1
            case .mark(")"), .mark("]"), .mark("}"): depth -= 1
            case .mark(";") where depth <= 0:
                defer { rest = rest[(end + 1)...] }
                return rest[..<end]
            case .name(let name)
            where depth == 0 && end > rest.startIndex && (!isControl || rest[end - 1] == .mark("}"))
                && startsStatement(name, after: rest[end - 1]):
                defer { rest = rest[end...] }
                return rest[..<end]
            default: break
            }
            end += 1
        }
        defer { rest = [] }
        return rest
    }

    /// Returns whether a name begins a statement, which a line break has separated from the one before.
    private static func startsStatement(_ name: String, after token: ScriptToken) -> Bool {
        switch token {
        case .mark(")"), .mark("]"), .mark("}"), .text, .number, .regex:
            !["else", "catch", "finally", "in", "of"].contains(name)
        case .name(let before):
            ["pm", "expect", "const", "let", "var", "bru", "tests", "test", "if", "for"].contains(name)
                && !["const", "let", "var", "return", "new", "await", "typeof"].contains(before)
        default: false
        }
    }

    /// Returns the statements of the function that is the last argument of `pm.test` or `test`.
    private static func body(of statement: ArraySlice<ScriptToken>) -> ArraySlice<ScriptToken>? {
        let start = statement.starts(with: [.name("pm"), .mark("."), .name("test"), .mark("(")]) ? 4 : 2
        guard start == 4 || statement.starts(with: [.name("test"), .mark("(")]) else { return nil }
        let arguments = statement.dropFirst(start)
        guard case .text? = arguments.first, arguments.dropFirst().first == .mark(","), arguments.last == .mark(")") else {
            return nil
        }
        let function = arguments.dropFirst(2).dropLast()
        if let open = function.firstIndex(of: .mark("{")), function.last == .mark("}") {
            let head = Array(function[..<open])
            // A callback with a parameter ends later.
            let isPlain = [
                [.name("function"), .mark("("), .mark(")")], [.mark("("), .mark(")"), .mark("=>")],
                [.name("async"), .name("function"), .mark("("), .mark(")")],
                [.name("async"), .mark("("), .mark(")"), .mark("=>")],
            ].contains(head)
            return isPlain ? function[(open + 1)...].dropLast() : nil
        }
        guard function.starts(with: [.mark("("), .mark(")"), .mark("=>")]) else { return nil }
        return function.dropFirst(3)
    }

    /// Reads a statement, and returns whether it is recognized.
    private mutating func take(_ statement: ArraySlice<ScriptToken>) -> Bool {
        tokens = statement
        do throws(Failure) {
            switch (tokens.first, tokens.dropFirst().first) {
            case (.name("const")?, .name(let name)?), (.name("let")?, .name(let name)?), (.name("var")?, .name(let name)?):
                aliases[name] = nil
                tokens = tokens.dropFirst(2)
                try expect("=")
                let found = try value()
                guard tokens.isEmpty else { return false }
                aliases[name] = found
            case (.name("tests")?, .mark("[")?):
                guard let equals = tokens.firstIndex(of: .mark("=")) else { return false }
                tokens = tokens[(equals + 1)...]
                let check = try comparison()
                guard tokens.isEmpty else { return false }
                checks.append(check)
            case (.name("pm")?, _) where startsExpectation(["pm", ".", "response", ".", "to"]):
                tokens = tokens.dropFirst(5)
                checks.append(try chain(of: nil))
            case (.name("pm")?, _) where startsExpectation(["pm", ".", "expect", "("]):
                tokens = tokens.dropFirst(4)
                checks.append(try expectation())
            case (.name("expect")?, .mark("(")?):
                tokens = tokens.dropFirst(2)
                checks.append(try expectation())
            default: try setVariable()
            }
            return tokens.isEmpty
        } catch {
            return false
        }
    }

    private func startsExpectation(_ words: [String]) -> Bool {
        zip(tokens, words).allSatisfy { $0.0.source == $0.1 } && tokens.count > words.count
    }

    /// Reads `pm.environment.set("name", value)` and the like.
    private mutating func setVariable() throws(Failure) {
        let stores = ["environment", "collectionVariables", "globals", "variables"]
        switch tokens.first {
        case .name("pm")?:
            tokens.removeFirst()
            try expect(".")
            guard case .name(let store)? = tokens.popFirst(), stores.contains(store) else { throw Failure() }
            try expect(".")
            guard tokens.popFirst() == .name("set") else { throw Failure() }
        case .name("bru")?:
            tokens.removeFirst()
            try expect(".")
            guard case .name(let function)? = tokens.popFirst(),
                ["setVar", "setEnvVar", "setGlobalEnvVar", "setCollectionVar"].contains(function)
            else { throw Failure() }
        case .name("postman")?:
            tokens.removeFirst()
            try expect(".")
            guard case .name(let function)? = tokens.popFirst(),
                ["setEnvironmentVariable", "setGlobalVariable"].contains(function)
            else { throw Failure() }
        default: throw Failure()
        }
        try expect("(")
        guard case .text(let name)? = tokens.popFirst() else { throw Failure() }
        try expect(",")
        let value = try value()
        try expect(")")
        guard tokens.isEmpty else { throw Failure() }
        if let source = value.capture {
            captures.append((name, source))
        } else if case .constant(let json) = value {
            constants.append((name, json))
        } else {
            throw Failure()
        }
    }

    // MARK: Values

    private mutating func expect(_ mark: String) throws(Failure) {
        guard tokens.popFirst() == .mark(mark) else { throw Failure() }
    }

    private mutating func takes(_ mark: String) -> Bool {
        guard tokens.first == .mark(mark) else { return false }
        tokens.removeFirst()
        return true
    }

    private mutating func value() throws(Failure) -> ScriptValue {
        depth += 1
        defer { depth -= 1 }
        guard depth < 50 else { throw Failure() }
        switch tokens.first {
        case .text(let text)?:
            tokens.removeFirst()
            return .constant(.string(text))
        case .number(let text)?:
            tokens.removeFirst()
            guard let number = JSONNumber(text) else { throw Failure() }
            return .constant(.number(number))
        case .mark("-")?:
            tokens.removeFirst()
            guard case .number(let text)? = tokens.popFirst(), let number = JSONNumber("-\(text)") else { throw Failure() }
            return .constant(.number(number))
        case .mark("[")?:
            tokens.removeFirst()
            var values: [JSON] = []
            while !takes("]") {
                if !values.isEmpty { try expect(",") }
                guard case .constant(let json) = try value() else { throw Failure() }
                values.append(json)
            }
            return .constant(.array(values))
        case .mark("{")?:
            tokens.removeFirst()
            var object = JSONObject()
            while !takes("}") {
                if !object.members.isEmpty { try expect(",") }
                let key: String
                switch tokens.popFirst() {
                case .name(let name)?: key = name
                case .text(let text)?: key = text
                default: throw Failure()
                }
                try expect(":")
                guard case .constant(let json) = try value(), object.append(key: key, value: json) else { throw Failure() }
            }
            return .constant(.object(object))
        case .name("true")?, .name("false")?, .name("null")?:
            let text = tokens.removeFirst().source
            return .constant(text == "null" ? .null : .bool(text == "true"))
        case .name(let name)?:
            tokens.removeFirst()
            guard var value = ScriptValue(root: name) ?? aliases[name] else { throw Failure() }
            while let next = try member(of: value) { value = next }
            return value
        default: throw Failure()
        }
    }

    /// Returns the member of a value that follows, or nil if none does.
    private mutating func member(of value: ScriptValue) throws(Failure) -> ScriptValue? {
        switch tokens.first {
        case .mark("[")?:
            tokens.removeFirst()
            let key: JSON
            switch tokens.popFirst() {
            case .text(let text)?: key = .string(text)
            case .number(let text)?:
                guard let number = JSONNumber(text) else { throw Failure() }
                key = .number(number)
            default: throw Failure()
            }
            try expect("]")
            guard let found = value.member(key) else { throw Failure() }
            return found
        case .mark(".")?:
            // The words of an expectation follow a closing parenthesis.
            guard case .name(let name)? = tokens.dropFirst().first else { throw Failure() }
            tokens = tokens.dropFirst(2)
            guard takes("(") else {
                guard let found = value.member(.string(name)) else { throw Failure() }
                return found
            }
            var arguments: [ScriptValue] = []
            while !takes(")") {
                if !arguments.isEmpty { try expect(",") }
                arguments.append(try self.value())
            }
            guard let found = value.call(name, arguments) else { throw Failure() }
            return found
        default: return nil
        }
    }

    /// Returns the expression for a value.
    private mutating func expression(_ value: ScriptValue) throws(Failure) -> String {
        if case .variable(let name) = value {
            guard let found = variables.expression(name) else { throw Failure() }
            return "${\(found)}"
        }
        guard let text = value.expression else { throw Failure() }
        return text
    }

    /// Returns a constant for a comparison with a value.
    private func constant(_ constant: ScriptValue, for value: ScriptValue?) throws(Failure) -> String {
        guard case .constant(let json) = constant else {
            guard let text = constant.expression else { throw Failure() }
            return text
        }
        // Scripts count milliseconds.
        if case .duration? = value, case .number(let number) = json, let milliseconds = number.double,
            let seconds = JSONNumber(milliseconds / 1000)
        {
            return seconds.text
        }
        return ScriptValue.text(of: json)
    }

    // MARK: Expectations

    /// Reads `a === b`, or a value that must be true.
    private mutating func comparison() throws(Failure) -> String {
        let value = try value(), subject = try expression(value)
        guard case .mark(let mark)? = tokens.popFirst() else { return subject }
        let operators = ["===": "==", "!==": "!=", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="]
        guard let comparison = operators[mark] else { throw Failure() }
        return "\(subject) \(comparison) \(try constant(try self.value(), for: value))"
    }

    /// Reads the value and the words of `expect(value).to…`.
    private mutating func expectation() throws(Failure) -> String {
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
    private mutating func chain(of value: ScriptValue?) throws(Failure) -> String {
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

    private func responseTest(
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

    private mutating func test(
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
