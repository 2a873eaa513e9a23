import ConvoySerialization
import ConvoySupport
import Foundation

/// A recursive-descent parser for expressions.
struct ExpressionParser {
    private static let maximumDepth = 50
    /// The maximum number of words in an expression.
    private static let maximumCount = 1000

    private let tokens: [ExpressionToken]
    private let length: Int
    private let context: Expression.Context
    private var index = 0
    private var depth = 0
    private var mapDepth = 0
    private var testCount = 0
    private var constants: [Range<Int>] = []

    static func parse(
        _ text: String, in context: Expression.Context = .request
    ) throws(ExpressionProblem) -> Expression {
        let scalars = Array(text.unicodeScalars)
        let tokens = try ExpressionToken.all(in: scalars)
        guard tokens.count <= maximumCount else {
            throw ExpressionProblem(
                message: "the expression has more than \(maximumCount) words", offset: tokens[maximumCount].range.lowerBound)
        }
        guard !tokens.isEmpty else { throw ExpressionProblem(message: "the expression is empty", offset: 0) }
        var parser = ExpressionParser(tokens: tokens, length: scalars.count, context: context)
        let root = try parser.disjunction()
        if let token = parser.next { throw parser.unexpected(token) }
        return Expression(source: text, root: root, constants: parser.constants)
    }

    private init(tokens: [ExpressionToken], length: Int, context: Expression.Context) {
        self.tokens = tokens
        self.length = length
        self.context = context
    }

    // MARK: Logic

    private mutating func disjunction() throws(ExpressionProblem) -> Expression.Node {
        depth += 1
        defer { depth -= 1 }
        guard depth < Self.maximumDepth else { throw problem("nested too deeply") }
        var operands = [try conjunction()]
        while take(.name("or")) { operands.append(try conjunction()) }
        return operands.count == 1 ? operands[0] : .or(operands)
    }

    private mutating func conjunction() throws(ExpressionProblem) -> Expression.Node {
        var operands = [try negation()]
        while take(.name("and")) { operands.append(try negation()) }
        return operands.count == 1 ? operands[0] : .and(operands)
    }

    private mutating func negation() throws(ExpressionProblem) -> Expression.Node {
        var isNegated = false
        while take(.name("not")) { isNegated.toggle() }
        let node = try comparison()
        return isNegated ? .not(node) : node
    }

    private mutating func comparison() throws(ExpressionProblem) -> Expression.Node {
        let start = index
        let subject = try pipe()
        let isNegated = next?.kind == .name("not")
        if isNegated { index += 1 }
        guard let token = next, let predicate = try predicate(token, isNegated: isNegated) else {
            if isNegated { throw problem("a predicate is missing after not") }
            return subject
        }
        index += 1
        let operand = predicate.hasOperand ? try pipe() : nil
        if let token = next, try self.predicate(token, isNegated: false) != nil {
            throw unexpected(token, hint: "; combine two predicates with and")
        }
        try check(predicate, operand)
        testCount += 1
        return .test(
            Expression.Test(
                number: testCount - 1, predicate: predicate, isNegated: isNegated, subject: subject, operand: operand,
                range: tokens[start].range.lowerBound..<tokens[index - 1].range.upperBound))
    }

    private func predicate(_ token: ExpressionToken, isNegated: Bool) throws(ExpressionProblem) -> Predicate? {
        switch token.kind {
        case .mark(let mark): return isNegated ? nil : Expression.Comparison(rawValue: mark).map { .compare($0) }
        case .name("and"), .name("or"): return nil
        case .name(let name):
            if let predicate = Predicate(name: name) { return predicate }
            let near = Suggestion.text(for: name, among: Predicate.names)
            throw ExpressionProblem(
                message: near.isEmpty && !name.hasPrefix("is")
                    ? "unexpected \(quoted(name))" : "unknown predicate \(quoted(name))\(near)",
                offset: token.range.lowerBound)
        default: return nil
        }
    }

    /// Checks a constant operand, so that mistakes are found before anything is sent.
    private func check(_ predicate: Predicate, _ operand: Expression.Node?) throws(ExpressionProblem) {
        guard case .matches = predicate, case .constant(let json)? = operand else { return }
        try checkPattern(json, at: index - 1)
    }

    private func checkPattern(_ json: JSON, at index: Int) throws(ExpressionProblem) {
        guard case .string(let text) = json, (try? NSRegularExpression(pattern: text)) != nil else {
            throw ExpressionProblem(
                message: "invalid regular expression \(quoted(json.text))", offset: tokens[index].range.lowerBound)
        }
    }

