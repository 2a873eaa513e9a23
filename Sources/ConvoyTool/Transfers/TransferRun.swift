import Convoy
import ConvoySupport
import Foundation

/// The next step of a run.
enum TransferStep {
    case transfer(Transfer)
    /// The outcome of a file that needs no transfer, or for which no transfer is possible.
    case settled(Outcome)
    /// No step is possible until a transfer has finished.
    case wait
    /// The step had no result, but more steps follow.
    case nothing
    case end
}

/// Callbacks about the transfers of a feed. They are called on any thread.
struct TransferHooks: Sendable {
    /// A closure that is called when a transfer waits to be retried.
    var setBack: @Sendable (Transfer) -> Void = { _ in }
    var finish: @Sendable (Transfer) -> Void = { _ in }
}

/// A source of the transfers of a run, which creates them on demand, on the thread that runs them.
protocol TransferFeed: AnyObject {
    /// The number of transfers, or nil while it is unknown.
    var total: Int? { get }
    var hooks: TransferHooks { get }
    func next() -> TransferStep
    /// Waits until the next step may have changed.
    func waitForChange()
}

/// A list of transfers that depend on each other and must therefore exist at the same time.
final class TransferList: TransferFeed {
    let total: Int?
    let hooks = TransferHooks()
    private var rest: ArraySlice<Transfer>

    init(_ transfers: [Transfer]) {
        rest = transfers[...]
        total = transfers.count
    }

    func next() -> TransferStep { rest.popFirst().map { .transfer($0) } ?? .end }
    func waitForChange() {}
}

/// A run that executes transfers to completion, and reports each transfer when it finishes.
final class TransferRun: Sendable {
    private let display: Display
    private let manager = HTTPRequestOperationManager()
    private let trace: TraceOptions
    /// Whether standard output is JSON.
    private let printsJSON: Bool
    private let showsTimings: Bool
    /// Whether response bodies are written to standard output.
    private let printsBody: Bool
    private let order = ReportOrder()
    private let failures = Locked<[FailureKind]>([])
    private let skipped = Locked(0)

    init(_ settings: TransferSettings, display: Display, options: Options) {
        self.display = display
        trace = settings.trace
        printsJSON = options.has("json")
        showsTimings = options.has("timing")
        printsBody = options.has("include")
        settings.speed.apply(to: manager)
        manager.completionQueue = settings.completionQueue
        manager.completionGroup = settings.completionGroup
    }

    /// Runs the transfers of a feed and waits for them.
    ///
    /// - Parameter refine: Replaces the reason of a failure if a better one is known.
    func run(
        _ feed: some TransferFeed, summary: @escaping (Int) -> String,
        refine: @escaping @Sendable (Transfer, Outcome) -> Outcome = { $1 }
    ) -> ExitStatus {
        let board = TransferBoard(display: display, total: feed.total)
        let queue = manager.operationQueue
        Interruption.shared.onInterrupt { queue.cancelAllOperations() }
        var total = 0
        feeding: while Interruption.shared.status == nil {
            switch feed.next() {
            case .transfer(let transfer):
                total += 1
                attach(transfer, board, feed.hooks, refine)
                manager.enqueue(transfer.operation)
            case .settled(let outcome):
                total += 1
                board.finish(outcome)
                report(outcome, name: outcome.url)
            case .wait: feed.waitForChange()
            case .nothing: continue
            case .end: break feeding
            }
            if let count = feed.total { board.setTotal(count) }
        }
        // Register again, to cancel transfers that were enqueued after a signal.
        Interruption.shared.onInterrupt { queue.cancelAllOperations() }
        manager.completionGroup?.wait()
        board.end()
        let kinds = failures.withLock { $0 }
        let interruption = Interruption.shared.status
        let known = max(total, feed.total ?? 0)
        if known != 1 { summarize(board, total: known, failed: kinds.count + (known - total), summary) }
        // A failure caused by another failure adds no information.
        return interruption ?? ExitStatus(failures: kinds.filter { $0 != .dependency })
    }

    private func summarize(_ board: TransferBoard, total: Int, failed: Int, _ summary: (Int) -> String) {
        let (bytes, seconds) = board.result
        let skipped = skipped.withLock { $0 }
        var text = summary(total - failed - skipped)
        if skipped > 0 { text += ", \(skipped) skipped" }
        if failed > 0 { text += ", \(failed) \(Interruption.shared.status == nil ? "failed" : "not finished")" }
        display.say("\(text), \(Amounts.bytes(bytes)) in \(Amounts.seconds(seconds))")
    }

