import Convoy
import ConvoySharedQueue
import ConvoySupport
import Dispatch
import Foundation
import FoundationNetworking

/// The displayed activity of a worker: a line for each attempt and, on a terminal, a changing status line.
final class WorkBoard: Sendable {
    private let display: Display
    private let printsJSON: Bool
    /// The queue on which lines are written, so that a slow reader does not block transfers.
    private let queue = DispatchQueue(label: "convoy.work")

    /// Whether the last message on the database said that it cannot be used, and that on the queue that it is paused.
    private let messages = Locked((isDisconnected: false, isPaused: false))

    init(_ display: Display, printsJSON: Bool) {
        self.display = display
        self.printsJSON = printsJSON
    }

    /// Reports the end of an attempt.
    func watch(_ operation: HTTPRequestOperation, _ entry: SharedQueueWorker.ClaimedEntry) {
        let method = operation.request.httpMethod ?? "GET"
        let url = operation.request.url?.absoluteString ?? ""
        let end = { @Sendable [self] (operation: HTTPRequestOperation, error: (any Error)?) in
            let (status, bytes) = (operation.statusCode, operation.transferProgress.bytesReceived)
            queue.async { [self] in printEnd(of: entry, method, url, status, bytes, error) }
        }
        operation.setCompletionHandler(success: { operation, _ in end(operation, nil) }, failure: { end($0, $1) })
    }

    private func printEnd(
        of entry: SharedQueueWorker.ClaimedEntry, _ method: String, _ url: String, _ status: Int?, _ bytes: Int64,
        _ error: (any Error)?
    ) {
        let text = error.map { ErrorText.line(for: $0) }
        if printsJSON {
            var line = JSONLine()
            line.add("id", entry.id.text)
            line.add("attempt", Int64(entry.attempt))
            line.add("tag", entry.tag)
            line.add("method", method)
            line.add("url", Shown.url(url))
            line.add("status", status.map(Int64.init))
            line.add("bytes", bytes)
            line.add("error", text)
            return display.emit(line.text)
        }
        // The entry was returned to the queue, or cancelled in it.
        if (error as? URLError)?.code == .cancelled { return }
        let request = Printable.line("\(method) \(Shown.url(url))")
        if let text {
            display.complain("\(request): \(text) (attempt \(entry.attempt), \(entry.id.text))", isMarked: true)
        } else {
            display.say("\(request): \(status.map { "\($0), " } ?? "")\(Amounts.bytes(bytes))")
        }
    }

    /// Reports the state of the database and entries that have failed permanently.
    func report(_ event: SharedQueueWorker.Event) {
        queue.async { [self] in
            switch event {
            case .connected:
                // The first connection is not worth a message.
                let wasDisconnected = messages.withLock { messages in
                    defer { messages.isDisconnected = false }
                    return messages.isDisconnected
                }
                if wasDisconnected { display.complain("the database of the queue can be used again") }
            case .disconnected(let error):
                messages.withLock { $0.isDisconnected = true }
                display.complain("\(ErrorText.line(for: error)); retrying", isMarked: true)
            case .failed(let entry, let reason):
                guard !printsJSON else { return }
                let reason = reason.map { ": \(Printable.line($0))" } ?? ""
                display.complain("\(entry.id.text) has failed permanently\(reason)", isMarked: true)
            }
        }
    }

    /// Reports that the worker waits because the queue is paused.
    func showPause(_ isPaused: Bool) {
        let isNew = messages.withLock { messages in
            defer { messages.isPaused = isPaused }
            return isPaused && !messages.isPaused
        }
        guard isNew else { return }
        queue.async { [display] in display.complain("waiting: the queue is paused; to resume it: convoy queue resume") }
    }

    /// Reports that the worker is about to stop.
    func showStop() {
        queue.async { [display] in
            display.say("stopping after the running requests; a second signal returns them to the queue")
        }
    }

    /// Draws the status line.
    func show(_ statistics: SharedQueueWorker.Statistics, isStopping: Bool) {
        guard display.isLive else { return }
        var parts = ["\(statistics.running) running", "\(statistics.succeeded) succeeded"]
        if statistics.failedForNow > 0 { parts.append("\(statistics.failedForNow) to be retried") }
        if statistics.failed > 0 { parts.append("\(statistics.failed) failed") }
        if !statistics.isConnected { parts.append("no connection to the database") }
        if isStopping { parts.append("stopping") }
        display.show([Printable.cut(parts.joined(separator: ", "), to: display.size.columns - 1)])
    }

    /// Waits until all lines have been written, and prints a summary.
    func finish(_ statistics: SharedQueueWorker.Statistics) {
        queue.sync {}
        display.clear()
        guard !printsJSON else { return }
        var parts = ["\(statistics.succeeded) succeeded"]
        if statistics.failedForNow > 0 { parts.append("\(statistics.failedForNow) to be retried") }
        if statistics.failed > 0 { parts.append("\(statistics.failed) failed") }
        let returned = statistics.abandoned + statistics.returned
        if returned > 0 { parts.append("\(returned) returned to the queue") }
        display.say(parts.joined(separator: ", "))
    }
}