    // MARK: Filters

    private mutating func pipe() throws(ExpressionProblem) -> Expression.Node {
        let node = try operand()
        var steps: [Expression.Step] = []
        while take(.mark("|")) { steps.append(try step()) }
        return steps.isEmpty ? node : .pipe(node, steps)
    }

    private mutating func step() throws(ExpressionProblem) -> Expression.Step {
        let start = index
        guard case .name(let name)? = next?.kind else { throw problem("a filter is missing after |") }
        guard let filter = ExpressionFilter(rawValue: name) else {
            let near = Suggestion.text(for: name, among: ExpressionFilter.allCases.map(\.rawValue))
            throw problem("unknown filter \(quoted(name))\(near)")
        }
        index += 1
        var arguments: [Expression.Node] = []
        if filter == .map { mapDepth += 1 }
        defer { if filter == .map { mapDepth -= 1 } }
        let first = index + 1
        if take(.mark("(")) { arguments = try nodes(until: ")") }
        try check(filter.rawValue, arguments, filter.arguments, at: start)
        if case .constant(let json)? = arguments.first {
            if filter == .regex { try checkPattern(json, at: first) }
            if filter == .jsonpath { try checkPath(json, at: first) }
            if filter == .xpath { try checkXPath(json, at: first) }
            if filter == .decode, Charset.isUnknown(json) {
                throw problem("unknown charset \(quoted(json.text))", at: first)
            }
        }
        return Expression.Step(filter: filter, arguments: arguments)
    }

    private func check(
        _ name: String, _ arguments: [Expression.Node], _ range: ClosedRange<Int>, at index: Int
    ) throws(ExpressionProblem) {
        guard !range.contains(arguments.count) else { return }
        let needed =
            range.count == 1
            ? (range.lowerBound == 0
                ? "no arguments" : range.lowerBound == 1 ? "1 argument" : "\(range.lowerBound) arguments")
            : "\(range.lowerBound) to \(range.upperBound) arguments"
        throw problem("\(name) takes \(needed)", at: index)
    }

    private func checkPath(_ json: JSON, at index: Int) throws(ExpressionProblem) {
        do throws(EvaluationError) {
            guard case .string(let text) = json else { throw EvaluationError(message: "jsonpath takes a string") }
            _ = try JSONPath(text)
        } catch {
            throw problem("invalid JSONPath \(quoted(json.text)): \(error.message)", at: index)
        }
    }

    private func checkXPath(_ json: JSON, at index: Int) throws(ExpressionProblem) {
        guard case .string(let text) = json, XPath.isValid(text) else {
            throw problem("invalid XPath \(quoted(json.text))", at: index)
        }
    }

    // MARK: Operands

    private mutating func operand() throws(ExpressionProblem) -> Expression.Node {
        guard let token = next else { throw problem("the expression ends too early") }
        index += 1
        var node: Expression.Node
        switch token.kind {
        case .number(let number): node = constant(.number(number), token)
        case .text(let text): node = constant(.string(text), token)
        case .mark("("):
            node = try disjunction()
            try expect(")")
        case .mark("["): node = .list(try nodes(until: "]"))
        case .mark("{"): node = try object()
        case .mark: throw unexpected(token)
        case .reference(let name):
            guard let reference = Reference(name) else {
                throw problem("invalid reference ${\(name)}", at: index - 1)
            }
            node = .reference(reference, isQuoted: true)
        case .name(let name): node = try self.name(name, token)
        }
        while let member = try member() { node = Self.member(member, of: node) }
        return node
    }

    private mutating func name(_ name: String, _ token: ExpressionToken) throws(ExpressionProblem) -> Expression.Node {
        if take(.mark("(")) { return try call(name, token) }
        switch name {
        case "true": return constant(.bool(true), token)
        case "false": return constant(.bool(false), token)
        case "null": return constant(.null, token)
        case "and", "or", "not", "in": throw unexpected(token)
        default: break
        }
        guard let reference = Reference(name) else { throw problem("invalid name \(quoted(name))", at: index - 1) }
        if mapDepth > 0, reference.root == "it" {
            return reference.path.reduce(.element) { .member($0, .constant(.string($1))) }
        }
        // Without a response, all names are those of the manifest.
        return .reference(reference, isQuoted: context == .request)
    }

    private mutating func constant(_ json: JSON, _ token: ExpressionToken) -> Expression.Node {
        constants.append(token.range)
        return .constant(json)
    }

