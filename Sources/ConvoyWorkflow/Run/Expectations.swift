import ConvoySecurity
import ConvoySerialization
import Foundation

/// Compares a response with what it must be.
struct ExpectationCheck {
    let plan: ExpectationPlan
    let response: ReceivedResponse
    let scope: ItemScope
    /// Masks what was seen before it is cut: a part of a secret would not be found.
    let secrets: SecretMask
    var failures: [(cause: RequestOutcome.Cause, text: String)] = []

    /// All that is not as it must be, with what was seen.
    static func failures(
        _ plan: ExpectationPlan, _ response: ReceivedResponse, _ scope: ItemScope, _ secrets: SecretMask = SecretMask()
    ) -> [(cause: RequestOutcome.Cause, text: String)] {
        var check = ExpectationCheck(plan: plan, response: response, scope: scope, secrets: secrets)
        check.checkHead()
        check.checkBody()
        return check.failures
    }

    static func statusText(_ ranges: [ClosedRange<Int>]?) -> String {
        guard let ranges else { return "200-299" }
        return ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }.joined(
            separator: ", ")
    }

    private func shown(_ text: String) -> String {
        let masked = secrets.masked(String(text.prefix(65_536)))
        return masked.count > 120 ? "\(masked.prefix(120))…" : masked
    }

    private mutating func fail(_ text: String, _ cause: RequestOutcome.Cause = .expectation) {
        failures.append((cause, text))
    }

    private mutating func checkHead() {
        if let status = response.status, !(plan.statuses ?? [200...299]).contains(where: { $0.contains(status) }) {
            var text = "status: expected \(Self.statusText(plan.statuses)), got \(status)"
            let body = response.text.prefix(65_536).split(whereSeparator: \.isNewline).joined(separator: " ")
            if !body.isEmpty, response.isText { text += ", with \(quoted(shown(body)))" }
            fail(text, .status)
        }
        if let type = plan.type, response.mediaType != type {
            fail("type: expected \(type), got \(response.mediaType ?? "none")")
        }
        for header in plan.headers {
            let value = response.field(header.name)
            if let exists = header.exists, exists != (value != nil) {
                fail(
                    "header \(header.name): expected \(exists ? "one" : "none"), got \(value.map { quoted(shown($0)) } ?? "none")"
                )
            }
            if let equals = header.equals {
                compare(value.map { .string($0) }, with: evaluated(equals), "header \(header.name)")
            }
            if let pattern = header.pattern { match(value, pattern, "header \(header.name)") }
        }
        if let limit = plan.maximumTime, response.seconds > limit {
            fail(String(format: "time: expected at most %g s, took %.3f s", limit, response.seconds))
        }
    }

    private mutating func checkBody() {
        if let limit = plan.maximumBytes, response.byteCount > limit {
            fail("size: expected at most \(limit) bytes, got \(response.byteCount)")
        }
        if let limit = plan.minimumBytes, response.byteCount < limit {
            fail("size: expected at least \(limit) bytes, got \(response.byteCount)")
        }
        if !plan.json.isEmpty, response.json == nil {
            fail("json: expected JSON, got \(response.byteCount == 0 ? "an empty body" : "something else")")
        } else if let json = response.json {
            for expectation in plan.json { check(expectation, in: json) }
        }
        // A download has compared them before its file was put in place.
        guard response.file == nil else { return }
        for (algorithm, template) in plan.checksums {
            guard let kind = ChecksumAlgorithm(name: algorithm) else { continue }
            let digest = MessageDigest(kind)
            digest.update(response.data)
            let actual = digest.value().map { $0.map { String(format: "%02x", $0) }.joined() } ?? ""
            let expected = (try? template.text(in: scope))?.lowercased() ?? ""
            if actual != expected { fail("\(algorithm): expected \(shown(expected)), got \(actual)", .checksum) }
        }
    }

    mutating func check(_ expectation: JSONExpectation, in json: JSON) {
        let value = expectation.path.value(in: json)
        let what = "json \(expectation.path.description.isEmpty ? "(all)" : expectation.path.description)"
        let isMissing = expectation.path.isMissingSomewhere(in: json)
        if expectation.exists == true, isMissing, value != nil { fail("\(what): expected one in each, got some without") }
        if let exists = expectation.exists, exists != (value != nil) {
            fail(
                "\(what): expected \(exists ? "a value" : "none"), got \(value.map { shown($0.description) } ?? "none")"
            )
        }
        if let equals = expectation.equals {
            do throws(EvaluationError) {
                compare(value, with: .success(try equals.value(in: scope).json), what)
            } catch {
                compare(value, with: .failure(error), what)
            }
        }
        if let pattern = expectation.pattern {
            // Of a list, every element must match.
            if case .array(let values)? = value {
                if isMissing { fail("\(what): expected one in each, got some without") }
                for (index, value) in values.enumerated() { match(value.text, pattern, "\(what) [\(index)]") }
            } else {
                match(value?.text, pattern, what)
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

    private mutating func compare(_ value: JSON?, with expected: Result<JSON, EvaluationError>, _ what: String) {
        switch expected {
        case .failure(let error): fail("\(what): \(error.message)", .value)
        case .success(let expected):
            guard value != expected else { return }
            fail(
                "\(what): expected \(shown(expected.description)), got \(value.map { shown($0.description) } ?? "none")"
            )
        }
    }

    private mutating func match(_ text: String?, _ pattern: String, _ what: String) {
        guard let text else { return fail("\(what): expected one that matches \(quoted(pattern)), got none") }
        guard !Pattern.matches(pattern, text) else { return }
        fail("\(what): expected one that matches \(quoted(pattern)), got \(quoted(shown(text)))")
    }
}

extension ReceivedResponse {
    /// Whether the body can be shown in a message.
    var isText: Bool {
        guard let type = mediaType else { return false }
        return type.hasPrefix("text/") || type.hasSuffix("json") || type.hasSuffix("xml")
    }
}
