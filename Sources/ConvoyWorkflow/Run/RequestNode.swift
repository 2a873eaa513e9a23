import ConvoySerialization
import ConvoySupport
import Foundation

/// The node of a request in a run. It decides whether the request is sent and for which items, and collects the results.
final class RequestNode: Sendable {
    let plan: RequestPlan
    /// The operation that represents the end of the request. The operation is enqueued, and finishes, when the request
    /// has ended.
    let end = BlockOperation {}
    private let task = Locked<Task<Void, Never>?>(nil)
    private let wasCancelled = Locked(false)
    /// The task that obtains missing captures of a request that was kept from an earlier run.
    private let completion = Locked<Task<Void, Never>?>(nil)

    /// The maximum number of items that are processed concurrently; the queue limits how many are sent.
    private static let maximumItemCount = 256

    init(_ plan: RequestPlan) { self.plan = plan }

    func begin(in run: WorkflowRun, whenOver: @escaping @Sendable () -> Void) {
        let task = Task { [self] in
            await work(in: run)
            whenOver()
        }
        self.task.withLock { $0 = task }
        if wasCancelled.withLock({ $0 }) { task.cancel() }
    }

    func cancel() {
        wasCancelled.withLock { $0 = true }
        task.withLock { $0 }?.cancel()
        completion.withLock { $0 }?.cancel()
    }

    // MARK: The decision

    private enum Decision {
        case run
        case skip(RequestOutcome.Cause, String)
        case fail(String)
    }

    private func work(in run: WorkflowRun) async {
        let ready = Date()
        switch decision(in: run) {
        case .run: await runItems(in: run, ready: ready, resumes: run.options.resumes)
        case .skip(let cause, let reason): settle(.skipped, cause, reason, in: run)
        case .fail(let reason): settle(.failed, .value, reason, in: run)
        }
    }

    private func decision(in run: WorkflowRun) -> Decision {
        if let reason = run.refusal(of: plan) { return .skip(.cancelled, reason) }
        if let when = plan.when {
            do throws(EvaluationError) {
                let value = try when.value(in: ItemScope(values: run.values))
                return value.isTrue ? .run : .skip(.condition, "not sent, because its when condition is false")
            } catch {
                return .fail("when: \(error.message)")
            }
        }
        for id in plan.dependencies {
            guard let result = run.values.result(of: id), !result.lets else { continue }
            let verb = result.state == .skipped ? "was not sent" : "failed"
            return .skip(.dependency, "not sent, because \(quoted(id)) \(verb)")
        }
        return .run
    }

    /// Ends the request without sending anything.
    private func settle(_ state: RequestOutcome.State, _ cause: RequestOutcome.Cause, _ reason: String, in run: WorkflowRun)
    {
        var outcome = RequestOutcome(plan)
        outcome.state = state
        outcome.cause = cause
        outcome.failures = [run.secrets.masked(reason)]
        run.report(.finished(outcome))
        conclude([ItemResult(outcome: outcome)], isList: false, in: run)
    }

    private func conclude(_ items: [ItemResult], isList: Bool, missing: Set<String> = [], in run: WorkflowRun) {
        var result = NodeResult(items: items, isList: isList)
        result.missing = missing
        if items.contains(where: { $0.outcome.state == .failed }) {
            result.state = .failed
        } else if !items.isEmpty, items.allSatisfy({ $0.outcome.state == .skipped }) {
            result.state = .skipped
        } else if items.contains(where: { $0.outcome.state == .skipped }) {
            result.state = .failed
        } else if !items.isEmpty, items.allSatisfy({ $0.outcome.state == .kept }) {
            result.state = .kept
        }
        result.lets = [.succeeded, .kept].contains(result.state) || (result.state == .failed && plan.onFailure == .continue)
        run.values.set(result, of: plan.id)
        if result.state == .failed { run.failed(plan) }
    }

    // MARK: The items

    private func runItems(in run: WorkflowRun, ready: Date, resumes: Bool) async {
        guard let forEach = plan.forEach else {
            let item = ItemRun(plan: plan, run: run, item: nil, index: nil, ready: ready)
            let result = await item.perform(resumes: resumes)
            return conclude([result], isList: false, missing: missing(result.outcome, in: run), in: run)
        }
        let list: ScopedValue
        do throws(EvaluationError) {
            await RequestNode.complete(forEach.templates.flatMap(\.references), in: run)
            list = try forEach.value(in: ItemScope(values: run.values))
            guard case .array = list.json else {
                throw EvaluationError(message: "forEach requires a list")
            }
        } catch {
            return settle(.failed, .value, error.message, in: run)
        }
        guard case .array(let items) = list.json else { return }
        let results = await perform(items, isHostile: list.isHostile, in: run, ready: ready, resumes: resumes)
        let missing = results.reduce(into: Set<String>()) { $0.formUnion(self.missing($1.outcome, in: run)) }
        conclude(results, isList: true, missing: missing, in: run)
    }

    private func perform(
        _ items: [JSON], isHostile: Bool, in run: WorkflowRun, ready: Date, resumes: Bool
    ) async -> [ItemResult] {
        let limit = min(plan.parallel ?? Self.maximumItemCount, Self.maximumItemCount)
        return await withTaskGroup(of: (Int, ItemResult).self) { group in
            var results: [ItemResult?] = Array(repeating: nil, count: items.count)
            var next = 0
            func start() {
                let index = next, value = ScopedValue(json: items[index], isHostile: isHostile)
                next += 1
                group.addTask { [plan] in
                    let item = ItemRun(plan: plan, run: run, item: value, index: index, ready: ready)
                    return (index, await item.perform(resumes: resumes))
                }
            }
            while next < min(limit, items.count) { start() }
            while let (index, result) = await group.next() {
                results[index] = result
                if next < items.count { start() }
            }
            return results.compactMap { $0 }
        }
    }

    // MARK: What was kept from an earlier run

    private func missing(_ outcome: RequestOutcome, in run: WorkflowRun) -> Set<String> {
        outcome.state == .kept ? run.plan.hiddenCaptures(of: plan) : []
    }

    /// Sends requests again that were kept from an earlier run, if captures that were not stored are now needed.
    static func complete(_ references: [Reference], in run: WorkflowRun) async {
        for reference in references {
            guard let name = reference.path.first, run.values.result(of: reference.root)?.missing.contains(name) == true
            else { continue }
            await run.node(reference.root)?.sendAgain(in: run)
        }
    }

    private func sendAgain(in run: WorkflowRun) async {
        let task = completion.withLock { completion in
            if let completion { return completion }
            let task = Task { [self] in
                // The dependencies of the request may have missing captures as well.
                await runItems(in: run, ready: Date(), resumes: false)
            }
            completion = task
            return task
        }
        await task.value
    }
}
