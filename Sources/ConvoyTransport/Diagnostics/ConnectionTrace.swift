import ConvoySupport
import Dispatch
import Foundation

/// Reports what connections do, line by line: the heads as sent and received, including CONNECT, connecting, TLS, and
/// the number of body bytes. For debugging.
///
/// An object, which any number of configurations may have; two are equal if they are the same one. Secrets are masked,
/// unless they are asked for: the values of `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, of fields
/// that are marked or have telling names, and in URLs the user information and the values of secret query items. Of
/// libcurl's own messages, only those known to contain no secrets are passed on.
public final class ConnectionTrace: Sendable {
    /// Receives a line.
    public typealias Handler = @Sendable (TraceLine) -> Void

    /// Whether secrets are shown.
    public let showsSecrets: Bool

    private struct State {
        var pending: [TraceLine] = []
        var dropped = 0
        var isDelivering = false
        var transferCount = 0
    }

    private let state = Locked(State())
    private let queue: DispatchQueue
    private let handler: Handler
    private let capacity: Int

    /// A trace.
    ///
    /// - Parameters:
    ///   - showsSecrets: whether secrets are shown as they are. For a terminal, not for logs.
    ///   - capacity: how many lines wait at most for a queue that does not keep up. Later ones are dropped, and a line
    ///     says how many.
    ///   - queue: where the handler runs. The lines come in order, one at a time, even on a concurrent queue.
    ///   - handler: receives the lines. It may block; the transfers do not wait for it.
    public init(
        showsSecrets: Bool = false, capacity: Int = 10_000, on queue: DispatchQueue, handler: @escaping Handler
    ) {
        self.showsSecrets = showsSecrets
        self.capacity = max(1, capacity)
        self.queue = queue
        self.handler = handler
    }

    // MARK: The network thread

    /// The number of another transfer.
    func nextTransfer() -> Int {
        state.withLock { state in
            state.transferCount += 1
            return state.transferCount
        }
    }

    /// Hands a line to the queue.
    func post(_ line: TraceLine) {
        let isFirst = state.withLock { state in
            if let last = state.pending.last, let sum = last.merged(with: line) {
                state.pending[state.pending.count - 1] = sum
            } else if state.pending.count < capacity {
                state.pending.append(line)
            } else {
                state.dropped += 1
            }
            defer { state.isDelivering = true }
            return !state.isDelivering
        }
        if isFirst { queue.async { self.deliver() } }
    }

    // MARK: The user's queue

    private func deliver() {
        while let lines = take() {
            for line in lines { handler(line) }
        }
    }

    /// The waiting lines; nil if there are none, so that the next one must start another delivery.
    private func take() -> [TraceLine]? {
        state.withLock { state in
            guard !state.pending.isEmpty else {
                state.isDelivering = false
                return nil
            }
            var lines = state.pending
            state.pending = []
            if state.dropped > 0 {
                lines.append(TraceLine(kind: .note, text: "\(state.dropped) lines were dropped", transfer: 0))
                state.dropped = 0
            }
            return lines
        }
    }
}

extension ConnectionTrace: Hashable {
    public static func == (one: ConnectionTrace, other: ConnectionTrace) -> Bool { one === other }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension ConnectionTrace: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// A line of a trace.
public struct TraceLine: Sendable, Hashable {
    /// What a line is about.
    public enum Kind: String, Sendable, Hashable {
        /// A message: connecting, TLS, a redirect, the end.
        case note = "*"
        /// A line of a head that was sent.
        case sentHead = ">"
        /// A line of a head that was received, or of trailers.
        case receivedHead = "<"
        /// Bytes of bodies that were sent.
        case sentBody = "}"
        /// Bytes of bodies that were received, in the transfer's coding.
        case receivedBody = "{"
        /// The end of a request, with its times and its metrics.
        case timing = "="
    }

    /// What the line is about.
    public let kind: Kind
    /// The line, without its end. What a server sent may contain control characters, which a terminal would obey.
    public let text: String
    /// The number of the transfer in the trace, from 1; 0 for a line that belongs to none.
    public let transfer: Int
    /// The number of bytes, for those of a body.
    public let byteCount: Int?
    /// The metrics of a request, for the line of its end.
    public let metrics: TransactionMetrics?

    init(kind: Kind, text: String, transfer: Int) {
        (self.kind, self.text, self.transfer, byteCount, metrics) = (kind, text, transfer, nil, nil)
    }

    init(kind: Kind, byteCount: Int, transfer: Int) {
        (self.kind, self.transfer, self.byteCount, metrics) = (kind, transfer, byteCount, nil)
        text = byteCount == 1 ? "1 byte" : "\(byteCount) bytes"
    }

    init(_ metrics: TransactionMetrics, transfer: Int) {
        (kind, self.transfer, byteCount, self.metrics) = (.timing, transfer, nil, metrics)
        text = metrics.timeline
    }

    /// One line in place of two that count bytes of the same body.
    func merged(with next: TraceLine) -> TraceLine? {
        guard kind == next.kind, transfer == next.transfer, let one = byteCount, let other = next.byteCount else {
            return nil
        }
        return TraceLine(kind: kind, byteCount: one + other, transfer: transfer)
    }
}

extension TraceLine: CustomStringConvertible {
    /// The sign of the kind, and the text, as `curl -v` has it.
    public var description: String { "\(kind.rawValue) \(text)" }
}
