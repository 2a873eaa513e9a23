import Foundation
import Synchronization

/// Draws the running transfers as progress bars at the bottom of a terminal, ten times per second.
final class TransferBoard: Sendable {
    private struct Row {
        let id: ObjectIdentifier
        var bar: ProgressBar
        var meter = SpeedMeter()
    }

    private struct Contents {
        var rows: [Row] = []
        var finished = 0
        var failed = 0
        var bytes: Int64 = 0
        var timer: (any DispatchSourceTimer)?
    }

    private let display: Display
    private let total: Int
    private let begun = ContinuousClock.now
    private let contents = Mutex(Contents())

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
        contents.withLock { $0.timer = box.timer }
    }

    /// Notes that bytes of a transfer have arrived. The first call makes its bar.
    func note(_ transfer: Transfer, done: Int64, expected: Int64?) {
        guard display.isLive else { return }
        let id = ObjectIdentifier(transfer)
        contents.withLock { contents in
            let index = contents.rows.firstIndex { $0.id == id }
            if index == nil { contents.rows.append(Row(id: id, bar: ProgressBar(name: transfer.name, done: 0))) }
            let row = index ?? contents.rows.count - 1
            contents.rows[row].bar.done = done
            contents.rows[row].bar.total = expected
        }
    }

    /// Removes the bar of a finished transfer.
    func finish(_ transfer: Transfer, _ outcome: Outcome) {
        let id = ObjectIdentifier(transfer)
        contents.withLock { contents in
            contents.rows.removeAll { $0.id == id }
            contents.finished += 1
            if outcome.error == nil { contents.bytes += outcome.bytes } else { contents.failed += 1 }
        }
        draw()
    }

    /// Stops drawing.
    func end() {
        contents.withLock { contents in
            contents.timer?.cancel()
            contents.timer = nil
        }
        display.clear()
    }

    /// The bytes of the transfers that succeeded, and the total time.
    var result: (bytes: Int64, seconds: Double) {
        contents.withLock { ($0.bytes, (ContinuousClock.now - begun).seconds) }
    }

    private func draw() {
        guard display.isLive else { return }
        let now = ContinuousClock.now
        let size = display.size
        let lines: [String]? = contents.withLock { contents in
            guard contents.timer != nil else { return nil }
            var lines: [String] = []
            // More bars than rows would scroll away, and could not be erased.
            for index in contents.rows.indices.prefix(max(1, size.rows - 3)) {
                contents.rows[index].meter.note(contents.rows[index].bar.done, at: now)
                contents.rows[index].bar.speed = contents.rows[index].meter.speed
                lines.append(contents.rows[index].bar.line(columns: size.columns, display: display))
            }
            if total > 1 { lines.append(summary(contents)) }
            return lines
        }
        if let lines { display.show(lines) }
    }

    private func summary(_ contents: Contents) -> String {
        var text = "\(contents.finished) of \(total) finished"
        if contents.failed > 0 { text += ", \(contents.failed) failed" }
        let arriving = contents.rows.reduce(contents.bytes) { $0 + $1.bar.done }
        return display.paint("\(text), \(Amounts.bytes(arriving))", .dim)
    }
}
