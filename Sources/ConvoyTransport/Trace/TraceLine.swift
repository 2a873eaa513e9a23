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
    /// The number of the transfer among those of the trace, from 1; 0 for a line about none.
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

    /// One line for two that count the same bytes.
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
