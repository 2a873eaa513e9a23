import ConvoySerialization
import Foundation

/// A reader for the test scripts of Postman and Bruno. It recognizes checks of the response and variables that are set from
/// it, and returns all other statements as lines.
struct ScriptReader {
    /// The error for an expression that is not recognized.
    struct Failure: Error {}

    /// The expressions that the response must meet.
    private(set) var checks: [String] = []
    /// The variables that are set from the response: their names and the sources of captures.
    private(set) var captures: [(name: String, source: String)] = []
    /// The variables that are set to constants.
    private(set) var constants: [(name: String, value: JSON)] = []
    /// The statements that are not recognized.
    private(set) var others: [String] = []

    /// The variables of the collection, with those that a check needs.
    var variables: ImportedVariables
    var aliases: [String: ScriptValue] = [:]
    var tokens: ArraySlice<ScriptToken> = []
    /// The number of values that contain the current one.
    var depth = 0

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
}
