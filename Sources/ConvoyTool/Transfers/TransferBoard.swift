import Convoy
import ConvoySupport
import Foundation

/// The displayed progress of running transfers, as bars at the bottom of a terminal, redrawn at most ten times per
/// second, or as lines.
final class TransferBoard: Sendable {
    private struct Row {
        let id: ObjectIdentifier
        var bar: ProgressBar
        /// The number of bytes received over the network.
        var arrived: Int64 = 0
        /// The number of received bytes in the last progress report, which decreases when the transfer starts over.
        var fetched: Int64 = 0
        var meter: SpeedMeter
        var lines: ProgressLines
    }

    private struct Contents {
        var rows: [Row] = []
        /// The time of the last change to the window size.
        var resized: ContinuousClock.Instant?
        /// The width of the longest name so far, so that columns do not jump when its transfer ends.
        var longestName = 0
        /// The transfers whose line has been printed. Later progress reports about them are ignored.
        var ended: Set<ObjectIdentifier> = []
        /// The number of transfers, or nil while it is unknown.
        var total: Int?
        var finished = 0
        var failed = 0
        /// The number of bytes of complete files.
        var bytes: Int64 = 0
        /// The number of bytes received by all transfers over the network.
        var arrived: Int64 = 0
        var meter: SpeedMeter
        var timer: (any DispatchSourceTimer)?
    }

    private let display: Display
    private let begun: ContinuousClock.Instant
    private let contents: Locked<Contents>
    private let queue = DispatchQueue(label: "convoy.display")

    init(display: Display, total: Int?) {
        self.display = display
        begun = .now
        contents = Locked(Contents(total: total, meter: SpeedMeter(at: begun)))
        guard display.showsProgress else { return }
        let timer = DispatchSource.makeTimerSource(queue: queue)
        let interval = display.isLive ? 0.1 : 0.5
        timer.schedule(deadline: .now() + interval, repeating: interval)
        timer.setEventHandler { @Sendable [weak self] in self?.update() }
        timer.activate()
        struct Box: @unchecked Sendable { let timer: any DispatchSourceTimer }
        let box = Box(timer: timer)
        contents.withLock { $0.timer = box.timer }
        display.onResize { [weak self, queue] in
            queue.async { [self] in
                self?.contents.withLock { $0.resized = .now }
                self?.update()
            }
        }
    }

    func setTotal(_ total: Int) { contents.withLock { $0.total = total } }

    /// Registers a new transfer, which may have the address of one that has been deallocated.
    func begin(_ transfer: Transfer) {
        guard display.showsProgress else { return }
        _ = contents.withLock { $0.ended.remove(ObjectIdentifier(transfer)) }
    }

    /// Counts a file without a transfer.
    func finish(_ outcome: Outcome) {
        contents.withLock { contents in
            contents.finished += 1
            if outcome.error != nil { contents.failed += 1 }
        }
    }

    /// Records the progress of a transfer. The first call creates its bar.
    ///
    /// - Parameters:
    ///   - fetched: The number of bytes received over the network; it decreases when the transfer starts over.
    ///   - done: The number of stored bytes, including those of an earlier run.
    ///   - expected: The length of the file, or nil if it is unknown.
    func note(_ transfer: Transfer, fetched: Int64, done: Int64, expected: Int64?) {
        guard display.showsProgress else { return }
        let id = ObjectIdentifier(transfer)
        contents.withLock { contents in
            guard !contents.ended.contains(id) else { return }
            let index = contents.rows.firstIndex { $0.id == id } ?? contents.rows.count
            if index == contents.rows.count {
                let name = Printable.name(transfer.name)
                let now = ContinuousClock.now
                contents.rows.append(
                    Row(
                        id: id, bar: ProgressBar(name: name), meter: SpeedMeter(at: now),
                        lines: ProgressLines(at: now, bytes: done - fetched)))
                contents.longestName = max(contents.longestName, Printable.width(name))
            }
            let last = contents.rows[index].fetched
            let arrived = fetched < last ? fetched : fetched - last
            contents.arrived += arrived
            contents.rows[index].arrived += arrived
            contents.rows[index].fetched = fetched
            contents.rows[index].bar.done = done
            contents.rows[index].bar.total = expected
        }
    }

    /// Removes the bar of a finished transfer and prints its line.
    func finish(_ transfer: Transfer, _ outcome: Outcome) {
        let id = ObjectIdentifier(transfer)
        contents.withLock { contents in
            contents.rows.removeAll { $0.id == id }
            if display.showsProgress { contents.ended.insert(id) }
            contents.finished += 1
            if outcome.error == nil { contents.bytes += outcome.bytes } else { contents.failed += 1 }
        }
        guard display.isLive, let lines = lines() else { return }
        display.show(lines, waits: true)
    }

