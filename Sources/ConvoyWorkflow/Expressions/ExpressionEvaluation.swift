import ConvoySerialization
import ConvoySupport
import Foundation

/// The evaluation of an expression. Its work is limited in proportion to the size of the response, and in time.
struct ExpressionEvaluation {
    /// The operands of a test, which explain its result.
    struct Record: Sendable {
        var subject: ExpressionValue
        var operand: ExpressionValue?
        var result: Result<Bool, EvaluationError>
    }

    let scope: any Scope
    /// Whether a value comes from a response.
    private(set) var isHostile = false
    /// The latest operands of each test, by its number.
    private(set) var records: [Int: Record] = [:]
    /// The values to which filters were applied, except those within `map`.
    private(set) var filtered: [ExpressionValue] = []
    /// The latest argument of `any` or `all`.
    private(set) var lastList: ExpressionValue?
    private let keepsRecords: Bool
    /// Whether messages show no values, because the expression uses a secret.
    private let hidesValues: Bool
    private var remaining: Int
    /// The end of the time for all searches of the expression together.
    private let end = Pattern.end
    private let now = Date()
    /// The current elements of `map`, innermost last.
    private var elements: [JSON] = []
    private var last: (pattern: String, expression: NSRegularExpression)?

    /// The maximum number of elements that a filter can produce.
    static let maximumCount = 1_000_000
    /// The maximum size of a string that a filter can produce, in bytes.
    static let maximumLength = 256 << 20

    init(of expression: Expression, in scope: some Scope, keepsRecords: Bool = false) {
        self.scope = scope
        self.keepsRecords = keepsRecords
        hidesValues = scope.hides(expression)
        let size = scope.response.map { Int(clamping: $0.byteCount) } ?? 0
        remaining = 50_000_000 + min(size, 1 << 32) * 64
    }

    /// Accounts for work on a number of bytes or elements.
    mutating func spend(_ count: Int) throws(EvaluationError) {
        remaining -= count + 1
        guard remaining >= 0 else { throw EvaluationError(message: "the expression needs too much work") }
        guard ContinuousClock.now < end, !Task.isCancelled else {
            throw EvaluationError(message: "the expression took too long")
        }
    }

    /// Accounts for work on all parts of a value.
    mutating func spend(on value: ExpressionValue) throws(EvaluationError) {
        try spend(value.weight(limit: remaining))
    }

    // MARK: Messages

    /// Returns a string for the message of an error. A string that is too long is replaced by its length, because a part of
    /// a secret could not be masked.
    func shown(_ text: String) -> String {
        if hidesValues { return "\"***\"" }
        guard text.utf8.count <= 200 else { return "a string of \(text.unicodeScalars.count) characters" }
        return quoted(text, isCut: false)
    }

    /// Returns an error of a query or a file, which may quote a value.
    func shown(_ error: EvaluationError) -> EvaluationError {
        guard hidesValues else { return error }
        return EvaluationError(message: "the expression has no value", isAboutFile: error.isAboutFile)
    }

    // MARK: Values

    mutating func value(of node: Expression.Node) throws(EvaluationError) -> ExpressionValue {
        switch node {
        case .constant(let json): return .json(json)
        case .list(let nodes):
            var values: [JSON] = []
            for node in nodes { values.append(try json(of: node)) }
            return .json(.array(values))
        case .object(let members):
            var object = JSONObject()
            for member in members { object.append(key: member.key, value: try json(of: member.value)) }
            return .json(.object(object))
        case .reference(let reference, let isQuoted):
            let (value, isHostile) = try scope.operand(reference, isQuoted: isQuoted)
            self.isHostile = self.isHostile || isHostile
            return value
        case .element: return .json(elements.last ?? .null)
        case .member(let node, let key): return Self.member(try value(of: key), of: try value(of: node))
        case .call(let function, let arguments): return try call(function, arguments)
        case .pipe(let node, let steps):
            var result = try value(of: node)
            if keepsRecords, elements.isEmpty { filtered.append(result) }
            for step in steps { result = try apply(step, to: result) }
            return result
        case .test(let test): return .bool(try evaluate(test))
        case .and(let nodes):
            for node in nodes where try !value(of: node).isTrue { return .bool(false) }
            return .bool(true)
        case .or(let nodes):
            for node in nodes where try value(of: node).isTrue { return .bool(true) }
            return .bool(false)
        case .not(let node): return .bool(try !value(of: node).isTrue)
        }
    }

