import ConvoySerialization
import Foundation

/// A name with a path: `login.token`, `env.API`, `item.id`, `report.failed`.
struct Reference: Sendable, Hashable, CustomStringConvertible {
    /// The name before the first dot.
    var root: String
    /// The names after the first dot: keys of objects, or indices of lists.
    var path: [String]

    var description: String { ([root] + path).joined(separator: ".") }

    /// Creates a reference whose path may have any names.
    init(root: String, path: [String]) {
        self.root = root
        self.path = path
    }

    /// Parses a reference, and returns nil for any other string.
    init?(_ text: some StringProtocol) {
        let names = String(text).split(separator: "." as Character, omittingEmptySubsequences: false).map { String($0) }
        guard let first = names.first, Self.isName(first), names.dropFirst().allSatisfy(Self.isPart) else { return nil }
        root = first
        path = Array(names.dropFirst())
    }

    /// Returns whether a string can be the name of a request, a capture or a variable.
    static func isName(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, first == "_" || first.properties.isAlphabetic, first.isASCII else {
            return false
        }
        return isPart(text)
    }

    private static func isPart(_ text: String) -> Bool {
        !text.isEmpty
            && text.unicodeScalars.allSatisfy {
                $0.isASCII && ($0 == "_" || $0 == "-" || $0.properties.isAlphabetic || (0x30...0x39).contains($0.value))
            }
    }
}

/// A value for a template or an expression.
struct ScopedValue: Sendable {
    var json: JSON
    /// Whether the value comes from a response and is therefore untrusted.
    var isHostile = false
}

/// The values that templates and expressions can refer to.
protocol Scope {
    func value(of reference: Reference) throws(EvaluationError) -> ScopedValue

    /// The response that an expression examines, or nil.
    var response: ReceivedResponse? { get }

    /// Returns the value of an expression in a `${…}`.
    func value(of expression: Expression) throws(EvaluationError) -> ScopedValue

    /// The files that expressions and requests may read.
    var files: FileRoot { get }

    /// Returns whether an expression uses a secret, so that messages about it must not show values.
    func hides(_ expression: Expression) -> Bool

    /// Returns the value of a reference in an expression.
    ///
    /// - Parameter isQuoted: Whether the reference is written as `${…}`, and therefore never names a value of the response.
    func operand(
        _ reference: Reference, isQuoted: Bool
    ) throws(EvaluationError) -> (value: ExpressionValue, isHostile: Bool)
}

extension Scope {
    var response: ReceivedResponse? { nil }

    var files: FileRoot { .none }

    func value(of expression: Expression) throws(EvaluationError) -> ScopedValue { try evaluated(expression) }

    func hides(_ expression: Expression) -> Bool { expression.namesSecret }

    func evaluated(_ expression: Expression) throws(EvaluationError) -> ScopedValue {
        var evaluation = ExpressionEvaluation(of: expression, in: self)
        let value = try evaluation.value(of: expression.root)
        guard let json = value.json else {
            if case .missing(let reason) = value {
                throw EvaluationError(
                    message: "${\(expression.source)} has no value\(reason.isEmpty ? "" : ": \(reason)")")
            }
            throw EvaluationError(message: "${\(expression.source)} is bytes; use toString, base64 or toHex")
        }
        return ScopedValue(json: json, isHostile: evaluation.isHostile)
    }

    func operand(
        _ reference: Reference, isQuoted: Bool
    ) throws(EvaluationError) -> (value: ExpressionValue, isHostile: Bool) {
        let value = try value(of: reference)
        return (.json(value.json), value.isHostile)
    }
}

extension JSON {
    /// Returns the value at a path, or nil.
    func value(at path: some Collection<String>) -> JSON? { self[JSONPointer(tokens: Array(path))] }

    /// The value as part of a string.
    var text: String {
        switch self {
        case .string(let text): text
        case .null: ""
        default: description
        }
    }

    /// Whether the value counts as true: every value except null, false, an empty string and an empty list.
    var isTrue: Bool {
        switch self {
        case .null, .bool(false): false
        case .string(let text): !text.isEmpty
        case .array(let values): !values.isEmpty
        default: true
        }
    }
}
