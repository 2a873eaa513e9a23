import CEpoll
import ConvoySupport
import Foundation

extension TestServer {
    /// Binds to 127.0.0.1 and starts serving.
    ///
    /// - Throws: `TestServerError.system` if a socket cannot be created or the port is in use; `.unusableTLS` if
    ///   OpenSSL rejects the TLS settings.
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

    /// Starts serving connections to the listener, and takes ownership of its descriptor unless an error is thrown.
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
        // A closure of a route may hold the last reference to the server and be released on this thread, which must not
        // wait for itself.
        let isSelf = identity.withLock { $0.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
        guard !isSelf else { return }
        isOver.wait()
        isOver.signal()
    }

    func dropConnections() { inbox.post(.dropConnections) }

    func wake(waiter: UInt64, at deadline: MonotonicTime) { inbox.post(.expire(waiter: waiter, at: deadline)) }
}

/// A queue of messages from other threads to the server's thread. The thread is woken once for all messages that it
/// takes together.
final class Inbox: Sendable {
    enum Message: Sendable {
        /// A handler's response to a request of a connection.
        case answer(connection: UInt64, exchange: UInt64, TestServer.Response)
        /// A gate has been opened.
        case proceed(connection: UInt64, exchange: UInt64)
        /// A caller that is waiting for a change must be woken when the monotonic clock reaches this time.
        case expire(waiter: UInt64, at: UInt64)
        /// All connections must be closed.
        case dropConnections
        case stop
    }

    private struct State {
        var messages: [Message] = []
        var isSignalled = false
        var event: Int32
    }

    private let state: ContendedLock<State>

    /// Takes ownership of the descriptor of an eventfd.
    init(event: Int32) {
        state = ContendedLock(State(event: event))
    }

    /// Adds a message, or drops it if the inbox is closed.
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

    /// Removes and returns all messages.
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

    /// Closes the inbox. Messages in it and later ones are dropped.
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

/// Wrappers for the server's system calls.
enum Sockets {
    /// The ports that the system has assigned to servers of this process.
    private static let taken = Locked<Set<UInt16>>([])
    /// The maximum number of ports to try.
    private static let portAttemptLimit = 64

    /// Opens a listening socket on 127.0.0.1. Port 0 selects a free port that no server of this process has used,
    /// because clients keep state by port, such as credentials and cached connections.
    static func listen(port: UInt16, backlog: Int32) throws(TestServerError) -> (descriptor: Int32, port: UInt16) {
        var (found, others): ((descriptor: Int32, port: UInt16), [Int32]) = (try open(port: port, backlog: backlog), [])
        defer { for descriptor in others { close(descriptor) } }
        while port == 0, !taken.withLock({ $0.insert(found.port).inserted }), others.count < portAttemptLimit {
            // While this socket stays open, the system assigns a different port.
            guard let next = try? open(port: 0, backlog: backlog) else { break }
            others.append(found.descriptor)
            found = next
        }
        return found
    }

    private static func open(port: UInt16, backlog: Int32) throws(TestServerError) -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, kind(SOCK_STREAM) | kind(SOCK_NONBLOCK) | kind(SOCK_CLOEXEC), 0)
        guard descriptor >= 0 else { throw failure("socket") }
        do throws(TestServerError) {
            setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let bound = withGeneric(&address) { bind(descriptor, $0, length) }
            guard bound == 0 else { throw failure("bind") }
            guard Glibc.listen(descriptor, backlog) == 0 else { throw failure("listen") }
            let named = withGeneric(&address) { getsockname(descriptor, $0, &length) }
            guard named == 0 else { throw failure("getsockname") }
            return (descriptor, UInt16(bigEndian: address.sin_port))
        } catch {
            close(descriptor)
            throw error
        }
    }

    /// Accepts the next pending connection and configures its socket, or returns the error code.
    static func accept(_ listener: Int32) -> (descriptor: Int32, code: Int32) {
        let descriptor = accept4(listener, nil, nil, kind(SOCK_NONBLOCK) | kind(SOCK_CLOEXEC))
        guard descriptor >= 0 else { return (-1, errno) }
        setOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        return (descriptor, 0)
    }

    static func makeEpoll() throws(TestServerError) -> Int32 {
        let descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw failure("epoll_create1") }
        return descriptor
    }

    static func makeEvent() throws(TestServerError) -> Int32 {
        let descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { throw failure("eventfd") }
        return descriptor
    }

    /// Adds or changes a watched descriptor.
    @discardableResult
    static func watch(_ epoll: Int32, _ operation: Int32, _ descriptor: Int32, events: UInt32, token: UInt64) -> Bool {
        var event = epoll_event()
        event.events = events
        event.data.u64 = token
        return epoll_ctl(epoll, operation, descriptor, &event) == 0
    }

    /// Makes the next close send RST instead of FIN.
    static func resetOnClose(_ descriptor: Int32) {
        var value = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
    }

    static func unacknowledgedBytes(_ descriptor: Int32) -> Int {
        Int(cepoll_unacknowledged_bytes(descriptor))
    }

    private static func kind(_ value: __socket_type) -> Int32 { Int32(value.rawValue) }

    private static func setOption(_ descriptor: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
        var value = value
        setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    private static func withGeneric<Result>(
        _ address: inout sockaddr_in, _ body: (UnsafeMutablePointer<sockaddr>) -> Result
    ) -> Result {
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0) }
        }
    }

    private static func failure(_ call: String) -> TestServerError {
        .system(call: call, code: errno)
    }
}
