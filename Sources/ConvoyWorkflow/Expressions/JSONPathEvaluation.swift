import ConvoySerialization
import Foundation

/// The evaluation of a JSONPath query (RFC 9535, section 2). The number of visited nodes is limited.
struct JSONPathEvaluation {
    let root: JSON
    private var remaining = Self.maximumSteps
    /// The end of the time for all searches of the query together.
    private let end = Pattern.end
    private var last: LastExpression?

    private struct LastExpression {
        let pattern: String
        let isWhole: Bool
        let expression: NSRegularExpression?
    }

    /// The maximum number of nodes that a query can visit, including those that its filters visit.
    static let maximumSteps = 5_000_000

    init(root: JSON) { self.root = root }

    mutating func values(of query: JSONPath.Query, from current: JSON) throws(EvaluationError) -> [JSON] {
        var nodes = [query.isAbsolute ? root : current]
        for segment in query.segments {
            var selected: [JSON] = []
            for node in nodes {
                if segment.isDescendant {
                    try descend(from: node, segment.selectors, into: &selected)
                } else {
                    for selector in segment.selectors { try select(selector, from: node, into: &selected) }
                }
            }
            nodes = selected
        }
        return nodes
    }

    private mutating func spend(_ count: Int = 1) throws(EvaluationError) {
        remaining -= count
        guard remaining >= 0 else { throw EvaluationError(message: "the JSONPath query visits more than 5 million values") }
        guard !Task.isCancelled else { throw EvaluationError(message: "the JSONPath query was cancelled") }
    }

    /// Applies selectors to a node and its descendants, each before its children.
    private mutating func descend(
        from node: JSON, _ selectors: [JSONPath.Selector], into selected: inout [JSON]
    ) throws(EvaluationError) {
        var pending = [node]
        while let next = pending.popLast() {
            try spend()
            for selector in selectors { try select(selector, from: next, into: &selected) }
            pending.append(contentsOf: Self.children(of: next).reversed())
        }
    }

    private static func children(of node: JSON) -> [JSON] {
        switch node {
        case .array(let values): values
        case .object(let object): object.members.map(\.value)
        default: []
        }
    }

    private mutating func select(
        _ selector: JSONPath.Selector, from node: JSON, into selected: inout [JSON]
    ) throws(EvaluationError) {
        switch selector {
        case .name(let name):
            try spend()
            if case .object(let object) = node, let value = object[name] { selected.append(value) }
        case .index(let index):
            try spend()
            guard case .array(let values) = node else { return }
            let position = index < 0 ? values.count + index : index
            if values.indices.contains(position) { selected.append(values[position]) }
        case .wildcard:
            let children = Self.children(of: node)
            try spend(children.count)
            selected += children
        case .slice(let start, let end, let step):
            guard case .array(let values) = node else { return }
            for position in Self.positions(start, end, step, count: values.count) {
                try spend()
                selected.append(values[position])
            }
        case .filter(let condition):
            for child in Self.children(of: node) {
                try spend()
                if try holds(condition, for: child) { selected.append(child) }
            }
        }
    }

    /// Returns the positions of a slice (section 2.3.4.2.2).
    private static func positions(_ start: Int?, _ end: Int?, _ step: Int, count: Int) -> [Int] {
        guard step != 0, count > 0 else { return [] }
        func normalized(_ index: Int) -> Int { index >= 0 ? index : count + index }
        if step > 0 {
            let lower = min(max(normalized(start ?? 0), 0), count), upper = min(max(normalized(end ?? count), 0), count)
            return Array(stride(from: lower, to: upper, by: step))
        }
        let upper = min(max(normalized(start ?? count - 1), -1), count - 1)
        let lower = min(max(end.map(normalized) ?? -1, -1), count - 1)
        return Array(stride(from: upper, to: lower, by: step))
    }

    // MARK: Filters

    private mutating func holds(_ condition: JSONPath.Logical, for node: JSON) throws(EvaluationError) -> Bool {
        switch condition {
        case .or(let operands):
            for operand in operands where try holds(operand, for: node) { return true }
            return false
        case .and(let operands):
            for operand in operands where try !holds(operand, for: node) { return false }
            return true
        case .not(let operand): return try !holds(operand, for: node)
        case .exists(let query): return try !values(of: query, from: node).isEmpty
        case .compare(let one, let comparison, let other):
            return Self.compare(try value(of: one, node), comparison, try value(of: other, node))
        case .match(let text, let pattern, let isWhole):
            guard case .string(let text)? = try value(of: text, node),
                case .string(let pattern)? = try value(of: pattern, node),
                let expression = expression(pattern, isWhole: isWhole)
            else { return false }
            try spend(1 + text.utf8.count / 64)
            return try Pattern.firstMatch(of: expression, in: text, until: end) != nil
        }
    }

    private mutating func value(of operand: JSONPath.Comparable, _ node: JSON) throws(EvaluationError) -> JSON? {
        switch operand {
        case .literal(let json): return json
        case .query(let query): return try values(of: query, from: node).first
        case .count(let query): return .number(JSONNumber(try values(of: query, from: node).count))
        case .value(let query):
            let values = try values(of: query, from: node)
            return values.count == 1 ? values[0] : nil
        case .length(let operand):
            switch try value(of: operand, node) {
            case .string(let text)?: return .number(JSONNumber(text.unicodeScalars.count))
            case .array(let values)?: return .number(JSONNumber(values.count))
            case .object(let object)?: return .number(JSONNumber(object.members.count))
            default: return nil
            }
        }
    }

    private static func compare(_ one: JSON?, _ comparison: Expression.Comparison, _ other: JSON?) -> Bool {
        switch comparison {
        case .equal: one == other
        case .unequal: one != other
        case .less: isLess(one, other)
        case .greater: isLess(other, one)
        case .lessOrEqual: isLess(one, other) || one == other
        case .greaterOrEqual: isLess(other, one) || one == other
        }
    }

    private static func isLess(_ one: JSON?, _ other: JSON?) -> Bool {
        switch (one, other) {
        case (.number(let one)?, .number(let other)?):
            guard let first = one.double, let second = other.double else { return false }
            return first < second
        case (.string(let one)?, .string(let other)?):
            return one.unicodeScalars.lexicographicallyPrecedes(other.unicodeScalars)
        default: return false
        }
    }

    /// Returns the expression for an I-Regexp (RFC 9485); nil if it is invalid. Most queries have only one, so the last one
    /// is kept.
    private mutating func expression(_ pattern: String, isWhole: Bool) -> NSRegularExpression? {
        if let last, last.pattern == pattern, last.isWhole == isWhole { return last.expression }
        let converted = Self.converted(pattern)
        // Alone first: what is invalid alone may be valid within a group.
        var expression = try? NSRegularExpression(pattern: converted)
        if isWhole, expression != nil { expression = try? NSRegularExpression(pattern: "\\A(?:\(converted))\\z") }
        last = LastExpression(pattern: pattern, isWhole: isWhole, expression: expression)
        return expression
    }

    /// Converts an I-Regexp to ICU, where a dot excludes more characters.
    private static func converted(_ pattern: String) -> String {
        var result = "", isEscaped = false, isClass = false
        for scalar in pattern.unicodeScalars {
            if !isEscaped, !isClass, scalar == "." {
                result += "[^\\n\\r]"
                continue
            }
            if !isEscaped {
                if scalar == "[" { isClass = true }
                if scalar == "]" { isClass = false }
            }
            isEscaped = !isEscaped && scalar == "\\"
            result.unicodeScalars.append(scalar)
        }
        return result
    }
}
