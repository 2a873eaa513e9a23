import ConvoyDownloads
import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// The run of one item of a request, or of a request without items. It sends the request, repeats it for polling and
/// pages, and captures values from the responses.
final class ItemRun: Sendable {
    let plan: RequestPlan
    let run: WorkflowRun
    private let scope: ItemScope
    private let item: JSON?
    private let ready: Date
    private let index: Int?
    /// The secrets of the run and of this item.
    private let secrets: SecretMask

    /// The reasons why an item did not succeed.
    struct Failure: Error {
        var reasons: [FailureReason]

        init(_ cause: RequestOutcome.Cause, _ text: String) { reasons = [FailureReason(cause: cause, text: text)] }
        init(_ reasons: [FailureReason]) { self.reasons = reasons }
    }

    init(plan: RequestPlan, run: WorkflowRun, item: ScopedValue?, index: Int?, ready: Date) {
        self.plan = plan
        self.run = run
        self.item = item?.json
        self.index = index
        self.ready = ready
        scope = ItemScope(values: run.values, item: item, index: index)
        secrets = SecretMask(extending: run.secrets)
    }

    /// Returns a message of limited length and without secrets.
    private func masked(_ text: String) -> String {
        let masked = secrets.masked(text)
        return masked.utf8.count > 4000 ? "\(masked.prefix(2000))…" : masked
    }

    private func makeOutcome() -> RequestOutcome {
        var outcome = RequestOutcome(plan, item: item, index: index)
        outcome.item = item.map { secrets.masked($0, named: "").text }
        outcome.ready = ready
        return outcome
    }

    /// Sends the item, unless it was kept from an earlier run.
    func perform(resumes: Bool) async -> ItemResult {
        var outcome = makeOutcome()
        if let reason = run.refusal(of: plan) {
            outcome.state = .skipped
            outcome.cause = .cancelled
            outcome.failures = [reason]
            run.report(.finished(outcome))
            return ItemResult(outcome: outcome, item: item)
        }
        let key = journalKey
        var digest: String?
        if let journal = run.journal {
            digest = self.digest
            // A request with a `when` condition, such as a teardown, belongs to each run.
            if resumes, plan.when == nil, let digest, let entry = await journal.entry(for: key, digest: digest),
                isThere(entry)
            {
                return kept(entry)
            }
        }
        run.report(.began(outcome))
        outcome.began = Date()
        let clock = ContinuousClock.now
        var result = ItemResult(outcome: outcome, item: item)
        do {
            await RequestNode.complete(plan.references, in: run)
            try await send(&result)
        } catch let failure as Failure {
            result.outcome.state = .failed
            result.outcome.cause = failure.reasons.first?.cause
            result.outcome.failures = failure.reasons.map { masked($0.text) }
            for (index, reason) in failure.reasons.enumerated() {
                guard let position = reason.position else { continue }
                result.outcome.failurePositions[index] = (position.line, position.column)
            }
        } catch let error as EvaluationError {
            result.outcome.state = .failed
            result.outcome.cause = error.isAboutFile ? .file : .value
            result.outcome.failures = [masked(error.message)]
        } catch {
            result.outcome.state = .failed
            let refusal = run.refusal(of: plan)
            result.outcome.cause = refusal == nil ? .exchange(error) : .cancelled
            result.outcome.failures = [masked(refusal ?? FailureText.line(for: error))]
        }
        result.outcome.seconds = (ContinuousClock.now - clock).inSeconds
        result.outcome.url = result.outcome.url.map { secrets.masked(foreign: $0) }
        let file = result.outcome.file
        result.outcome.file = file.map { secrets.masked($0) }
        let secret = run.plan.secretCaptures[plan.id] ?? []
        result.outcome.captures = plan.captures.compactMap { capture in
            guard let value = result.captures[capture.name] else { return nil }
            let shown = secret.contains(capture.name) ? "***" : secrets.masked(value, named: capture.name)
            return (capture.name, shown.description)
        }
        if result.outcome.state == .succeeded, let journal = run.journal, let digest, file == result.outcome.file {
            let entry = Journal.Entry(
                captures: storedCaptures(result.captures), status: result.outcome.status,
                file: file.flatMap { Journal.StoredFile(path: $0) })
            await journal.add(entry, for: key, digest: digest)
        }
        run.report(.finished(result.outcome))
        return result
    }

    // MARK: The journal

    private var journalKey: Journal.Key {
        guard let item else { return Journal.Key(id: plan.id, item: "") }
        let isSecret = plan.forEach?.templates.contains { $0.allReferences.contains(where: run.plan.isSecret) } ?? false
        // Not even a digest of secrets is stored, because the secrets could be guessed from it.
        return Journal.Key(id: plan.id, item: isSecret ? "\(index ?? 0)" : Journal.digest(of: item.description))
    }

