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