    /// Returns a value as an element of a list, in which a missing value is null.
    private mutating func json(of node: Expression.Node) throws(EvaluationError) -> JSON {
        let value = try value(of: node)
        if case .bytes = value { throw EvaluationError(message: "a list or an object cannot contain bytes; use base64") }
        return value.json ?? .null
    }

    private static func member(_ key: ExpressionValue, of value: ExpressionValue) -> ExpressionValue {
        guard case .json(let json) = value, case .json(let key) = key else { return .nothing }
        if case .array(let values) = json, case .number(let number) = key, let index: Int = number.integer() {
            let position = index < 0 ? values.count + index : index
            return values.indices.contains(position) ? .json(values[position]) : .nothing
        }
        return json.value(at: [key.text]).map { .json($0) } ?? .nothing
    }

    private mutating func evaluate(_ test: Expression.Test) throws(EvaluationError) -> Bool {
        let subject = try value(of: test.subject)
        let operand: ExpressionValue? = if let node = test.operand { try value(of: node) } else { nil }
        let result: Result<Bool, EvaluationError>
        do throws(EvaluationError) {
            result = .success(
                try holds(test.predicate, isNegated: test.isNegated, subject, operand ?? .json(.null)))
        } catch {
            result = .failure(error)
        }
        if keepsRecords { records[test.number] = Record(subject: subject, operand: operand, result: result) }
        return try result.get()
    }

    // MARK: Functions

    private mutating func call(
        _ function: ExpressionFunction, _ arguments: [Expression.Node]
    ) throws(EvaluationError) -> ExpressionValue {
        switch function {
        case .always: return .bool(true)
        case .any, .all:
            let value = try value(of: arguments[0])
            if keepsRecords { lastList = value }
            guard case .json(.array(let values)) = value else { return .bool(value.isTrue) }
            let isGood = { (json: JSON) in json != .null && json != .bool(false) }
            return .bool(function == .any ? values.contains(where: isGood) : values.allSatisfy(isGood))
        case .uuid: return .string(UUID().uuidString.lowercased())
        case .now: return .date(now)
        case .random: return try random(try number(arguments[0], "random"), try number(arguments[1], "random"))
        case .env:
            let name = try text(arguments[0], "env"), reference = Reference(root: "env", path: [name])
            do throws(EvaluationError) {
                return .json(try scope.value(of: reference).json)
            } catch {
                guard arguments.count > 1 else { throw error }
                return try value(of: arguments[1])
            }
        case .file: return try file(arguments[0])
        case .hex:
            let text = try text(arguments[0], "hex")
            guard let bytes = ASCII.bytes(ofHexadecimal: Array(text.utf8)) else {
                throw EvaluationError(message: "hex takes pairs of hexadecimal digits, not \(shown(text))")
            }
            return .bytes(Data(bytes))
        case .xpath:
            isHostile = true
            guard let response = scope.response else { throw EvaluationError(message: "xpath requires a response") }
            let path = try text(arguments[0], "xpath")
            try spend(Int(clamping: response.byteCount))
            do throws(EvaluationError) { return try response.value(ofXPath: path) } catch { throw shown(error) }
        case .jsonpath:
            isHostile = true
            guard let response = scope.response else { throw EvaluationError(message: "jsonpath requires a response") }
            let json: JSON
            do throws(EvaluationError) { json = try response.parsedJSON() } catch { return .missing(error.message) }
            let path = try text(arguments[0], "jsonpath")
            try spend(on: .json(json))
            return try query(path, in: json)
        case .headers:
            isHostile = true
            let name = try text(arguments[0], "headers")
            return .json(.array((scope.response?.values(ofField: name) ?? []).map { .string($0) }))
        }
    }

    func query(_ path: String, in json: JSON) throws(EvaluationError) -> ExpressionValue {
        do throws(EvaluationError) {
            return try JSONLocation.path(try JSONPath(path)).finding(in: json).value.map { .json($0) } ?? .nothing
        } catch {
            throw shown(error)
        }
    }

