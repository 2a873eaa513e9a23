import ConvoySupport
import Dispatch
import Foundation

/// A log of the activity of connections, line by line, for debugging: connecting, TLS, heads as sent and received
/// including those of CONNECT, and the number of body bytes.
///
/// Several configurations may share a trace. Two traces are equal if they are the same object. Secrets are masked
/// unless `showsSecrets` is set: the values of `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, and of
/// fields that are marked as sensitive or have well-known names, and in URLs the user information and the values of
/// secret query items. Of libcurl's own messages, only those known to contain no secrets are included.
public final class ConnectionTrace: Sendable {
    /// A closure that receives a line.
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

    /// Creates a trace.
    ///
    /// - Parameters:
    ///   - showsSecrets: Whether secrets are shown unmasked. Use this for terminals, not for logs.
    ///   - capacity: The maximum number of lines that wait for a slow queue. Further lines are dropped, and a line
    ///     reports how many.
    ///   - queue: The queue on which the handler runs. Lines are delivered serially and in order, even on a concurrent
    ///     queue.
    ///   - handler: Receives the lines. It may block; the transfers do not wait for it.
    public init(
        showsSecrets: Bool = false, capacity: Int = 10_000, on queue: DispatchQueue, handler: @escaping Handler
    ) {
        self.showsSecrets = showsSecrets
        self.capacity = max(1, capacity)
        self.queue = queue
        self.handler = handler
    }

    // MARK: Called on the network thread

    /// Returns the number for a new transfer.
    func nextTransfer() -> Int {
        state.withLock { state in
            state.transferCount += 1
            return state.transferCount
        }
    }

    /// Passes a line to the queue.
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

    // MARK: Called on the handler's queue

    private func deliver() {
        while let lines = take() {
            for line in lines { handler(line) }
        }
    }

    /// Returns the waiting lines, or nil if the list is empty, so that the next line starts another delivery.
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

extension ConnectionTrace: OpaqueReflectable {}

/// A line of a connection trace, with its kind and its text.
public struct TraceLine: Sendable, Hashable {
    /// The kind of a trace line.
    public enum Kind: String, Sendable, Hashable {
        /// A message about connecting, TLS, a redirect or the end of a transfer.
        case note = "*"
        /// A line of a head that was sent.
        case sentHead = ">"
        /// A line of a head or a trailer that was received.
        case receivedHead = "<"
        /// The bytes of a body that were sent.
        case sentBody = "}"
        /// The bytes of a body that were received, in their content coding.
        case receivedBody = "{"
        /// The end of a request, with its times and metrics.
        case timing = "="
    }

    /// The kind of the line.
    public let kind: Kind
    /// The text of the line, without a line ending. Text from a server may contain control characters, which a terminal
    /// would interpret.
    public let text: String
    /// The number of the transfer in the trace, from 1; 0 for a line without a transfer.
    public let transfer: Int
    /// The number of bytes, for lines about a body.
    public let byteCount: Int?
    /// The metrics of a request, for the line at its end.
    public let metrics: TransactionMetrics?

    init(kind: Kind, text: String, transfer: Int) {
        self.kind = kind
        self.text = text
        self.transfer = transfer
        byteCount = nil
        metrics = nil
    }

    init(kind: Kind, byteCount: Int, transfer: Int) {
        self.kind = kind
        self.transfer = transfer
        self.byteCount = byteCount
        metrics = nil
        text = byteCount == 1 ? "1 byte" : "\(byteCount) bytes"
    }

    init(_ metrics: TransactionMetrics, transfer: Int) {
        kind = .timing
        self.transfer = transfer
        byteCount = nil
        self.metrics = metrics
        text = metrics.timeline
    }

    /// Merges two lines that count bytes of the same body.
    func merged(with next: TraceLine) -> TraceLine? {
        guard kind == next.kind, transfer == next.transfer, let one = byteCount, let other = next.byteCount else {
            return nil
        }
        return TraceLine(kind: kind, byteCount: one + other, transfer: transfer)
    }
}

extension TraceLine: CustomStringConvertible {
    /// The symbol of the kind followed by the text, as in the output of `curl -v`.
    public var description: String { "\(kind.rawValue) \(text)" }
}
