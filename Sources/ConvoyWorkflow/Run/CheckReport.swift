import ConvoySerialization
import Foundation

/// The message for an expression of `expect` that is not true: its source, and the actual and expected values with their
/// types, on several lines.
struct CheckReport {
    /// A test that made an expression false.
    private struct Finding {
        let test: Expression.Test?
        let record: ExpressionEvaluation.Record
        /// Whether the test was expected to be false.
        var isInverted = false
    }

    private static let maximumCount = 4

    private let expression: Expression
    private let values: ShownValues
    private let records: [Int: ExpressionEvaluation.Record]

    /// Returns the failure of an expression, or nil if it is true.
    static func failure(
        of check: CheckPlan, in scope: ResponseScope, _ secrets: SecretMask
    ) -> FailureReason? {
        var evaluation = ExpressionEvaluation(in: scope, keepsRecords: true), problem: EvaluationError?
        var result = ExpressionValue.nothing
        do throws(EvaluationError) {
            result = try evaluation.value(of: check.expression.root)
            if result.isTrue { return nil }
        } catch {
            problem = error
        }
        let report = CheckReport(
            expression: check.expression,
            values: ShownValues(names: check.expression.names, response: scope.examined, secrets: secrets),
            records: evaluation.records)
        let findings = report.findings(of: check.expression.root, result, problem)
        var text = report.values.source(of: check.expression)
        if let problem {
            text += "\n" + report.values.shown(problem.message)
        }
        let isWhole = findings.count == 1 && (report.isSimple || findings[0].test == nil)
        for finding in findings.prefix(maximumCount) {
            if !isWhole, let range = finding.test?.range {
                text += "\n" + report.values.source(of: check.expression, range)
            }
            for line in report.lines(of: finding) { text += "\n" + (isWhole ? "" : "  ") + line }
        }
        let start = report.isSimple ? 0 : findings.first?.test?.range.lowerBound ?? 0
        let cause = problem == nil ? RequestOutcome.Cause.expectation : .value
        return FailureReason(
            cause: cause, text: text, position: check.source.position(ofCharacter: start))
    }

    /// Whether the expression consists of one test.
    private var isSimple: Bool {
        switch expression.root {
        case .test, .not(.test): true
        default: false
        }
    }

    /// Returns the tests that made the expression false, or failed.
    private func findings(
        of root: Expression.Node, _ result: ExpressionValue, _ problem: EvaluationError?
    ) -> [Finding] {
        var found: [Finding] = []
        func visit(_ node: Expression.Node, wanted: Bool) {
            switch node {
            case .test(let test):
                guard let record = records[test.number] else { return }
                if let value = try? record.result.get(), value == wanted { return }
                found.append(Finding(test: test, record: record, isInverted: !wanted))
            case .not(let operand): visit(operand, wanted: !wanted)
            case .and(let nodes), .or(let nodes): for node in nodes { visit(node, wanted: wanted) }
            default: break
            }
        }
        visit(root, wanted: true)
        if found.isEmpty, problem == nil {
            let record = ExpressionEvaluation.Record(subject: result, operand: nil, result: .success(false))
            found.append(Finding(test: nil, record: record))
        }
        return found
    }

