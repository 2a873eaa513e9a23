import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation

/// A comparison of a response with its expectations.
struct ExpectationCheck {
    let plan: ExpectationPlan
    let scope: ResponseScope
    /// The mask for values. It is applied before values are shortened, because a part of a secret would not be
    /// recognized.
    let secrets: SecretMask
    var failures: [FailureReason] = []
    /// The secrets of the response, which are searched only after a failure.
    private lazy var responseSecrets = ResponseSecrets(scope.examined, secrets)

    private var response: ReceivedResponse { scope.examined }

    /// Returns all expectations that are not met, with the actual values.
    static func failures(
        _ plan: ExpectationPlan, _ scope: ResponseScope, _ secrets: SecretMask = SecretMask()
    ) -> [FailureReason] {
        var check = ExpectationCheck(plan: plan, scope: scope, secrets: secrets)
        check.checkHead()
        check.checkBody()
        for expression in plan.checks {
            guard let failure = CheckReport(of: expression, in: scope) else { continue }
            check.failures.append(failure.reason(hiding: check.responseSecrets))
        }
        return check.failures
    }

    private static func statusText(_ ranges: [ClosedRange<Int>]?) -> String {
        guard let ranges else { return "200-299" }
        return ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }.joined(
            separator: ", ")
    }

    private func shown(_ text: String) -> String {
        let masked = secrets.masked(foreign: String(text.prefix(65_536)))
        return masked.count > 120 ? "\(masked.prefix(120))…" : masked
    }

    /// A compared value, and a closure that masks its secrets.
    private struct Subject {
        let title: String
        let masked: (JSON) -> JSON
    }

    private func shown(_ value: JSON, _ subject: Subject) -> String { shown(subject.masked(value).description) }

    private mutating func fail(_ text: String, _ cause: RequestOutcome.Cause = .expectation) {
        failures.append(FailureReason(cause: cause, text: text))
    }

    private mutating func checkHead() {
        if let status = response.status, !plan.acceptedStatuses.contains(where: { $0.contains(status) }) {
            var text = "status: expected \(Self.statusText(plan.statuses)), got \(status)"
            if 300...399 ~= status, let location = response.field("Location") {
                text += ", to \(quoted(shown(secrets.masked(field: "Location", location))))"
            }
            let json = response.json.flatMap { json in
                let shown = secrets.masked(json, named: "")
                return shown == json ? nil : shown.description
            }
            let body = (json ?? response.text).prefix(65_536).split(whereSeparator: \.isNewline).joined(separator: " ")
            if !body.isEmpty, response.isText { text += ", with \(quoted(shown(body)))" }
            fail(text, .status)
        }
        if let type = plan.type, response.mediaType != type {
            fail("type: expected \(type), got \(response.mediaType ?? "none")")
        }
        for header in plan.headers {
            let value = response.field(header.name)
            let subject = Subject(title: "header \(header.name)") { [secrets] value in
                .string(secrets.masked(field: header.name, value.text))
            }
            if let exists = header.exists, exists != (value != nil) {
                let seen = value.map { shown(.string($0), subject) } ?? "none"
                fail("\(subject.title): expected \(exists ? "one" : "none"), got \(seen)")
            }
            if let equals = header.equals { compare(value.map { .string($0) }, with: evaluated(equals), subject) }
            if let pattern = header.pattern { match(value, pattern, subject) }
        }
        if let limit = plan.maximumTime, response.seconds > limit {
            fail(String(format: "time: expected at most %g s, took %.3f s", limit, response.seconds))
        }
    }

    private mutating func checkBody() {
        let isExact = plan.minimumBytes == plan.maximumBytes
        if let limit = plan.maximumBytes, response.byteCount > limit {
            fail("size: expected \(isExact ? "" : "at most ")\(limit) bytes, got \(response.byteCount)")
        }
        if let limit = plan.minimumBytes, response.byteCount < limit {
            fail("size: expected \(isExact ? "" : "at least ")\(limit) bytes, got \(response.byteCount)")
        }
        if !plan.json.isEmpty {
            do throws(EvaluationError) {
                let json = try response.parsedJSON()
                for expectation in plan.json { check(expectation, in: json) }
            } catch {
                fail("json: \(error.message)")
            }
        }
        // The checksums of a download are compared before its file is moved into place.
        guard response.file == nil else { return }
        for (algorithm, template) in plan.checksums {
            let digest = MessageDigest(algorithm)
            digest.update(response.data)
            let actual = digest.value()?.hexadecimalString ?? ""
            let expected = (try? template.text(in: scope))?.lowercased() ?? ""
            if actual != expected { fail("\(algorithm): expected \(shown(expected)), got \(actual)", .checksum) }
        }
    }

    mutating func check(_ expectation: JSONExpectation, in json: JSON) {
        let path = expectation.path.description, names = expectation.path.names
        let subject = Subject(title: "json \(path.isEmpty ? "(all)" : path)") { [secrets] value in
            names.isEmpty
                ? secrets.masked(value, named: "") : names.reduce(value) { secrets.masked($0, named: $1) }
        }
        let what = subject.title
        let found: JSONLocation.Finding
        do throws(EvaluationError) {
            found = try expectation.path.finding(in: json)
        } catch {
            return fail("\(what): \(error.message)")
        }
        let value = found.value
        if expectation.exists == true, found.isPartial, found.exists {
            fail("\(what): expected a value in each element, but some lack it")
        }
        if let exists = expectation.exists, exists != found.exists {
            let seen = exists ? "none" : value.map { shown($0, subject) } ?? "none"
            fail("\(what): expected \(exists ? "a value" : "none"), got \(seen)")
        }
        if let equals = expectation.equals {
            do throws(EvaluationError) {
                compare(value, with: .success(try equals.value(in: scope).json), subject)
            } catch {
                compare(value, with: .failure(error), subject)
            }
        }
        if let pattern = expectation.pattern {
            // Every element of a list must match.
            if found.exists, case .array(let values)? = value {
                if found.isPartial { fail("\(what): expected a value in each element, but some lack it") }
                for (index, value) in values.enumerated() {
                    match(value.text, pattern, Subject(title: "\(what) [\(index)]", masked: subject.masked))
                }
            } else {
                match(found.exists ? value?.text : nil, pattern, subject)
            }
        }
    }

    private func evaluated(_ template: Template) -> Result<JSON, EvaluationError> {
        do throws(EvaluationError) {
            return .success(.string(try template.text(in: scope)))
        } catch {
            return .failure(error)
        }
    }

    private mutating func compare(_ value: JSON?, with expected: Result<JSON, EvaluationError>, _ subject: Subject) {
        switch expected {
        case .failure(let error): fail("\(subject.title): \(error.message)", .value)
        case .success(let expected):
            guard value != expected else { return }
            let seen = value.map { shown($0, subject) } ?? "none", wanted = shown(expected, subject)
            var lines = ["\(subject.title): expected \(wanted), got \(seen)"]
            // A shortened value may not show the difference.
            if let value, seen.hasSuffix("…") || wanted.hasSuffix("…") {
                let values = ShownValues(names: [], secrets: responseSecrets)
                lines += values.differences(subject.masked(value), subject.masked(expected))
            }
            fail(lines.joined(separator: "\n"))
        }
    }

    private mutating func match(_ text: String?, _ pattern: String, _ subject: Subject) {
        guard let text else {
            return fail("\(subject.title): expected a match for \(quoted(pattern)), got none")
        }
        do throws(EvaluationError) {
            guard try !Pattern.matches(pattern, text) else { return }
        } catch {
            return fail("\(subject.title): \(error.message)")
        }
        let seen = quoted(shown(subject.masked(.string(text)).text))
        fail("\(subject.title): expected a match for \(quoted(pattern)), got \(seen)")
    }
}

extension ReceivedResponse {
    /// Whether the body can be shown in a message.
    var isText: Bool {
        guard let type = mediaType else { return false }
        return type.hasPrefix("text/") || type.hasSuffix("json") || type.hasSuffix("xml")
    }
}