    /// The digest of all inputs of the item, with `***` for secrets, or nil if a value does not exist.
    private var digest: String? {
        var scope = scope
        scope.hidesSecrets = true
        guard let built = try? builder(scope).build() else { return nil }
        let captures = plan.captures.map { "\($0.name)=\($0.source)" }.joined(separator: "\n")
        return Journal.digest(of: run.earlySecrets.masked(built.inputs) + "\n" + captures)
    }

    /// Returns the captures without secrets, as a JSON object.
    private func storedCaptures(_ captures: [String: JSON]) -> String {
        let secret = run.plan.hiddenCaptures(of: plan)
        var object = JSONObject()
        for capture in plan.captures where !secret.contains(capture.name) {
            guard let value = captures[capture.name] else { continue }
            // Do not store a value that contains a secret. It is captured from a new response instead.
            let isSecret = run.earlySecrets.masked(value, named: capture.name) != value || secrets.finds(in: value)
            object.append(key: capture.name, value: isSecret ? "***" : value)
        }
        return JSON.object(object).description
    }

    /// Returns whether the file of an entry is unchanged and no stored capture is masked.
    private func isThere(_ entry: Journal.Entry) -> Bool {
        // If a capture contains a secret, its value was not stored.
        guard !entry.captures.contains("***"), let file = entry.file else {
            return entry.file == nil && !entry.captures.contains("***")
        }
        return Journal.StoredFile(path: file.path) == file
    }

    private func kept(_ entry: Journal.Entry) -> ItemResult {
        var outcome = makeOutcome()
        outcome.state = .kept
        outcome.status = entry.status
        outcome.file = entry.file?.path
        outcome.bytes = entry.file?.length ?? 0
        var result = ItemResult(outcome: outcome, item: item)
        if case .object(let object)? = try? JSON(parsing: Data(entry.captures.utf8)) {
            for member in object.members { result.captures[member.key] = member.value }
        }
        run.report(.finished(outcome))
        return result
    }

    // MARK: Sending

    private func builder(_ scope: ItemScope) -> RequestBuilder {
        RequestBuilder(
            plan: plan, baseURL: run.plan.baseURL, scope: scope, servers: run.servers, userAgent: run.options.userAgent)
    }

    private func send(_ result: inout ItemResult) async throws {
        if plan.delay > 0 {
            run.report(.waiting(result.outcome, "sending in \(String(format: "%g", plan.delay)) s"))
            try await Task.sleep(for: .seconds(plan.delay))
        }
        // An error of the builder may quote a secret.
        secrets.add(named: plan.secrets(in: scope))
        secrets.add(plan.derivedSecrets(in: scope))
        let built = try builder(scope).build()
        if let login = built.login { run.secrets.add(exactly: login) }
        let expectations = try plan.expectations.resolved(in: scope)
        let sender = RequestSender(plan: plan, expectations: expectations, run: run)
        let file = try built.output.map { path throws(EvaluationError) in
            try run.outputs.place(of: path, for: "\(plan.id) \(index ?? 0)")
        }
        if plan.events != nil {
            let response = try await sender.waitForEvent(built, scope, &result.outcome)
            return try take(response, expectations, into: &result)
        }
        var response = try await sender.send(built, to: file, scope, &result.outcome)
        if let poll = plan.poll { response = try await self.poll(poll, built, response, sender, &result.outcome) }
        do {
            try take(response, expectations, into: &result)
        } catch {
            // Remove a file that does not meet the expectations.
            if let file = response.file { try? FileManager.default.removeItem(at: file) }
            throw error
        }
        // A response without a download becomes a file only if it meets the expectations.
        if let file, response.file == nil { try run.outputs.write(response.data, to: file) }
        if let follow = plan.follow { try await self.follow(follow, from: response, sender, &result) }
        if let file { result.outcome.file = file.relativePath }
    }

    /// Checks a response and captures its values.
    private func take(
        _ response: ReceivedResponse, _ expectations: ExpectationPlan, into result: inout ItemResult
    ) throws(Failure) {
        if let received = run.options.received, let status = response.status {
            received(
                WorkflowResponse(
                    version: response.version, status: status, fields: response.fields, body: response.data))
        }
        // Capture the values first, so that messages about the response contain none of its secrets.
        let (captures, missing) = self.captures(of: response)
        let examined = ResponseScope(examined: response, outer: scope, id: plan.id, captures: captures)
        let failures = ExpectationCheck.failures(expectations, examined, secrets)
        guard failures.isEmpty else { throw Failure(failures) }
        guard missing.isEmpty else { throw Failure(missing.map { FailureReason(cause: .capture, text: $0) }) }
        result.captures = captures
    }

