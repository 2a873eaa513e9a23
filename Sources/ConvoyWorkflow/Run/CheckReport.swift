import ConvoySerialization
import Foundation

/// The message for an expression of `expect` that is not true: its source, and the actual and expected values with their
/// types, on several lines.
struct CheckReport {
    /// A test that made an expression false.
    private struct FailedTest {
        let test: Expression.Test?
        let record: ExpressionEvaluation.Record
        /// Whether the test was expected to be false.
        var isInverted = false
    }

    private static let maximumCount = 4

    private let check: CheckPlan
    private let evaluation: ExpressionEvaluation
    private let result: ExpressionValue
    private let problem: EvaluationError?
    /// Whether the expression uses a secret that the manifest marks.
    private let usesSecret: Bool

    private var expression: Expression { check.expression }

    /// Evaluates an expression. Returns nil if it is true.
    init?(of check: CheckPlan, in scope: ResponseScope) {
        var evaluation = ExpressionEvaluation(of: check.expression, in: scope, keepsRecords: true)
        do throws(EvaluationError) {
            result = try evaluation.value(of: check.expression.root)
            if result.isTrue { return nil }
            problem = nil
        } catch {
            result = .nothing
            problem = error
        }
        self.check = check
        self.evaluation = evaluation
        usesSecret = check.expression.allReferences.contains(where: scope.outer.values.plan.isMarked)
    }

    /// Returns the message, without secrets.
    func reason(hiding secrets: ResponseSecrets) -> FailureReason {
        // A filter changes a secret, which the mask would then not recognize.
        let hidesAll = usesSecret || evaluation.filtered.contains(where: secrets.isKnown)
        let values = ShownValues(names: expression.names, secrets: secrets, hidesAll: hidesAll)
        var text = values.source(of: expression)
        if let problem { text += "\n" + values.shown(message: problem.message) }
        let findings = findings, isWhole = findings.count == 1 && (isSimple || findings[0].test == nil)
        for finding in findings.prefix(Self.maximumCount) {
            if !isWhole, let range = finding.test?.range { text += "\n" + values.source(of: expression, range) }
            for line in lines(of: finding, values) { text += "\n" + (isWhole ? "" : "  ") + line }
        }
        let start = isSimple ? 0 : findings.first?.test?.range.lowerBound ?? 0
        return FailureReason(
            cause: problem == nil ? .expectation : .value, text: text,
            position: check.source.position(ofCharacter: start))
    }

    /// Whether the expression consists of one test.
    private var isSimple: Bool {
        switch expression.root {
        case .test, .not(.test): true
        default: false
        }
    }

    /// The tests that made the expression false, or failed.
    private var findings: [FailedTest] {
        let records = evaluation.records
        var found: [FailedTest] = []
        func visit(_ node: Expression.Node, wanted: Bool) {
            switch node {
            case .test(let test):
                guard let record = records[test.number] else { return }
                if let value = try? record.result.get(), value == wanted { return }
                found.append(FailedTest(test: test, record: record, isInverted: !wanted))
            case .not(let operand): visit(operand, wanted: !wanted)
            case .and(let nodes), .or(let nodes): for node in nodes { visit(node, wanted: wanted) }
            default: break
            }
        }
        visit(expression.root, wanted: true)
        if found.isEmpty, problem == nil {
            let record = ExpressionEvaluation.Record(subject: result, operand: nil, result: .success(false))
            found.append(FailedTest(test: nil, record: record))
        }
        return found
    }

    private func lines(of finding: FailedTest, _ values: ShownValues) -> [String] {
        guard let test = finding.test else {
            if case .call(let function, _) = expression.root, let list = evaluation.lastList {
                return [
                    "actual:   \(values.shown(list))",
                    "expected: \(function == .any ? "at least one true value" : "only true values")",
                ]
            }
            return ["actual:   \(values.shown(finding.record.subject))", "expected: a true value"]
        }
        var operand = finding.record.operand.map { values.shown($0) } ?? ""
        if case .constant(let json)? = test.operand { operand = values.shown(constant: json) }
        var lines = [
            "actual:   \(values.shown(finding.record.subject))",
            "expected: \(test.predicate.expectation(operand, isNegated: test.isNegated != finding.isInverted))",
        ]
        if test.predicate == .compare(.equal), !finding.isInverted, let operand = finding.record.operand {
            lines += values.differences(finding.record.subject, operand)
        }
        return lines
    }
}
