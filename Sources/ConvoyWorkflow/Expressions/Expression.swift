import ConvoySerialization
import Foundation

/// The language of `when` and `until`: comparisons, `and`, `or`, `not`, `any(…)`, `all(…)` and `always()`.
///
/// A reference may be written with or without `${…}`. Strings are in single or double quotes.
indirect enum Expression: Sendable {
    enum Comparison: String, Sendable {
        case equal = "=="
        case unequal = "!="
        case less = "<"
        case lessOrEqual = "<="
        case greater = ">"
        case greaterOrEqual = ">="
    }

    case value(JSON)
    case reference(Reference)
    case compare(Comparison, Expression, Expression)
    case and(Expression, Expression)
    case or(Expression, Expression)
    case not(Expression)
    case any(Expression)
    case all(Expression)
    case always

    init(_ value: ManifestValue, _ what: String) throws(ManifestError) {
        if case .bool(let constant) = value.json {
            self = .value(.bool(constant))
            return
        }
        let text = try value.string(what)
        do throws(EvaluationError) {
            self = try ExpressionParser.parse(text)
        } catch {
            throw value.problem("\(what): \(error.message)")
        }
    }

    var references: [Reference] {
        switch self {
        case .value, .always: []
        case .reference(let reference): [reference]
        case .compare(_, let one, let other), .and(let one, let other), .or(let one, let other):
            one.references + other.references
        case .not(let operand), .any(let operand), .all(let operand): operand.references
        }
    }

    func value(in scope: some Scope) throws(EvaluationError) -> JSON {
        switch self {
        case .value(let json): return json
        case .always: return .bool(true)
        case .reference(let reference): return try scope.value(of: reference).json
        case .compare(let comparison, let one, let other):
            return .bool(try Self.compare(try one.value(in: scope), comparison, try other.value(in: scope)))
        case .and(let one, let other):
            guard try one.value(in: scope).isTrue else { return .bool(false) }
            return .bool(try other.value(in: scope).isTrue)
        case .or(let one, let other):
            if try one.value(in: scope).isTrue { return .bool(true) }
            return .bool(try other.value(in: scope).isTrue)
        case .not(let operand): return .bool(try !operand.value(in: scope).isTrue)
        case .any(let operand):
            guard case .array(let values) = try operand.value(in: scope) else {
                return .bool(try operand.value(in: scope).isTrue)
            }
            return .bool(values.contains { $0 != .null && $0 != .bool(false) })
        case .all(let operand):
            guard case .array(let values) = try operand.value(in: scope) else {
                return .bool(try operand.value(in: scope).isTrue)
            }
            return .bool(values.allSatisfy { $0 != .null && $0 != .bool(false) })
        }
    }

    private static func compare(_ one: JSON, _ comparison: Comparison, _ other: JSON) throws(EvaluationError) -> Bool {
        switch comparison {
        case .equal: return one == other
        case .unequal: return one != other
        case .less, .lessOrEqual, .greater, .greaterOrEqual: break
        }
        let isLess: Bool, isEqual: Bool
        switch (one, other) {
        case (.number(let one), .number(let other)):
            guard let first = one.double, let second = other.double else {
                throw EvaluationError(message: "a number is too large to be compared")
            }
            (isLess, isEqual) = (first < second, one == other)
        case (.string(let one), .string(let other)): (isLess, isEqual) = (one < other, one == other)
        default: throw EvaluationError(message: "\(comparison.rawValue) compares two numbers, or two texts")
        }
        return switch comparison {
        case .less: isLess
        case .lessOrEqual: isLess || isEqual
        case .greater: !isLess && !isEqual
        default: !isLess || isEqual
        }
    }
}

/// A recursive-descent parser for expressions.
private struct ExpressionParser {
    private enum Token: Equatable {
        case name(String)
        case number(JSONNumber)
        case text(String)
        /// A bracket or a comparison operator.
        case mark(String)
    }

    private static let maximumDepth = 50
    /// The maximum number of tokens, because a long chain produces a deep tree.
    private static let maximumCount = 1000
    private var tokens: ArraySlice<Token> = []
    private var depth = 0

    static func parse(_ text: String) throws(EvaluationError) -> Expression {
        var parser = ExpressionParser()
        parser.tokens = try tokens(of: text)[...]
        guard parser.tokens.count <= maximumCount else {
            throw EvaluationError(message: "the expression has more than \(maximumCount) words")
        }
        guard !parser.tokens.isEmpty else { throw EvaluationError(message: "the expression is empty") }
        let expression = try parser.disjunction()
        if let token = parser.tokens.first { throw EvaluationError(message: "unexpected \(describe(token))") }
        return expression
    }

