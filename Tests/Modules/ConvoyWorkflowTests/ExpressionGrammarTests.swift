import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Random expressions of the grammar. `CONVOY_BUDGET` multiplies their number.
@Suite(.timeLimit(.minutes(30))) struct ExpressionGrammarTests {
    /// A generator of valid expressions without functions that have another result each time.
    private struct Grammar {
        var random: SplitMix64
        /// The number of words that may still be added, so that the parser's limit is not reached.
        var room = 0

        mutating func pick(_ texts: [String]) -> String { texts.randomElement(using: &random) ?? "" }
        private mutating func chance(_ number: Int) -> Bool { Int.random(in: 0..<number, using: &random) == 0 }

        mutating func disjunction(_ depth: Int, inMap: Bool = false) -> String {
            var text = conjunction(depth, inMap)
            while room > 0, chance(4) { text += pick([" or ", "\nor "]) + conjunction(depth, inMap) }
            return text
        }

        private mutating func conjunction(_ depth: Int, _ inMap: Bool) -> String {
            var text = negation(depth, inMap)
            while room > 0, chance(4) { text += " and " + negation(depth, inMap) }
            return text
        }

        private mutating func negation(_ depth: Int, _ inMap: Bool) -> String {
            let text = pipe(depth, inMap), not = chance(5) ? "not " : ""
            switch Int.random(in: 0..<4, using: &random) {
            case 0: return not + text
            case 1:
                let names = ["exists", "isEmpty", "isNumber", "isList", "isDate", "isUUID", "isIPv4", "isNull", "isBytes"]
                return "\(not)\(text) \(chance(3) ? "not " : "")\(pick(names))"
            case 2: return "\(not)\(text) \(pick(["==", "!=", "<", "<=", ">", ">="])) \(pipe(depth, inMap))"
            default:
                let names = ["in", "contains", "startsWith", "endsWith"]
                return "\(not)\(text) \(chance(3) ? "not " : "")\(pick(names)) \(pipe(depth, inMap))"
            }
        }

        private mutating func pipe(_ depth: Int, _ inMap: Bool) -> String {
            var text = operand(depth, inMap)
            while room > 0, chance(2) { text += " | " + filter(depth) }
            return text
        }

        private mutating func filter(_ depth: Int) -> String {
            room -= 2
            let plain = ExpressionFilter.allCases.filter { $0.arguments.lowerBound == 0 }.map(\.rawValue)
            guard chance(2) else { return pick(plain) }
            return depth > 0 && chance(2)
                ? "map(\(disjunction(depth - 1, inMap: true)))"
                : pick([
                    "nth(0)", "nth(-1)", "split(',')", "replace('a', \"b\")", "regex('([a-z]+)')", "regex('(a)(b)?', 2)",
                    "decode('latin1')", "date('%Y-%m-%d')", "format('%j')", "jsonpath('$..id')", "xpath('//a')",
                ])
        }

        private mutating func operand(_ depth: Int, _ inMap: Bool) -> String {
            room -= 3
            if depth > 0, room > 0, chance(3) {
                switch Int.random(in: 0..<4, using: &random) {
                case 0: return "(\(disjunction(depth - 1, inMap: inMap)))"
                case 1: return "[\(disjunction(depth - 1, inMap: inMap)), \(pipe(depth - 1, inMap))]"
                case 2: return "{a: \(pipe(depth - 1, inMap)), 'b c': \(disjunction(depth - 1, inMap: inMap))}"
                default: return pick(["any", "all"]) + "([\(disjunction(depth - 1, inMap: inMap))])"
                }
            }
            if inMap, chance(2) { return pick(["it", "it.id", "it['id']"]) }
            return pick([
                "json", "json.items", "json.items[0].id", "json['a b'].c", "body", "bytes", "status", "headers.X-A",
                "headers('X-A')", "cookies.s.max-age", "url", "redirects", "version", "duration", "sha256", "1", "-2.5e3",
                "''",
                "'it''s'", "\"\\u00e9\\n\"", "true", "false", "null", "[]", "{}", "hex('00ff')", "jsonpath('$.items[*].id')",
                "xpath('count(//a)')", "99999999999999999999", "json.nope", "always()",
            ])
        }
    }

    @Test func `every expression of the grammar is parsed and evaluated, and parentheses change nothing`() {
        let budget = ProcessInfo.processInfo.environment["CONVOY_BUDGET"].flatMap { Int($0) } ?? 1
        let body = Data(#"{"items": [{"id": "2"}, {"id": 1}], "a b": {"c": [true, null]}, "x": "a,b"}"#.utf8)
        let response = ReceivedResponse(
            status: 200, fields: [("X-A", "1"), ("X-A", "b"), ("Set-Cookie", "s=1; Max-Age=60")],
            url: URL(string: "http://a/"), body: body, file: nil, byteCount: Int64(body.count), seconds: 1)
        let scope = ResponseScope(examined: response, outer: ItemScope(values: RunValues(WorkflowPlan())))
        /// The value of an expression, or the reason why it has none.
        func result(_ text: String) throws(ExpressionProblem) -> String {
            let expression = try ExpressionParser.parse(text, in: .response)
            do throws(EvaluationError) {
                let value = try expression.value(in: scope)
                return
                    "\(value.isTrue) \(value.typeName) \(value.json?.description ?? value.utf8?.base64EncodedString() ?? "")"
            } catch {
                return error.message
            }
        }
        var grammar = Grammar(random: .printingSeed())
        for _ in 0..<(2000 * budget) {
            grammar.room = 60
            let text = grammar.disjunction(4)
            do throws(ExpressionProblem) {
                let value = try result(text)
                guard try result("(\(text))") == value, try result(" ( (\n\(text)\t) )") == value else {
                    Issue.record("\(text): parentheses change \(value)")
                    return
                }
                let isTrue = value.hasPrefix("true "), negated = try result("not (\(text))")
                guard !isTrue && !value.hasPrefix("false ") || negated == "\(!isTrue) boolean \(!isTrue)" else {
                    Issue.record("not (\(text)) is \(negated), but without not it is \(value)")
                    return
                }
            } catch {
                Issue.record("\(text): \(error.message) at \(error.offset)")
                return
            }
        }
    }
}
