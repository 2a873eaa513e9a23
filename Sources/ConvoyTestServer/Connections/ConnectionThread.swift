import ConvoySupport
import Foundation

extension TestServer {
    /// Binds to 127.0.0.1 and starts to serve.
    ///
    /// - Throws: `TestServerError.system` if a socket cannot be made or the port is in use; `.unusableTLS`.
    public convenience init(_ configuration: Configuration = Configuration()) throws(TestServerError) {
        let context: TLSContext? = if let tls = configuration.tls { try TLSContext(tls) } else { nil }
        let (listener, port) = try Sockets.listen(port: configuration.port, backlog: configuration.backlog)
        let state = ServerState(configuration, tls: context)
        let thread: ConnectionThread
        do throws(TestServerError) {
            thread = try ConnectionThread(serving: state, listener: listener)
        } catch {
            close(listener)
            throw error
        }
        self.init(port: port, state: state, engine: thread)
    }
}

/// The thread that serves all connections.
final class ConnectionThread: ServerEngine {
    private let inbox: Inbox
    private let identity = Locked<pthread_t?>(nil)
    private let isOver = DispatchSemaphore(value: 0)

    /// Starts to serve connections to the listener, whose descriptor it owns unless this throws.
    init(serving state: ServerState, listener: Int32) throws(TestServerError) {
        let epoll = try Sockets.makeEpoll()
        let event: Int32
        do throws(TestServerError) {
            event = try Sockets.makeEvent()
        } catch {
            close(epoll)
            throw error
        }
        inbox = Inbox(event: event)
        let thread = Thread { @Sendable [self] in
            identity.withLock { $0 = pthread_self() }
            let core = ServerCore(state: state, inbox: inbox, listener: listener, epoll: epoll, event: event)
            core.run()
            isOver.signal()
        }
        thread.name = "Convoy.TestServer"
        thread.start()
    }

    func stop() {
        inbox.post(.stop)
        // A closure of a route may hold the last reference to the server and be released on this thread, which must
        // not wait for itself.
        let isSelf = identity.withLock { $0.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
        guard !isSelf else { return }
        isOver.wait()
        isOver.signal()
    }

    func dropConnections() { inbox.post(.dropConnections) }

    func wake(waiter: UInt64, at deadline: MonotonicTime) { inbox.post(.expire(waiter: waiter, at: deadline)) }
}

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
