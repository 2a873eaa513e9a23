import Convoy
import Foundation
import Synchronization

/// Runs transfers to their end, and reports each as it finishes.
final class TransferRun: Sendable {
    private let display: Display
    private let manager = HTTPRequestOperationManager()
    private let trace: TraceOptions
    /// Whether standard output is JSON.
    private let printsJSON: Bool
    private let showsTimings: Bool
    private let order = ReportOrder()
    private let failures = Mutex<[FailureKind]>([])
    private let skipped = Mutex(0)

    init(display: Display, speed: SpeedOptions, options: Options, trace: TraceOptions) {
        (self.display, self.trace) = (display, trace)
        (printsJSON, showsTimings) = (options.has("json"), options.has("timing"))
        speed.apply(to: manager)
        manager.completionQueue = DispatchQueue(label: "convoy.completion")
        manager.completionGroup = DispatchGroup()
    }

    /// Enqueues all transfers, and waits for them.
    ///
    /// - Parameters:
    ///   - settled: outcomes that are known before any request.
    ///   - refine: may replace the reason of a failure by a better one.
    func run(
        _ transfers: [Transfer], settled: [Outcome] = [], summary: @escaping (Int) -> String,
        refine: @escaping @Sendable (Transfer, Outcome) -> Outcome = { $1 }
    ) -> ExitStatus {
        let board = TransferBoard(display: display, total: transfers.count)
        for outcome in settled { report(outcome, name: outcome.url) }
        for transfer in transfers { attach(transfer, board, refine) }
        let queue = manager.operationQueue
        Interruption.shared.onInterrupt { queue.cancelAllOperations() }
        manager.enqueue(transfers.map(\.operation))
        // Again, as transfers that were enqueued after a signal have not been cancelled by it.
        Interruption.shared.onInterrupt { queue.cancelAllOperations() }
        manager.completionGroup?.wait()
        board.end()
        let kinds = failures.withLock { $0 }
        let interruption = Interruption.shared.status
        let total = transfers.count + settled.count
        if total != 1 { summarize(board, total: total, failed: kinds.count, summary) }
        // A failure that follows from another one says nothing new.
        return interruption ?? ExitStatus(failures: kinds.filter { $0 != .dependency })
    }

    private func summarize(_ board: TransferBoard, total: Int, failed: Int, _ summary: (Int) -> String) {
        let (bytes, seconds) = board.result
        let skipped = skipped.withLock { $0 }
        var text = summary(total - failed - skipped)
        if skipped > 0 { text += ", \(skipped) there already" }
        if failed > 0 { text += ", \(failed) \(Interruption.shared.status == nil ? "failed" : "not finished")" }
        display.say("\(text), \(Amounts.bytes(bytes)) in \(Amounts.seconds(seconds))")
    }

    private func attach(
        _ transfer: Transfer, _ board: TransferBoard, _ refine: @escaping @Sendable (Transfer, Outcome) -> Outcome
    ) {
        let operation = transfer.operation
        transfer.attach(to: manager.completionQueue, group: manager.completionGroup)
        let bar = display.showsProgress ? TransferBar(transfer, on: board) : nil
        bar?.setProgressWithDownloadProgress(of: operation, on: operation.completionQueue ?? .main)
        operation.retryHandler = { [display] _, event in
            guard let text = RetryText.line(event) else { return }
            display.say("\(Printable.line(transfer.name)): \(text)")
        }
        let dependencies = operation.dependencies.map { ObjectIdentifier($0) }
        let conclude: @Sendable ((any Error)?) -> Void = { error in
            // So that the times of all requests are there.
            self.trace.finish()
            let outcome = transfer.conclude(error)
            // Until here it is kept by nobody else.
            withExtendedLifetime(bar) { board.finish(transfer, outcome) }
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
        if let error = outcome.error {
            // After Ctrl-C or a failed output, the cancelled transfers need no message each.
            guard Interruption.shared.status == nil || outcome.kind != .cancelled else { return }
            let subject = outcome.id.map { "\(Printable.line($0)): " } ?? ""
            display.complain("\(subject)\(Printable.line(outcome.url)): \(error)", isMarked: true)
        } else {
            display.say(OutcomeText.line(outcome, name: name, display))
        }
        guard showsTimings, !printsJSON else { return }
        for timing in outcome.timings { display.say("  \(timing.timeline)") }
    }
}