    private func lines(of finding: Finding) -> [String] {
        guard let test = finding.test else {
            return ["actual:   \(values.shown(finding.record.subject))", "expected: a true value"]
        }
        let operand = finding.record.operand.map { values.shown($0) } ?? ""
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

/// Values as messages show them: without secrets, shortened, and with their types.
struct ShownValues {
    private static let maximumLength = 160
    private static let maximumDifferences = 5
    /// The maximum number of secrets in a response that are searched in its text.
    private static let maximumSecrets = 1000

    private let names: [String]
    private let secrets: SecretMask
    /// Whether the response has too many secrets to search for all of them.
    private let isCrowded: Bool

    init(names: [String], response: ReceivedResponse, secrets: SecretMask) {
        (self.names, self.secrets) = (names, SecretMask(extending: secrets))
        var found: [String] = []
        if secrets.hidesNamed {
            found = response.json.map { NamedSecrets.values(of: $0, named: "") } ?? []
            for field in response.fields { found += NamedSecrets.values(ofField: field.name, field.value) }
            if case .object(let cookies)? = response.cookie(at: []) { found += cookies.members.map(\.value.text) }
        }
        isCrowded = found.count > Self.maximumSecrets
        if !isCrowded { self.secrets.add(named: found) }
    }

    /// Whether the names of the expression denote secrets.
    private var isSecret: Bool {
        secrets.hidesNamed && (names.contains("cookies") || names.contains(where: NamedSecrets.isSecret))
    }

    // MARK: Texts

    /// Returns an expression, or a part of it, on one line. The constants of an expression about a secret are masked.
    func source(of expression: Expression, _ range: Range<Int>? = nil) -> String {
        let scalars = Array(expression.source.unicodeScalars)
        let range = (range ?? 0..<scalars.count).clamped(to: 0..<scalars.count)
        var text = String.UnicodeScalarView(), index = range.lowerBound
        let constants = isSecret ? expression.constants.filter { range.contains($0.lowerBound) } : []
        for constant in constants.sorted(by: { $0.lowerBound < $1.lowerBound }) where constant.lowerBound >= index {
            text.append(contentsOf: scalars[index..<constant.lowerBound])
            text.append(contentsOf: "***".unicodeScalars)
            index = constant.upperBound
        }
        text.append(contentsOf: scalars[index..<max(index, range.upperBound)])
        let words = String(text).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return cut(secrets.masked(foreign: words), to: 200)
    }

    func shown(_ text: String) -> String { cut(secrets.masked(foreign: String(text.prefix(65_536)))) }

    private func cut(_ text: String, to limit: Int = maximumLength) -> String {
        text.count > limit ? "\(text.prefix(limit))…" : text
    }

    // MARK: Values

    /// Returns a value with its type.
    func shown(_ value: ExpressionValue) -> String {
        switch value {
        case .missing(let reason): return reason.isEmpty ? "missing" : "missing (\(shown(reason)))"
        case .date(let date): return "\(ExpressionDate.text(of: date)) (date)"
        case .bytes(let data):
            guard !hidesText else { return "*** (bytes)" }
            // The first bytes must not be a part of a secret.
            let start = data.prefix(24)
            let text = String(decoding: data.prefix(65_536), as: UTF8.self)
            let isSafe = secrets.masked(text).utf8.starts(with: String(decoding: start, as: UTF8.self).utf8)
            let shown = isSafe ? start.hexadecimal + (data.count > 24 ? "…" : "") : "***"
            return "\(shown) (\(Self.count(data.count, "byte")))"
        case .json(let json):
            let type: String
            switch json {
            case .array(let values): type = "list of \(values.count)"
            case .string(let text) where text.utf8.count > Self.maximumLength:
                type = "string, \(Self.count(text.unicodeScalars.count, "character"))"
            default: type = json.typeName
            }
            if case .null = json { return "null" }
            return "\(shown(json)) (\(type))"
        }
    }

    private var hidesText: Bool { isCrowded || isSecret }

    private func shown(_ json: JSON) -> String {
        let masked = masked(json)
        // Mask before shortening, because a part of a secret is not recognized.
        guard case .string(let text) = masked else { return cut(secrets.masked(foreign: masked.description)) }
        return cut(JSON.string(text).description)
    }

    /// Returns a value without its secrets.
    private func masked(_ json: JSON) -> JSON {
        var result = json
        if case .string(let text) = json {
            if isCrowded { return "***" }
            result = .string(secrets.masked(foreign: String(text.unicodeScalars.prefix(1 << 20))))
        }
        guard secrets.hidesNamed else { return secrets.masked(result, named: "") }
        if names.contains("cookies") { return "***" }
        result = secrets.masked(result, named: "")
        for name in names {
            result = secrets.masked(result, named: name)
            if case .string(let text) = result { result = .string(secrets.masked(field: name, text)) }
        }
        return result
    }

    private static func count(_ count: Int, _ unit: String) -> String { "\(count) \(unit)\(count == 1 ? "" : "s")" }

    // MARK: Differences

    /// Returns the differences between two long strings, lists or objects.
    func differences(_ actual: ExpressionValue, _ expected: ExpressionValue) -> [String] {
        guard case .json(let one) = actual, case .json(let other) = expected else { return [] }
        return differences(one, other)
    }

    func differences(_ actual: JSON, _ expected: JSON) -> [String] {
        switch (masked(actual), masked(expected)) {
        case (.string(let one), .string(let other)):
            guard one.utf8.count > 40 || other.utf8.count > 40 || one.contains(where: \.isNewline) else { return [] }
            return difference(one, other).map { [$0] } ?? []
        case (let one, let other):
            var lines: [String] = []
            compare(one, other, at: JSONPointer(), &lines)
            let more = lines.count > Self.maximumDifferences ? ["more values differ"] : []
            return lines.prefix(Self.maximumDifferences) + more
        }
    }

    private func difference(_ one: String, _ other: String) -> String? {
        let first = Array(one.unicodeScalars), second = Array(other.unicodeScalars)
        var index = 0, line = 1, column = 1
        while index < first.count, index < second.count, first[index] == second[index] {
            if first[index] == "\n" { (line, column) = (line + 1, 1) } else { column += 1 }
            index += 1
        }
        guard index < first.count || index < second.count else { return nil }
        func part(_ scalars: [Unicode.Scalar]) -> String {
            guard index < scalars.count else { return "the end" }
            var text = String.UnicodeScalarView()
            text.append(contentsOf: scalars[max(0, index - 10)..<min(scalars.count, index + 30)])
            return JSON.string(String(text)).description
        }
        let place = one.contains("\n") ? "line \(line), column \(column)" : "character \(index + 1)"
        return "they differ at \(place): \(part(first)), expected \(part(second))"
    }

    private func compare(_ one: JSON, _ other: JSON, at pointer: JSONPointer, _ lines: inout [String]) {
        guard one != other, lines.count <= Self.maximumDifferences else { return }
        let path = pointer.tokens.isEmpty ? "the value" : pointer.description
        func line(_ text: String) { lines.append("\(cut(secrets.masked(path))): \(text)") }
        switch (one, other) {
        case (.object(let one), .object(let other)):
            for member in one.members {
                guard let value = other[member.key] else {
                    if lines.count <= Self.maximumDifferences {
                        let path = pointer.appending(member.key).description
                        lines.append("\(cut(secrets.masked(path))): \(brief(member.value)), not expected")
                    }
                    continue
                }
                compare(member.value, value, at: pointer.appending(member.key), &lines)
            }
            for member in other.members where one[member.key] == nil && lines.count <= Self.maximumDifferences {
                let path = pointer.appending(member.key).description
                lines.append("\(cut(secrets.masked(path))): missing, expected \(brief(member.value))")
            }
        case (.array(let one), .array(let other)):
            for (index, pair) in zip(one, other).enumerated() {
                compare(pair.0, pair.1, at: pointer.appending("\(index)"), &lines)
            }
            guard one.count != other.count, lines.count <= Self.maximumDifferences else { return }
            line("\(Self.count(one.count, "element")), expected \(other.count)")
        default:
            guard !pointer.tokens.isEmpty else { return }
            let isOtherType = one.typeName != other.typeName
            line("\(brief(one, isOtherType)), expected \(brief(other, isOtherType))")
        }
    }

    private func brief(_ json: JSON, _ showsType: Bool = false) -> String {
        let text = secrets.masked(foreign: json.description)
        let cut = cut(text, to: 60)
        return showsType && json != .null ? "\(cut) (\(json.typeName))" : cut
    }
}
