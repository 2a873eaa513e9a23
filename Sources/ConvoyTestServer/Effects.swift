import ConvoySupport
import Foundation

extension TestServer {
    /// The delays, speed and faults of a response.
    public struct Effects: Sendable {
        /// How fast the body is sent.
        public enum Pace: Hashable, Sendable {
            /// As fast as the client receives it.
            case unlimited
            /// This many bytes, then a pause of `interval` seconds, and so on. In a chunked body each part is one
            /// chunk.
            case drip(bytes: Int, interval: TimeInterval)
            /// A pause of this many seconds between the parts of `Response.Body.chunks`.
            case betweenChunks(TimeInterval)
            /// At most this many bytes per second, evenly.
            case bandwidth(bytesPerSecond: Int)
        }

        /// How a response fails. Offsets count body bytes before framing, or the bytes of a raw response.
        public enum Fault: Hashable, Sendable {
            /// No fault.
            case none
            /// Nothing is sent; the connection stays open.
            case stallBeforeHead
            /// The connection is reset (TCP RST) in place of a response.
            case resetBeforeHead
            /// The connection is closed normally in place of a response ("empty reply").
            case closeBeforeHead
            /// Nothing is sent after this many bytes; the connection stays open.
            case stall(afterBytes: Int)
            /// The connection is reset (TCP RST) after this many bytes have reached the client's system.
            case reset(afterBytes: Int)
            /// The connection is closed normally after this many bytes, whatever length was announced.
            case close(afterBytes: Int)
        }

        /// Seconds before the head.
        public var headDelay: TimeInterval = 0
        /// Seconds between the head and the body.
        public var bodyDelay: TimeInterval = 0
        /// The head waits until this is open.
        public var headGate: Gate?
        /// The body waits until this is open.
        public var bodyGate: Gate?
        /// The body bytes that are sent before waiting for `bodyGate`.
        public var bodyGateOffset = 0
        /// How fast the body is sent.
        public var pace: Pace = .unlimited
        /// How the response fails.
        public var fault: Fault = .none

        /// No effect at all.
        public init() {}
    }
}

extension TestServer {
    /// A barrier that holds responses until the test opens it, so that no test has to sleep.
    ///
    /// Any number of responses may wait at a gate, without using threads. Once opened, it stays open. A gate can be
    /// opened from any thread.
    public final class Gate: Sendable {
        /// The closures to call; nil once the gate is open.
        private let waiting = Locked<[@Sendable () -> Void]?>([])

        /// A closed gate.
        public init() {}

        /// Whether the gate is open.
        public var isOpen: Bool { waiting.withLock { $0 == nil } }

        /// Opens the gate for all current and later waiters. Opening it again has no effect.
        public func open() {
            let resumed = waiting.withLock { waiting in
                defer { waiting = nil }
                return waiting ?? []
            }
            for resume in resumed { resume() }
        }

        func whenOpen(_ resume: @escaping @Sendable () -> Void) {
            let isOpen = waiting.withLock { waiting in
                waiting?.append(resume)
                return waiting == nil
            }
            if isOpen { resume() }
        }
    }
}