    /// Reads `[…]` or `.name` behind an operand.
    private mutating func member() throws(ExpressionProblem) -> Expression.Node? {
        guard let token = next, index > 0 else { return nil }
        if token.kind == .mark("[") {
            index += 1
            let node = try disjunction()
            try expect("]")
            return node
        }
        let before = tokens[index - 1]
        guard case .name(let text) = token.kind, text.hasPrefix("."), before.range.upperBound == token.range.lowerBound,
            let reference = Reference("_\(text)"), let first = reference.path.first
        else { return nil }
        index += 1
        guard reference.path.count > 1 else { return .constant(.string(first)) }
        return .list(reference.path.map { .constant(.string($0)) })
    }

    /// Returns a member of a value. A constant name of a reference becomes a part of its path.
    private static func member(_ key: Expression.Node, of node: Expression.Node) -> Expression.Node {
        switch (node, key) {
        case (_, .list(let keys)): return keys.reduce(node) { member($1, of: $0) }
        case (.reference(var reference, let isQuoted), .constant(.string(let text))):
            reference.path.append(text)
            return .reference(reference, isQuoted: isQuoted)
        case (.reference(var reference, let isQuoted), .constant(.number(let number))) where !number.text.hasPrefix("-"):
            reference.path.append(number.text)
            return .reference(reference, isQuoted: isQuoted)
        default: return .member(node, key)
        }
    }

    private mutating func object() throws(ExpressionProblem) -> Expression.Node {
        var members: [(key: String, value: Expression.Node)] = []
        if take(.mark("}")) { return .object(members) }
        repeat {
            switch next?.kind {
            case .name(let key)?, .text(let key)?:
                guard !members.contains(where: { $0.key == key }) else { throw problem("duplicate key \(quoted(key))") }
                index += 1
                try expect(":")
                members.append((key, try disjunction()))
            default: throw problem("a key is missing")
            }
        } while take(.mark(","))
        try expect("}")
        return .object(members)
    }

    private mutating func nodes(until mark: String) throws(ExpressionProblem) -> [Expression.Node] {
        var nodes: [Expression.Node] = []
        if take(.mark(mark)) { return nodes }
        repeat { nodes.append(try disjunction()) } while take(.mark(","))
        try expect(mark)
        return nodes
    }

    private mutating func call(_ name: String, _ token: ExpressionToken) throws(ExpressionProblem) -> Expression.Node {
        let start = index - 2
        guard let function = ExpressionFunction(rawValue: name) else {
            let near = Suggestion.text(for: name, among: ExpressionFunction.allCases.map(\.rawValue))
            let hint = ExpressionFilter(rawValue: name) == nil ? near : "; \(name) is a filter: VALUE | \(name)"
            throw problem("unknown function \(quoted(name))\(hint)", at: start)
        }
        guard context == .response || !function.needsResponse else {
            throw problem("\(name) requires a response", at: start)
        }
        let first = index
        if function == .env, case .name(let variable)? = next?.kind {
            index += 1
            var arguments: [Expression.Node] = [.constant(.string(variable))]
            if take(.mark(",")) { arguments += try nodes(until: ")") } else { try expect(")") }
            try check(name, arguments, function.arguments, at: start)
            return .call(.env, arguments)
        }
        let arguments = try nodes(until: ")")
        try check(name, arguments, function.arguments, at: start)
        if case .constant(let json)? = arguments.first {
            if function == .jsonpath { try checkPath(json, at: first) }
            if function == .xpath { try checkXPath(json, at: first) }
        }
        if function == .env, case .constant(.string)? = arguments.first {
        } else if function == .env {
            throw problem("env takes the name of an environment variable", at: first)
        }
        return .call(function, arguments)
    }

    // MARK: Words

    private var next: ExpressionToken? { index < tokens.count ? tokens[index] : nil }

    private mutating func take(_ kind: ExpressionToken.Kind) -> Bool {
        guard next?.kind == kind else { return false }
        index += 1
        return true
    }

    private mutating func expect(_ mark: String) throws(ExpressionProblem) {
        guard !take(.mark(mark)) else { return }
        throw problem("a \(quoted(mark)) is missing")
    }

    private func unexpected(_ token: ExpressionToken, hint: String = "") -> ExpressionProblem {
        ExpressionProblem(message: "unexpected \(token.description)\(hint)", offset: token.range.lowerBound)
    }

    /// Returns a mistake at the next word, or at another.
    private func problem(_ message: String, at index: Int? = nil) -> ExpressionProblem {
        let index = index ?? self.index
        return ExpressionProblem(
            message: message, offset: tokens.indices.contains(index) ? tokens[index].range.lowerBound : length)
    }
}