    mutating func text(_ node: Expression.Node, _ what: String) throws(EvaluationError) -> String {
        let value = try value(of: node)
        guard case .json(.string(let text)) = value else {
            throw EvaluationError(message: "\(what) takes a string, not a value of type \(value.typeName)")
        }
        return text
    }

    mutating func number(_ node: Expression.Node, _ what: String) throws(EvaluationError) -> JSONNumber {
        let value = try value(of: node)
        guard case .json(.number(let number)) = value else {
            throw EvaluationError(message: "\(what) takes a number, not a value of type \(value.typeName)")
        }
        return number
    }

    private func random(_ least: JSONNumber, _ most: JSONNumber) throws(EvaluationError) -> ExpressionValue {
        let problem = EvaluationError(message: "random takes two numbers, the smaller one first")
        if let least: Int = least.integer(), let most: Int = most.integer() {
            guard least <= most else { throw problem }
            return .number(Int.random(in: least...most))
        }
        // The distance between two finite numbers may be infinite.
        guard let least = least.double, let most = most.double, least <= most, (most - least).isFinite,
            let number = JSONNumber(Double.random(in: least...most))
        else { throw problem }
        return .json(.number(number))
    }

    /// Reads a file that the manifest names. A response must not choose it.
    private mutating func file(_ node: Expression.Node) throws(EvaluationError) -> ExpressionValue {
        let before = isHostile
        isHostile = false
        defer { isHostile = isHostile || before }
        let path = try text(node, "file")
        guard !isHostile else { throw EvaluationError(message: "file cannot use a value from a response in its path") }
        let data: Data
        do throws(EvaluationError) { data = try NamedFile.contents(of: try scope.files.path(of: path)) } catch {
            throw shown(error)
        }
        try spend(data.count)
        return String(validating: data, as: UTF8.self).map { .string($0) } ?? .bytes(data)
    }

    // MARK: Elements and patterns

    /// Returns the value of a node for an element of `map`.
    mutating func value(of node: Expression.Node, for element: JSON) throws(EvaluationError) -> JSON {
        elements.append(element)
        defer { elements.removeLast() }
        return try json(of: node)
    }

    /// Returns the groups of the first match, nil for those that match nothing; nil if there is no match.
    mutating func match(_ pattern: String, in text: String) throws(EvaluationError) -> [String?]? {
        if last?.pattern != pattern {
            try spend(pattern.utf8.count * 100)
            guard let expression = try? NSRegularExpression(pattern: pattern) else {
                throw EvaluationError(message: "invalid regular expression \(shown(pattern))")
            }
            last = (pattern, expression)
        }
        guard let expression = last?.expression else { return nil }
        try spend(text.utf8.count)
        let match: NSTextCheckingResult?
        do throws(EvaluationError) {
            match = try Pattern.firstMatch(of: expression, in: text, until: end)
        } catch {
            throw shown(error)
        }
        guard let match else { return nil }
        return (0..<match.numberOfRanges).map { Range(match.range(at: $0), in: text).map { String(text[$0]) } }
    }
}

/// A function of an expression.
enum ExpressionFunction: String, CaseIterable, Sendable {
    case always, any, all, xpath, jsonpath, headers, hex, uuid, now, random, env, file

    /// The number of its arguments.
    var arguments: ClosedRange<Int> {
        switch self {
        case .always, .uuid, .now: 0...0
        case .any, .all, .xpath, .jsonpath, .headers, .hex, .file: 1...1
        case .env: 1...2
        case .random: 2...2
        }
    }

    var needsResponse: Bool { [.xpath, .jsonpath, .headers].contains(self) }

    /// Whether the result differs from call to call.
    var isVolatile: Bool { [.uuid, .now, .random].contains(self) }
}

extension Expression {
    func value(in scope: some Scope) throws(EvaluationError) -> ExpressionValue {
        var evaluation = ExpressionEvaluation(of: self, in: scope)
        return try evaluation.value(of: root)
    }

    /// Whether the value differs from evaluation to evaluation.
    var isVolatile: Bool { root.isVolatile }
}

extension Expression.Node {
    fileprivate var isVolatile: Bool {
        if case .call(let function, _) = self, function.isVolatile { return true }
        if case .pipe(_, let steps) = self, steps.contains(where: { $0.filter == .daysFromNow }) { return true }
        return children.contains(where: \.isVolatile)
    }
}