    private func captures(of response: ReceivedResponse) -> (found: [String: JSON], missing: [String]) {
        var found: [String: JSON] = [:], missing: [String] = []
        let secret = run.plan.secretCaptures[plan.id] ?? []
        for capture in plan.captures {
            let value: JSON
            do throws(EvaluationError) {
                guard let found = try response.value(of: capture.source) else {
                    throw EvaluationError(message: "nothing found at \(capture.source.text)")
                }
                value = found
            } catch {
                missing.append("capture \(capture.name): \(error.message)")
                continue
            }
            if secret.contains(capture.name) {
                run.secrets.add(SecretMask.texts(of: value))
            } else {
                // Adding the secrets of many items to the run would slow down the masking of each string.
                let found = NamedSecrets.values(of: value, named: capture.name)
                (plan.forEach == nil && found.count <= 100 ? run.secrets : secrets).add(named: found)
            }
            found[capture.name] = value
        }
        return (found, missing)
    }

    // MARK: Polling and pages

    private func poll(
        _ poll: PollPlan, _ request: BuiltRequest, _ first: ReceivedResponse, _ sender: RequestSender,
        _ outcome: inout RequestOutcome
    ) async throws -> ReceivedResponse {
        let clock = ContinuousClock.now
        var response = first, every = poll.every
        while true {
            if try poll.until.value(in: ResponseScope(examined: response, outer: scope)).isTrue { return response }
            let passed = (ContinuousClock.now - clock).inSeconds
            let delay = max(every, response.field("Retry-After").flatMap(RetryAfter.seconds) ?? 0)
            every *= poll.backoff
            guard passed + delay <= poll.limit else {
                let seen = response.status.map { "; the last status was \($0)" } ?? ""
                throw Failure(.time, String(format: "poll: until was not true within %g s", poll.limit) + seen)
            }
            run.report(.waiting(outcome, "polling again in \(String(format: "%.3g", delay)) s"))
            try await Task.sleep(for: .seconds(delay))
            response = try await sender.send(request, to: nil, scope, &outcome)
        }
    }

    private func nextPage(_ source: CaptureSource, of response: ReceivedResponse) throws(Failure) -> JSON? {
        do throws(EvaluationError) {
            return try response.value(of: source)
        } catch {
            throw Failure(.capture, "follow: \(error.message)")
        }
    }

    private func follow(
        _ source: CaptureSource, from first: ReceivedResponse, _ sender: RequestSender, _ result: inout ItemResult
    ) async throws {
        var joined: [String: [JSON]] = [:]
        func join(_ captures: [String: JSON]) {
            for (name, value) in captures {
                if case .array(let values) = value {
                    joined[name, default: []] += values
                } else {
                    joined[name, default: []].append(value)
                }
            }
        }
        join(result.captures)
        var response = first, seen: Set<String> = [], pages = 1
        while let value = try nextPage(source, of: response), let current = response.url {
            guard case .string(let text) = value, !text.isEmpty else {
                guard value == .null || value == .string("") else {
                    throw Failure(.capture, "follow: \(source.text) is not text")
                }
                break
            }
            guard let next = URL(string: text, relativeTo: current)?.absoluteURL, let target = Target(next),
                target == Target(current)
            else {
                let shown = quoted(Redaction.url(text), isCut: false)
                throw Failure(.value, "follow: the next page \(shown) is not on the same server")
            }
            guard seen.insert(next.absoluteString).inserted else {
                let shown = quoted(Redaction.url(text), isCut: false)
                throw Failure(.value, "follow: the pages repeat at \(shown)")
            }
            guard pages < plan.maximumPages else {
                result.outcome.hasMorePages = true
                break
            }
            let built = try builder(scope).build(page: next)
            response = try await sender.send(built, to: nil, scope, &result.outcome)
            var page = result
            try take(response, sender.expectations, into: &page)
            join(page.captures)
            pages += 1
        }
        result.captures = joined.mapValues { .array($0) }
    }
}

extension CaptureSource {
    /// The source as written in a manifest.
    var text: String {
        switch self {
        case .json(let path): "json:\(path)"
        case .xpath(let expression): "xpath:\(expression)"
        case .header(let name): "header:\(name)"
        case .cookie(let name): "cookie:\(name)"
        case .link(let relation): "link:\(relation)"
        case .status: "status"
        case .url: "url"
        case .text(let pattern, _): pattern.map { "text:\($0)" } ?? "text"
        }
    }
}
