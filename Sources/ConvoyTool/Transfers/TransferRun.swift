import Convoy
import Foundation
import Synchronization

/// Runs transfers to their end, and reports each as it finishes.
struct TransferRun {
    let display: Display
    let manager: HTTPRequestOperationManager
    /// Whether standard output is JSON.
    let printsJSON: Bool
    private let order = ReportOrder()

    init(display: Display, jobs: Int, printsJSON: Bool) {
        self.display = display
        self.printsJSON = printsJSON
        manager = HTTPRequestOperationManager()
        // A queue without a limit per host: only the user's limit counts.
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = jobs
        manager.operationQueue = queue
        manager.completionQueue = DispatchQueue(label: "convoy.completion")
        manager.completionGroup = DispatchGroup()
    }

    /// Enqueues all transfers, and waits for them.
    ///
    /// - Parameters:
    ///   - failed: outcomes of failures that are known before any request.
    ///   - refine: may replace the reason of a failure by a better one.
    func run(
        _ transfers: [Transfer], failed: [Outcome] = [], summary: @escaping (Int) -> String,
        refine: @escaping @Sendable (Transfer, Outcome) -> Outcome = { $1 }
    ) -> ExitStatus {
        let board = TransferBoard(display: display, total: transfers.count)
        for outcome in failed { report(outcome, name: outcome.url) }
        for transfer in transfers { attach(transfer, board, refine) }
        let queue = manager.operationQueue
        Interruption.shared.onInterrupt { queue.cancelAllOperations() }
        manager.enqueue(transfers.map(\.operation))
        // Again, as transfers that were enqueued after a signal have not been cancelled by it.
        Interruption.shared.onInterrupt { queue.cancelAllOperations() }
        manager.completionGroup?.wait()
        board.end()
        let result = board.result
        let failures = result.failed + failed.count
        let total = transfers.count + failed.count
        let interruption = Interruption.shared.status
        if total != 1 {
            var text = summary(total - failures)
            if failures > 0 { text += ", \(failures) \(interruption == nil ? "failed" : "not finished")" }
            display.say("\(text), \(Amounts.bytes(result.bytes)) in \(Amounts.seconds(result.seconds))")
        }
        if let interruption { return interruption }
        return failures == 0 ? .success : .failure
    }

    private func attach(
        _ transfer: Transfer, _ board: TransferBoard, _ refine: @escaping @Sendable (Transfer, Outcome) -> Outcome
    ) {
        let operation = transfer.operation
        transfer.attach(to: manager.completionQueue, group: manager.completionGroup)
        if display.isLive {
            operation.downloadProgressHandler = { [weak operation] _, total, expected in
                // The body of an error response is not a download.
                guard let status = operation?.statusCode, (200..<300).contains(status) else { return }
                board.note(transfer, done: total, expected: expected)
            }
        }
        let dependencies = operation.dependencies.map { ObjectIdentifier($0) }
        let conclude: @Sendable ((any Error)?) -> Void = { error in
            let outcome = transfer.conclude(error)
            board.finish(transfer, outcome)
            order.finish(operation, after: dependencies) {
                report(outcome.error == nil ? outcome : refine(transfer, outcome), name: transfer.name)
            }
        }
        operation.setCompletionHandler(success: { _, _ in conclude(nil) }, failure: { conclude($1) })
    }

    private func report(_ outcome: Outcome, name: String) {
        if printsJSON { display.emit(outcome.json) }
        if let error = outcome.error {
            // After Ctrl-C or a failed output, the cancelled transfers need no message each.
            guard Interruption.shared.status == nil || error != Transfer.cancelled else { return }
            let subject = outcome.id.map { "\(Printable.line($0)): " } ?? ""
            display.complain("\(subject)\(Printable.line(outcome.url)): \(error)", isMarked: true)
            return
        }
        var text = display.isLive ? display.paint(Display.hasUnicode ? "✓ " : "* ", .green) : ""
        text += Printable.line(outcome.file ?? name)
        if let id = outcome.id, outcome.file != nil { text = "\(Printable.line(id)): \(text)" }
        let speed = outcome.seconds > 0 ? Double(outcome.bytes) / outcome.seconds : 0
        var figures = [Amounts.bytes(outcome.bytes), "in \(Amounts.seconds(outcome.seconds))"]
        if outcome.bytes >= 100_000 { figures.append("(\(Amounts.speed(speed)))") }
        if outcome.id != nil, let status = outcome.status { figures.insert("\(status),", at: 0) }
        display.say("\(text): \(figures.joined(separator: " "))")
    }
}