    private func attach(
        _ transfer: Transfer, _ board: TransferBoard, _ hooks: TransferHooks,
        _ refine: @escaping @Sendable (Transfer, Outcome) -> Outcome
    ) {
        let operation = transfer.operation
        board.begin(transfer)
        order.begin(operation)
        let bar = display.showsProgress ? TransferBar(transfer, on: board) : nil
        if transfer.isUpload {
            bar?.setProgressWithUploadProgress(of: operation, on: operation.completionQueue ?? .main)
        } else {
            bar?.setProgressWithDownloadProgress(of: operation, on: operation.completionQueue ?? .main)
        }
        operation.closedGateHandler = { hooks.setBack(transfer) }
        operation.retryHandler = { [display] _, event in
            hooks.setBack(transfer)
            guard let text = RetryText.line(event) else { return }
            display.say("\(Printable.line(transfer.name)): \(text)")
        }
        let dependencies = operation.dependencies.map { ObjectIdentifier($0) }
        let conclude: @Sendable ((any Error)?) -> Void = { error in
            // Wait until the metrics of all requests have been recorded.
            self.trace.finish()
            let outcome = transfer.conclude(error)
            // Nothing else retains the bar.
            withExtendedLifetime(bar) { board.finish(transfer, outcome) }
            hooks.finish(transfer)
            self.order.finish(operation, after: dependencies) {
                if let wanted = transfer.wantedName, let path = transfer.path {
                    self.display.say(OutcomeText.line(ofRenamed: transfer.url, path: path, wanted: wanted))
                }
                self.report(outcome.error == nil ? outcome : refine(transfer, outcome), name: transfer.name)
            }
        }
        operation.setCompletionHandler(success: { _, _ in conclude(nil) }, failure: { conclude($1) })
    }

    private func report(_ outcome: Outcome, name: String) {
        if printsJSON { display.emit(outcome.json(showsTimings: showsTimings)) }
        if let kind = outcome.kind { failures.withLock { $0.append(kind) } }
        if outcome.result == .skipped || outcome.result == .notModified { skipped.withLock { $0 += 1 } }
        if let head = outcome.head, !printsJSON, !printsBody { display.emit(String(head.dropLast())) }
        if let note = outcome.note { display.complain("\(Printable.line(outcome.url)): \(note)", isMarked: true) }
        if outcome.error != nil {
            // After Ctrl-C or a write failure, cancelled transfers are not reported one by one.
            guard Interruption.shared.status == nil || outcome.kind != .cancelled else { return }
            display.complain(OutcomeText.failure(outcome), isMarked: true)
        } else if outcome.head == nil || printsBody {
            display.say(OutcomeText.line(outcome, name: name, display))
        }
        guard showsTimings, !printsJSON else { return }
        for timing in outcome.timings { display.say("  \(timing.timeline)") }
    }
}

/// The order in which operations are reported: each operation follows its dependencies.
///
/// An operation that is not run because a dependency failed may finish before the handlers of that dependency have run. The
/// cost per operation and dependency is constant.
final class ReportOrder: Sendable {
    private struct Waiting {
        let id: ObjectIdentifier
        /// The number of dependencies that have not been reported.
        var missing: Int
        let report: @Sendable () -> Void
    }

    private struct PendingReports {
        var done: Set<ObjectIdentifier> = []
        var waiting: [ObjectIdentifier: Waiting] = [:]
        /// The waiting operations, keyed by dependency.
        var dependents: [ObjectIdentifier: [ObjectIdentifier]] = [:]
        /// The operations that can be reported now, in reverse order.
        var ready: [Waiting] = []
    }

    private let reports = Locked(PendingReports())

    /// Registers a new operation, which may have the address of one that has been deallocated.
    func begin(_ operation: Operation) {
        _ = reports.withLock { $0.done.remove(ObjectIdentifier(operation)) }
    }

    /// Calls `report` for a finished operation, immediately or when its dependencies have been reported. Called on a serial
    /// queue.
    ///
    /// - Parameter after: The dependencies, which the finished operation no longer has.
    func finish(_ operation: Operation, after: [ObjectIdentifier], _ report: @escaping @Sendable () -> Void) {
        let id = ObjectIdentifier(operation)
        reports.withLock { reports in
            let missing = Set(after).filter { !reports.done.contains($0) }
            let waiting = Waiting(id: id, missing: missing.count, report: report)
            guard !missing.isEmpty else { return reports.ready.append(waiting) }
            reports.waiting[id] = waiting
            for dependency in missing { reports.dependents[dependency, default: []].append(id) }
        }
        while let next = takeNext() { next() }
    }

    private func takeNext() -> (@Sendable () -> Void)? {
        reports.withLock { reports in
            guard let next = reports.ready.popLast() else { return nil }
            reports.done.insert(next.id)
            for dependent in reports.dependents.removeValue(forKey: next.id) ?? [] {
                reports.waiting[dependent]?.missing -= 1
                guard reports.waiting[dependent]?.missing == 0 else { continue }
                if let freed = reports.waiting.removeValue(forKey: dependent) { reports.ready.append(freed) }
            }
            return next.report
        }
    }
}
