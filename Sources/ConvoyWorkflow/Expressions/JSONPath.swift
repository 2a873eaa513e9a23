import ConvoySerialization
import Foundation

/// A JSONPath query (RFC 9535).
struct JSONPath: Sendable, Equatable, CustomStringConvertible {
    /// The query as written.
    let description: String
    let query: Query

    /// A query: segments that are applied to the root or, in a filter, to the current node.
    struct Query: Sendable, Equatable {
        var isAbsolute = true
        var segments: [Segment] = []

        /// Whether the query selects at most one node.
        var isSingular: Bool {
            segments.allSatisfy { segment in
                guard !segment.isDescendant, segment.selectors.count == 1 else { return false }
                return switch segment.selectors[0] {
                case .name, .index: true
                case .wildcard, .slice, .filter: false
                }
            }
        }
    }

    struct Segment: Sendable, Equatable {
        /// Whether the segment applies to all descendants as well: `..`.
        var isDescendant = false
        var selectors: [Selector]
    }

    enum Selector: Sendable, Equatable {
        case name(String)
        case wildcard
        case index(Int)
        case slice(start: Int?, end: Int?, step: Int)
        case filter(Logical)
    }

    /// A logical expression of a filter.
    indirect enum Logical: Sendable, Equatable {
        case or([Logical])
        case and([Logical])
        case not(Logical)
        case exists(Query)
        case compare(Comparable, Expression.Comparison, Comparable)
        case match(Comparable, Comparable, isWhole: Bool)
    }

    /// An operand of a comparison.
    indirect enum Comparable: Sendable, Equatable {
        case literal(JSON)
        case query(Query)
        case length(Comparable)
        case count(Query)
        case value(Query)
    }

    /// Parses a query.
    ///
    /// - Throws: The first mistake, with its position in the text.
    init(_ text: String) throws(EvaluationError) {
        var parser = JSONPathParser(text)
        query = try parser.parse()
        description = text
    }

    /// Returns the selected values, in the order of the document.
    func values(in json: JSON) throws(EvaluationError) -> [JSON] {
        var evaluation = JSONPathEvaluation(root: json)
        return try evaluation.values(of: query, from: json)
    }
}

/// A JSON Pointer that may contain `*`, or a JSONPath query. A query begins with `$`.
enum JSONLocation: Sendable, Equatable, CustomStringConvertible {
    case pointer(WildcardPointer)
    case path(JSONPath)

    init(_ text: String) throws(EvaluationError) {
        if text.hasPrefix("$") {
            do throws(EvaluationError) {
                self = .path(try JSONPath(text))
            } catch {
                throw EvaluationError(message: "invalid JSONPath \(quoted(text)): \(error.message)")
            }
        } else {
            guard let pointer = WildcardPointer(text) else {
                throw EvaluationError(
                    message: "invalid JSON Pointer \(quoted(text)): it must begin with /, as in json:/items/0/id")
            }
            self = .pointer(pointer)
        }
    }

    var description: String {
        switch self {
        case .pointer(let pointer): pointer.description
        case .path(let path): path.description
        }
    }

    /// The names of the selected values, which tell whether a value is a secret.
    var names: [String] {
        switch self {
        case .pointer(let pointer): return pointer.tokens.last { $0 != "*" }.map { [$0] } ?? []
        case .path(let path):
            let names = path.query.segments.map { segment in
                segment.selectors.compactMap { if case .name(let name) = $0 { name } else { nil } }
            }
            return names.last { !$0.isEmpty } ?? []
        }
    }

    /// What a location finds in a document.
    struct Finding {
        /// The value, or nil if it does not exist. A `*` and a query that is not singular produce a list.
        let value: JSON?
        /// Whether anything was found. A list of a query exists only if the query selects a value.
        let exists: Bool
        /// Whether the value is missing in an element that a `*` of a pointer matches.
        let isPartial: Bool
    }

    func finding(in json: JSON) throws(EvaluationError) -> Finding {
        switch self {
        case .pointer(let pointer):
            let value = pointer.value(in: json)
            return Finding(value: value, exists: value != nil, isPartial: pointer.isMissingSomewhere(in: json))
        case .path(let path):
            let values = try path.values(in: json)
            return Finding(
                value: path.query.isSingular ? values.first : .array(values), exists: !values.isEmpty, isPartial: false)
        }
    }
}
