import ConvoySupport
import Foundation

/// Messages from other threads to the server's thread, with one wake-up for all messages posted before it takes them.
final class Inbox: Sendable {
    enum Message: Sendable {
        /// A handler's answer to a request of a connection.
        case answer(connection: UInt64, exchange: UInt64, TestServer.Response)
        /// A gate has been opened.
        case proceed(connection: UInt64, exchange: UInt64)
        /// Wake a caller that waits for a change, at a time on the monotonic clock.
        case expire(waiter: UInt64, at: UInt64)
        /// Close every connection.
        case dropConnections
        case stop
    }

    private struct State {
        var messages: [Message] = []
        var isSignalled = false
        var event: Int32
    }

    private let state: ContendedLock<State>

    /// Takes over the descriptor of an eventfd.
    init(event: Int32) {
        state = ContendedLock(State(event: event))
    }

    /// Adds a message. After `close()` it is dropped.
    func post(_ message: Message) {
        state.withLock { state in
            guard state.event >= 0 else { return }
            state.messages.append(message)
            guard !state.isSignalled else { return }
            state.isSignalled = true
            var one: UInt64 = 1
            write(state.event, &one, 8)
        }
    }

    /// Takes all messages.
    func take() -> [Message] {
        state.withLock { state in
            if state.isSignalled {
                var count: UInt64 = 0
                read(state.event, &count, 8)
                state.isSignalled = false
            }
            defer { state.messages = [] }
            return state.messages
        }
    }

    /// Closes the inbox, and drops the messages in it and later ones.
    func close() {
        let dropped = state.withLock { state in
            if state.event >= 0 { Glibc.close(state.event) }
            state.event = -1
            defer { state.messages = [] }
            return state.messages
        }
        withExtendedLifetime(dropped) {}
    }
}
