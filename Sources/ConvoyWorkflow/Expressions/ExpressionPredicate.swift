import ConvoySerialization
import Foundation

/// A predicate of an expression: a comparison, or a word.
enum Predicate: Sendable, Equatable {
    case compare(Expression.Comparison)
    case contains, startsWith, endsWith, matches, isIn
    case exists
    case kind(Kind)

    enum Kind: String, CaseIterable, Sendable {
        case isEmpty, isNumber, isInteger, isFloat, isString, isBoolean, isNull, isList, isObject, isBytes, isDate, isUUID,
            isIPv4, isIPv6, isURL

        /// The expected value, for messages.
        var title: String {
            switch self {
            case .isEmpty: "an empty value"
            case .isNumber: "a number"
            case .isInteger: "an integer"
            case .isFloat: "a number with a fraction or an exponent"
            case .isString: "a string"
            case .isBoolean: "a boolean"
            case .isNull: "null"
            case .isList: "a list"
            case .isObject: "an object"
            case .isBytes: "bytes"
            case .isDate: "a date"
            case .isUUID: "a UUID"
            case .isIPv4: "an IPv4 address"
            case .isIPv6: "an IPv6 address"
            case .isURL: "an absolute URL"
            }
        }

        func holds(for value: ExpressionValue) -> Bool {
            switch (self, value) {
            case (.isEmpty, .json(.string(let text))): text.isEmpty
            case (.isEmpty, .json(.array(let values))): values.isEmpty
            case (.isEmpty, .json(.object(let object))): object.members.isEmpty
            case (.isEmpty, .bytes(let data)): data.isEmpty
            case (.isNumber, .json(.number)), (.isString, .json(.string)), (.isBoolean, .json(.bool)),
                (.isNull, .json(.null)), (.isList, .json(.array)), (.isObject, .json(.object)), (.isBytes, .bytes),
                (.isDate, .date):
                true
            case (.isInteger, .json(.number(let number))): Self.isInteger(number)
            case (.isFloat, .json(.number(let number))): !Self.isInteger(number)
            case (.isDate, .json(.string(let text))): ExpressionDate.date(text) != nil
            case (.isUUID, .json(.string(let text))): UUID(uuidString: text) != nil
            case (.isIPv4, .json(.string(let text))): Self.isAddress(text, AF_INET)
            case (.isIPv6, .json(.string(let text))): Self.isAddress(text, AF_INET6)
            case (.isURL, .json(.string(let text))): text.hasScheme && URL(string: text)?.host?.isEmpty == false
            default: false
            }
        }

        private static func isInteger(_ number: JSONNumber) -> Bool { !number.text.contains { ".eE".contains($0) } }

        private static func isAddress(_ text: String, _ family: Int32) -> Bool {
            var address = in6_addr()
            return !text.utf8.contains(0) && inet_pton(family, text, &address) == 1
        }
    }

    init?(name: String) {
        switch name {
        case "contains": self = .contains
        case "startsWith": self = .startsWith
        case "endsWith": self = .endsWith
        case "matches": self = .matches
        case "in": self = .isIn
        case "exists": self = .exists
        default:
            guard let kind = Kind(rawValue: name) else { return nil }
            self = .kind(kind)
        }
    }

    static let names =
        ["contains", "startsWith", "endsWith", "matches", "in", "exists", "and", "or"] + Kind.allCases.map(\.rawValue)

    /// Whether the predicate compares with a second operand.
    var hasOperand: Bool {
        switch self {
        case .exists, .kind: false
        default: true
        }
    }

    /// Describes the expected value.
    ///
    /// - Parameter operand: The second operand as it is shown.
    func expectation(_ operand: String, isNegated: Bool) -> String {
        let not = isNegated ? "not " : ""
        return switch self {
        case .compare(.equal): not + operand
        case .compare(.unequal): isNegated ? operand : "not \(operand)"
        case .compare(let comparison): "\(not)\(comparison.rawValue) \(operand)"
        case .contains: "\(not)contains \(operand)"
        case .startsWith: "\(not)startsWith \(operand)"
        case .endsWith: "\(not)endsWith \(operand)"
        case .matches: "\(not)matches \(operand)"
        case .isIn: "\(not)in \(operand)"
        case .exists: isNegated ? "no value" : "a value"
        case .kind(let kind): not + kind.title
        }
    }
}

