import Convoy
import ConvoySupport
import ConvoyWorkflow
import Foundation

/// The displayed progress of a run: a line for each request that has ended and, on a terminal, a line for each running
/// request and one line for the waiting requests.
final class WorkflowBoard: Sendable {
    private struct Contents {
        var running: [(name: String, since: ContinuousClock.Instant, note: String)] = []
        var ended: Set<String> = []
        var failures: [String] = []
        /// The number of requests in flight when the program was interrupted.
        var interruptedCount = 0
        /// The number of running requests that capture secrets.
        var unknownSecrets = 0
        var timer: (any DispatchSourceTimer)?
    }

    private let display: Display
    private let workflow: Workflow
    private let row: DataRow?
    private let printsJSON: Bool
    private let printsNothing: Bool
    private let contents = Locked(Contents())

    init(_ display: Display, _ workflow: Workflow, row: DataRow?, printsJSON: Bool, printsNothing: Bool) {
        self.row = row
        self.display = display
        self.workflow = workflow
        self.printsJSON = printsJSON
        self.printsNothing = printsNothing
        guard display.isLive, !printsNothing else { return }
        contents.withLock { contents in
            let timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "convoy.board"))
            timer.schedule(deadline: .now() + .milliseconds(200), repeating: .milliseconds(200))
            timer.setEventHandler { [weak self] in self?.draw() }
            timer.activate()
            contents.timer = timer
        }
    }

    func take(_ event: WorkflowEvent) {
        switch event {
        case .began(let outcome):
            contents.withLock { $0.running.append((Printable.line(outcome.name), .now, "")) }
            if workflow.idsCapturingSecrets.contains(outcome.id) {
                contents.withLock { $0.unknownSecrets += 1 }
                display.holdRemarks()
            }
        case .waiting(let outcome, let text):
            let name = Printable.line(outcome.name)
            contents.withLock { contents in
                for index in contents.running.indices where contents.running[index].name == name {
                    contents.running[index].note = Printable.line(text)
                }
            }
        case .finished(let outcome): finish(outcome)
        }
    }

    private func finish(_ outcome: RequestOutcome) {
        let name = Printable.line(outcome.name)
        if outcome.began != nil, workflow.idsCapturingSecrets.contains(outcome.id) {
            let isLast = contents.withLock { contents in
                contents.unknownSecrets -= 1
                return contents.unknownSecrets == 0
            }
            if isLast { display.releaseRemarks() }
        }
        let isInterrupted = Interruption.shared.status != nil && outcome.kind == .cancelled
        let failures =
            outcome.state == .failed && !isInterrupted
            ? WorkflowLines.failures(outcome, row: row) : []
        contents.withLock { contents in
            if let index = contents.running.firstIndex(where: { $0.name == name }) { contents.running.remove(at: index) }
            contents.ended.insert(outcome.id)
            contents.failures += failures
            if isInterrupted, outcome.began != nil { contents.interruptedCount += 1 }
        }
        if printsJSON { display.emit(WorkflowLines.json(outcome, row: row)) }
        switch outcome.state {
        case .failed where isInterrupted:
            display.complain(WorkflowLines.interruption(outcome, row: row), isMarked: true)
        // Do not print skipped requests after an interruption, because every request that was not started is skipped.
        case .skipped where isInterrupted: break
        case .succeeded, .kept: if !printsNothing { display.say(WorkflowLines.success(outcome, display)) }
        case .skipped: if !printsNothing { display.say(WorkflowLines.skip(outcome, display)) }
        case .failed: for failure in failures { display.complain(failure, isMarked: true) }
        }
    }

    private func draw() {
        let limit = max(1, min(display.size.rows / 2, 12)), columns = display.size.columns
        let lines = contents.withLock { contents in
            var lines = contents.running.prefix(limit).map { row in
                let time = Amounts.seconds((ContinuousClock.now - row.since).seconds)
                return "  \(row.name)  \(time)\(row.note.isEmpty ? "" : "  \(row.note)")"
            }
            if contents.running.count > limit { lines.append("  and \(contents.running.count - limit) more") }
            let running = Set(contents.running.map { String($0.name.prefix { $0 != "[" }) })
            let waiting = workflow.waiting(ended: contents.ended, running: running)
            if let first = waiting.first {
                let more = waiting.count > 1 ? ", and \(waiting.count - 1) more wait" : ""
                lines.append("  \(first.id) waits for \(first.dependencies.joined(separator: ", "))\(more)")
            }
            return lines
        }
        display.show(lines.map { Printable.cut($0, to: max(20, columns - 1)) })
    }

    /// Removes the changing lines and, on a terminal, repeats the failures.
    func end(_ result: WorkflowResult) {
        let (failures, interrupted) = contents.withLock { contents in
            contents.timer?.cancel()
            contents.timer = nil
            return (contents.failures, contents.interruptedCount)
        }
        display.clear()
        guard !printsNothing else { return }
        if display.isLive, failures.count > 0, result.outcomes.count > 5 {
            display.say("")
            for failure in failures { display.complain(failure, isMarked: true) }
        }
        let kept = result.outcomes.count { $0.state == .kept }, skipped = result.outcomes.count { $0.state == .skipped }
        var text = "\(result.outcomes.count { $0.state == .succeeded }) succeeded"
        if kept > 0 { text += ", \(kept) in an earlier run" }
        if skipped > 0 { text += ", \(skipped) skipped" }
        if interrupted > 0 { text += ", \(interrupted) interrupted" }
        let failed = result.failures.count - interrupted
        if failed > 0 { text += ", \(failed) failed" }
        display.say("\(text), in \(Amounts.seconds(result.seconds))")
    }
}
