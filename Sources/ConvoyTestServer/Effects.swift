import ConvoySupport
import Foundation

extension TestServer {
    /// The delays, speed and faults of a response.
    package struct Effects: Sendable {
        /// The speed at which the body is sent.
        package enum Pace: Hashable, Sendable {
            /// The body is sent as fast as the client receives it.
            case unlimited
            /// Parts of the given number of bytes, with a pause of `interval` seconds after each part. In a chunked
            /// body, each part is one chunk.
            case drip(bytes: Int, interval: TimeInterval)
            /// A pause of the given number of seconds between the parts of `Response.Body.chunks`.
            case betweenChunks(TimeInterval)
            /// At most the given number of bytes per second, evenly.
            case bandwidth(bytesPerSecond: Int)
        }

        /// The failure of a response. Offsets count body bytes before framing, or the bytes of a raw response.
        package enum Fault: Hashable, Sendable {
            /// No fault.
            case none
            /// Nothing is sent; the connection stays open.
            case stallBeforeHead
            /// The connection is reset (TCP RST) instead of sending a response.
            case resetBeforeHead
            /// The connection is closed normally instead of sending a response ("empty reply").
            case closeBeforeHead
            /// Nothing is sent after the given number of bytes; the connection stays open.
            case stall(afterBytes: Int)
            /// The connection is reset (TCP RST) after the given number of bytes have reached the client's system.
            case reset(afterBytes: Int)
            /// The connection is closed normally after the given number of bytes, regardless of the announced length.
            case close(afterBytes: Int)
        }

        /// The delay before the head, in seconds.
        package var headDelay: TimeInterval = 0
        /// The delay between the head and the body, in seconds.
        package var bodyDelay: TimeInterval = 0
        /// A gate that must be open before the head is sent.
        package var headGate: Gate?
        /// A gate that must be open before the rest of the body is sent.
        package var bodyGate: Gate?
        /// The number of body bytes to send before waiting for `bodyGate`.
        package var bodyGateOffset = 0
        /// The speed at which the body is sent.
        package var pace: Pace = .unlimited
        /// The failure of the response.
        package var fault: Fault = .none

        /// Creates effects without delays, limits or faults.
        package init() {}
    }
}

extension TestServer {
    /// A barrier that holds responses until the test opens it, so that tests need not sleep.
    ///
    /// Any number of responses may wait at a gate, without using threads. Once opened, a gate stays open. It can be
    /// opened from any thread.
    public final class Gate: Sendable {
        /// The closures to call when the gate opens; nil once it is open.
        private let waiting = Locked<[@Sendable () -> Void]?>([])

        /// Creates a closed gate.
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