    /// Stops drawing, and removes the bars.
    func end() {
        display.onResize(nil)
        contents.withLock { contents in
            contents.timer?.cancel()
            contents.timer = nil
        }
        // Wait for a running update.
        queue.sync {}
        display.clear()
    }

    /// The number of bytes of successful transfers, and the total time.
    var result: (bytes: Int64, seconds: Double) {
        contents.withLock { ($0.bytes, (ContinuousClock.now - begun).seconds) }
    }

    private func update() {
        if display.isLive {
            if let lines = lines(measuring: true) { display.show(lines) }
        } else {
            for text in dueLines() { display.say(text) }
        }
    }

    // MARK: Lines

    private func dueLines() -> [String] {
        let now = ContinuousClock.now
        return contents.withLock { contents in
            guard contents.timer != nil else { return [] }
            measure(&contents, at: now)
            return contents.rows.indices.compactMap { index in
                let bar = contents.rows[index].bar
                return contents.rows[index].lines.isDue(bar, at: now) ? bar.text : nil
            }
        }
    }

    private func measure(_ contents: inout Contents, at now: ContinuousClock.Instant) {
        contents.meter.note(contents.arrived, at: now)
        for index in contents.rows.indices {
            contents.rows[index].meter.note(contents.rows[index].arrived, at: now)
            contents.rows[index].bar.speed = contents.rows[index].meter.speed
        }
    }

    // MARK: Bars

    private static let longestLine = 80

    /// Returns the bars and the summary line, or nil after the end.
    private func lines(measuring: Bool = false) -> [String]? {
        let size = display.size
        return contents.withLock { contents in
            guard contents.timer != nil else { return nil }
            if measuring { measure(&contents, at: .now) }
            // Half of the window is reserved for finished transfers, unless the window has very few rows.
            let most = max(1, min(size.rows - 1, max(size.rows / 2, 8)))
            let hasSummary = contents.total != 1 && most > 1
            let shown = contents.rows.prefix(hasSummary ? most - 1 : most)
            // When the window gets narrower, a terminal breaks each line into several rows. If the rows did not fit the
            // window, the first rows could not be erased. Two rows per line always fit. Until the window has kept its
            // size for a moment, lines are half as long, so that further narrowing does not add rows.
            let isChanging = contents.resized.map { ContinuousClock.now - $0 < .seconds(1) } ?? false
            // Longer lines could not be erased completely: some terminals lose the first row of a line that they break into
            // three.
            let columns = min(isChanging ? size.columns / 2 : size.columns - 1, Self.longestLine)
            let layout = ProgressLayout(columns: columns, longestName: contents.longestName)
            var lines = shown.map { $0.bar.line(layout, display: display) }
            if hasSummary {
                let summary = summary(contents, hidden: contents.rows.count - shown.count)
                lines.append(display.paint(summary.line(columns: columns), .dim))
            }
            return lines
        }
    }

    private func summary(_ contents: Contents, hidden: Int) -> ProgressSummary {
        let done = contents.rows.reduce(contents.bytes) { $0 + $1.bar.done }
        var summary = ProgressSummary(
            total: contents.total, finished: contents.finished, failed: contents.failed, hidden: hidden, bytes: done,
            speed: contents.meter.speed)
        let lengths = contents.rows.compactMap(\.bar.total)
        // The lengths of transfers that have not started are unknown.
        if let total = contents.total, lengths.count == total - contents.finished {
            summary.bytesLeft = max(0, lengths.reduce(contents.bytes, +) - done)
        }
        return summary
    }
}

/// The bar of one transfer, which forwards its progress to the board.
final class TransferBar: TransferProgressView, Sendable {
    private let transfer: Transfer
    private let board: TransferBoard

    init(_ transfer: Transfer, on board: TransferBoard) {
        self.transfer = transfer
        self.board = board
    }

    func setProgress(_ fraction: Double?, of progress: TransferProgress) {
        if transfer.isUpload {
            return board.note(
                transfer, fetched: progress.bytesSent, done: progress.bytesSent, expected: progress.bytesExpectedToSend)
        }
        // The body of an error response is not a download.
        guard let status = transfer.operation.statusCode, (200..<300).contains(status) else { return }
        let fetched = transfer.fetchedByteCount(progress)
        // Do not draw a bar if all bytes come from an earlier run.
        guard fetched > 0 else { return }
        board.note(
            transfer, fetched: fetched, done: progress.bytesReceived, expected: progress.bytesExpectedToReceive)
    }
}
