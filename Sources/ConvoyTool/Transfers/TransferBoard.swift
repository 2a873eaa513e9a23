import Foundation
import Synchronization

/// The transfers that are under way, drawn as bars at the bottom of a terminal ten times a second.
final class TransferBoard: Sendable {
    private struct Row {
        let id: ObjectIdentifier
        var bar: ProgressBar
        var meter = SpeedMeter()
    }

    private struct State {
        var rows: [Row] = []
        var finished = 0
        var failed = 0
        var bytes: Int64 = 0
        var timer: (any DispatchSourceTimer)?
    }

    private let display: Display
    private let total: Int
    private let begun = ContinuousClock.now
    private let state = Mutex(State())

    init(display: Display, total: Int) {
        self.display = display
        self.total = total
        guard display.isLive else { return }
        let timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "convoy.display"))
        timer.schedule(deadline: .now() + 0.1, repeating: 0.1)
        timer.setEventHandler { @Sendable [weak self] in self?.draw() }
        timer.activate()
        struct Box: @unchecked Sendable { let timer: any DispatchSourceTimer }
        let box = Box(timer: timer)
        state.withLock { $0.timer = box.timer }
    }

    /// Bytes of a transfer have come. The first call makes its bar.
    func note(_ transfer: Transfer, done: Int64, expected: Int64?) {
        guard display.isLive else { return }
        let id = ObjectIdentifier(transfer)
        state.withLock { state in
            let index = state.rows.firstIndex { $0.id == id }
            if index == nil { state.rows.append(Row(id: id, bar: ProgressBar(name: transfer.name, done: 0))) }
            let row = index ?? state.rows.count - 1
            state.rows[row].bar.done = done
            state.rows[row].bar.total = expected
        }
    }

    /// A transfer has finished: its bar goes.
    func finish(_ transfer: Transfer, _ outcome: Outcome) {
        let id = ObjectIdentifier(transfer)
        state.withLock { state in
            state.rows.removeAll { $0.id == id }
            state.finished += 1
            if outcome.error == nil { state.bytes += outcome.bytes } else { state.failed += 1 }
        }
        draw()
    }

    /// No more is drawn.
    func end() {
        state.withLock { state in
            state.timer?.cancel()
            state.timer = nil
        }
        display.clear()
    }

    /// How it went: how many failed, and all bytes of the others.
    var result: (failed: Int, bytes: Int64, seconds: Double) {
        state.withLock { ($0.failed, $0.bytes, (ContinuousClock.now - begun).seconds) }
    }

    private func draw() {
        guard display.isLive else { return }
        let now = ContinuousClock.now
        let size = display.size
        let lines: [String]? = state.withLock { state in
            guard state.timer != nil else { return nil }
            var lines: [String] = []
            // More bars than rows would scroll, and could not be erased.
            for index in state.rows.indices.prefix(max(1, size.rows - 3)) {
                state.rows[index].meter.note(state.rows[index].bar.done, at: now)
                state.rows[index].bar.speed = state.rows[index].meter.speed
                lines.append(state.rows[index].bar.line(columns: size.columns, display: display))
            }
            if total > 1 { lines.append(summary(state)) }
            return lines
        }
        if let lines { display.show(lines) }
    }

    private func summary(_ state: State) -> String {
        var text = "\(state.finished) of \(total) finished"
        if state.failed > 0 { text += ", \(state.failed) failed" }
        let arriving = state.rows.reduce(state.bytes) { $0 + $1.bar.done }
        return display.paint("\(text), \(Amounts.bytes(arriving))", .dim)
    }
}