    private mutating func disjunction() throws(EvaluationError) -> Expression {
        depth += 1
        defer { depth -= 1 }
        guard depth < Self.maximumDepth else { throw EvaluationError(message: "nested too deeply") }
        var expression = try conjunction()
        while take(.name("or")) { expression = .or(expression, try conjunction()) }
        return expression
    }

    private mutating func conjunction() throws(EvaluationError) -> Expression {
        var expression = try negation()
        while take(.name("and")) { expression = .and(expression, try negation()) }
        return expression
    }

    private mutating func negation() throws(EvaluationError) -> Expression {
        var isNegated = false
        while take(.name("not")) { isNegated.toggle() }
        let expression = try comparison()
        return isNegated ? .not(expression) : expression
    }

    private mutating func comparison() throws(EvaluationError) -> Expression {
        let one = try operand()
        guard case .mark(let mark)? = tokens.first, let comparison = Expression.Comparison(rawValue: mark) else {
            return one
        }
        tokens.removeFirst()
        return .compare(comparison, one, try operand())
    }

    private mutating func operand() throws(EvaluationError) -> Expression {
        guard let token = tokens.popFirst() else { throw EvaluationError(message: "the expression ends too early") }
        switch token {
        case .number(let number): return .value(.number(number))
        case .text(let text): return .value(.string(text))
        case .mark("("):
            let expression = try disjunction()
            try expect(")")
            return expression
        case .mark: throw EvaluationError(message: "unexpected \(Self.describe(token))")
        case .name(let name):
            if take(.mark("(")) { return try call(name) }
            switch name {
            case "true": return .value(.bool(true))
            case "false": return .value(.bool(false))
            case "null": return .value(.null)
            case "and", "or", "not": throw EvaluationError(message: "unexpected \(quoted(name))")
            default: break
            }
            guard let reference = Reference(name) else { throw EvaluationError(message: "invalid name \(quoted(name))") }
            return .reference(reference)
        }
    }

    private mutating func call(_ name: String) throws(EvaluationError) -> Expression {
        switch name {
        case "always":
            try expect(")")
            return .always
        case "any", "all":
            let operand = try disjunction()
            try expect(")")
            return name == "any" ? .any(operand) : .all(operand)
        default:
            let known = ["any", "all", "always"]
            throw EvaluationError(message: "unknown function \(quoted(name))\(Suggestion.text(for: name, among: known))")
        }
    }

    private mutating func expect(_ mark: String) throws(EvaluationError) {
        guard take(.mark(mark)) else { throw EvaluationError(message: "a \(quoted(mark)) is missing") }
    }

    private mutating func take(_ token: Token) -> Bool {
        guard tokens.first == token else { return false }
        tokens.removeFirst()
        return true
    }

    private static func describe(_ token: Token) -> String {
        switch token {
        case .name(let text), .text(let text), .mark(let text): quoted(text)
        case .number(let number): quoted(number.text)
        }
    }

    private static func tokens(of text: String) throws(EvaluationError) -> [Token] {
        var tokens: [Token] = [], rest = text.unicodeScalars[...]
        while let first = rest.first {
            if first.properties.isWhitespace {
                rest.removeFirst()
            } else if first == "'" || first == "\"" {
                guard let end = rest.dropFirst().firstIndex(of: first) else {
                    throw EvaluationError(message: "the closing quote is missing")
                }
                tokens.append(.text(String(rest[rest.index(after: rest.startIndex)..<end])))
                rest = rest[rest.index(after: end)...]
            } else if first == "$" {
                let name = rest.dropFirst(2).prefix { $0 != "}" }
                guard rest.dropFirst().first == "{", name.endIndex < rest.endIndex else {
                    throw EvaluationError(message: "unexpected \"$\"")
                }
                tokens.append(.name(String(name).trimmingCharacters(in: .whitespaces)))
                rest = rest[rest.index(after: name.endIndex)...]
            } else if first == "-" || (0x30...0x39).contains(first.value) {
                let digits = rest.prefix { "-+.eE0123456789".unicodeScalars.contains($0) }
                guard let number = JSONNumber(String(digits)) else {
                    throw EvaluationError(message: "invalid number \(quoted(String(digits)))")
                }
                tokens.append(.number(number))
                rest = rest[digits.endIndex...]
            } else if let mark = ["==", "!=", "<=", ">=", "<", ">", "(", ")"].first(where: {
                String(rest.prefix(2)).hasPrefix($0)
            }) {
                tokens.append(.mark(mark))
                rest = rest.dropFirst(mark.count)
            } else {
                let name = rest.prefix {
                    $0.properties.isAlphabetic || $0 == "_" || $0 == "-" || $0 == "." || (0x30...0x39).contains($0.value)
                }
                guard !name.isEmpty else { throw EvaluationError(message: "unexpected \(quoted(String(first)))") }
                tokens.append(.name(String(name)))
                rest = rest[name.endIndex...]
            }
        }
        return tokens
    }
}