extension ExpressionEvaluation {
    /// Returns whether a predicate holds. Except for `exists`, none holds for a missing value.
    mutating func holds(
        _ predicate: Predicate, isNegated: Bool, _ one: ExpressionValue, _ other: ExpressionValue
    ) throws(EvaluationError) -> Bool {
        if case .exists = predicate { return one.isMissing == isNegated }
        guard !one.isMissing, !other.isMissing else { return false }
        return try holds(predicate, one, other) != isNegated
    }

    private mutating func holds(
        _ predicate: Predicate, _ one: ExpressionValue, _ other: ExpressionValue
    ) throws(EvaluationError) -> Bool {
        switch predicate {
        case .compare:
            // A comparison ends with the smaller value.
            try spend(other.weight(limit: one.weight(limit: Self.maximumLength)))
        case .contains: try spend(on: one)
        case .isIn: try spend(on: other)
        default: try spend(one.length + other.length)
        }
        switch predicate {
        case .exists: return !one.isMissing
        case .kind(let kind): return kind.holds(for: one)
        case .compare(.equal): return one.isEqual(to: other)
        case .compare(.unequal): return !one.isEqual(to: other)
        case .compare(let comparison): return try Self.compare(one, comparison, other)
        case .contains: return try contains(one, other, "contains")
        case .isIn: return try contains(other, one, "in")
        case .startsWith, .endsWith:
            guard let data = one.utf8, let part = other.utf8 else {
                let word = predicate == .startsWith ? "startsWith" : "endsWith"
                throw EvaluationError(message: "\(word) compares two strings or bytes")
            }
            return predicate == .startsWith ? data.starts(with: part) : data.suffix(part.count) == part
        case .matches:
            guard case .json(.string(let text)) = one, case .json(.string(let pattern)) = other else {
                throw EvaluationError(message: "matches needs a string and a regular expression")
            }
            return try match(pattern, in: text) != nil
        }
    }

    private mutating func contains(
        _ whole: ExpressionValue, _ part: ExpressionValue, _ word: String
    ) throws(EvaluationError) -> Bool {
        switch whole {
        case .json(.array(let values)):
            guard let part = part.json else { return false }
            return values.contains(part)
        case .json(.object(let object)):
            guard case .json(.string(let key)) = part else {
                throw EvaluationError(message: "an object contains keys, which are strings")
            }
            return object[key] != nil
        default:
            guard let data = whole.utf8, let part = part.utf8 else {
                throw EvaluationError(
                    message: "\(word) cannot search for a value of type \(part.typeName) in one of type \(whole.typeName)")
            }
            return ByteSearch.contains(part, in: data)
        }
    }

    private static func compare(
        _ one: ExpressionValue, _ comparison: Expression.Comparison, _ other: ExpressionValue
    ) throws(EvaluationError) -> Bool {
        let isLess: Bool, isGreater: Bool
        switch (one, other) {
        case (.json(.number(let one)), .json(.number(let other))):
            if let first: Int = one.integer(), let second: Int = other.integer() {
                isLess = first < second
                isGreater = first > second
            } else {
                guard let first = one.double, let second = other.double else {
                    throw EvaluationError(message: "a number is too large to be compared")
                }
                isLess = first < second
                isGreater = first > second
            }
        case (.json(.string(let one)), .json(.string(let other))):
            let (first, second) = (one.unicodeScalars, other.unicodeScalars)
            isLess = first.lexicographicallyPrecedes(second)
            isGreater = second.lexicographicallyPrecedes(first)
        case (.date(let one), .date(let other)):
            isLess = one < other
            isGreater = one > other
        default: throw EvaluationError(message: "\(comparison.rawValue) compares two numbers, two strings or two dates")
        }
        return switch comparison {
        case .less: isLess
        case .lessOrEqual: !isGreater
        case .greater: isGreater
        default: !isLess
        }
    }
}
