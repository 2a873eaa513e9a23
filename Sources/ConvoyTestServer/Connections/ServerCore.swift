import CEpoll
import ConvoySupport
import Foundation

/// The loop of the server's thread, which uses epoll for the listener, all connections, their timers and the inbox.
///
/// Used only on that thread, which runs no user code.
final class ServerCore {
    let state: ServerState
    let inbox: Inbox
    private let listener: Int32
    private let epoll: Int32
    private var connections: [UInt64: ClientConnection] = [:]
    private var timers = TimerHeap()
    /// The timer that resumes accepting after a pause.
    private lazy var listenerTimer = RunLoopTimer { [unowned self] in watchListener(for: EPOLLIN.rawValue) }
    private var lastConnection: UInt64 = 0
    private var isStopping = false
    private(set) var now = MonotonicClock.now
    var scratch = [UInt8](repeating: 0, count: 1 << 17)

    private static let listenerToken = UInt64.max
    private static let inboxToken = UInt64.max - 1

    /// Takes ownership of the descriptors, except for that of the inbox.
    init(state: ServerState, inbox: Inbox, listener: Int32, epoll: Int32, event: Int32) {
        self.state = state
        self.inbox = inbox
        self.listener = listener
        self.epoll = epoll
        Sockets.watch(epoll, EPOLL_CTL_ADD, listener, events: EPOLLIN.rawValue, token: Self.listenerToken)
        Sockets.watch(epoll, EPOLL_CTL_ADD, event, events: EPOLLIN.rawValue, token: Self.inboxToken)
    }

    /// Runs until `Inbox.Message.stop` arrives, then closes all descriptors.
    func run() {
        var events = [epoll_event](repeating: epoll_event(), count: 256)
        while !isStopping {
            let count = epoll_wait(epoll, &events, Int32(events.count), timeout())
            now = MonotonicClock.now
            for index in 0..<max(0, Int(count)) {
                handle(events[index].events, token: events[index].data.u64)
            }
            while let due = timers.popDue(now: now) { due.fire() }
        }
        for connection in Array(connections.values) { close(connection) }
        inbox.close()
        Glibc.close(listener)
        Glibc.close(epoll)
    }

    private func timeout() -> Int32 {
        guard let earliest = timers.nextDeadline else { return -1 }
        let current = MonotonicClock.now
        guard earliest > current else { return 0 }
        // Round up, because waking a fraction of a millisecond early would cause a busy loop.
        return Int32(min((earliest - current + 999_999) / 1_000_000, 3_600_000))
    }

    private func handle(_ events: UInt32, token: UInt64) {
        switch token {
        case Self.listenerToken: acceptAll()
        case Self.inboxToken: for message in inbox.take() { handle(message) }
        default:
            guard let connection = connections[token] else { return }
            handle(events, connection)
        }
    }

    private func handle(_ message: Inbox.Message) {
        switch message {
        case .answer(let id, let exchange, let response):
            guard let connection = connections[id], connection.exchange == exchange,
                connection.phase == .answering
            else { return }
            begin(response, on: connection)
            advance(connection)
        case .proceed(let id, let exchange):
            guard let connection = connections[id], connection.exchange == exchange, connection.phase == .pausing else {
                return
            }
            connection.phase = .writing
            advance(connection)
        case .expire(let waiter, let deadline):
            timers.schedule(RunLoopTimer { [state] in state.changes.fire(waiter) }, at: deadline)
        case .dropConnections:
            for connection in Array(connections.values) { close(connection) }
        case .stop:
            isStopping = true
        }
    }

    private func acceptAll() {
        while true {
            let (descriptor, code) = Sockets.accept(listener)
            guard descriptor >= 0 else {
                if code == EINTR || code == ECONNABORTED { continue }
                if code != EAGAIN { pauseAccepting() }
                return
            }
            lastConnection += 1
            let connection = ClientConnection(
                id: lastConnection, descriptor: descriptor, limit: state.configuration.maximumHeadSize)
            connection.interest = EPOLLIN.rawValue | EPOLLRDHUP.rawValue
            guard
                Sockets.watch(epoll, EPOLL_CTL_ADD, descriptor, events: connection.interest, token: connection.id)
            else {
                Glibc.close(descriptor)
                continue
            }
            connections[connection.id] = connection
            if let context = state.tls {
                guard let session = TLSSession(context) else {
                    connections[connection.id] = nil
                    Glibc.close(descriptor)
                    continue
                }
                beginHandshake(connection, session)
            }
            state.update { log in
                log.statistics.openConnectionCount += 1
                log.statistics.totalConnectionCount += 1
            }
        }
    }

    /// Stops accepting for 20 ms. If no descriptor is free, the pending connection would otherwise wake the loop
    /// endlessly.
    private func pauseAccepting() {
        watchListener(for: 0)
        timers.schedule(listenerTimer, at: now + 20_000_000)
    }

    private func watchListener(for events: UInt32) {
        Sockets.watch(epoll, EPOLL_CTL_MOD, listener, events: events, token: Self.listenerToken)
    }

    // MARK: Timers

    /// Schedules the timer of a connection, replacing an earlier deadline.
    func wake(_ connection: ClientConnection, at deadline: MonotonicTime) {
        let timer =
            connection.timer
            ?? RunLoopTimer { [unowned self, weak connection] in
                if let connection { fire(connection) }
            }
        connection.timer = timer
        timers.schedule(timer, at: deadline)
    }

    /// Cancels the timer of a connection.
    func cancelWake(_ connection: ClientConnection) {
        if let timer = connection.timer { timers.cancel(timer) }
    }

    private func fire(_ connection: ClientConnection) {
        switch connection.phase {
        case .pausing:
            connection.phase = .writing
            advance(connection)
        case .draining: close(connection)
        case .handshaking: lose(connection, "the handshake timed out")
        default: break
        }
    }

    // MARK: Connections

    /// Watches only the events that the phase needs.
    func updateInterest(_ connection: ClientConnection) {
        guard connection.phase != .closed else { return }
        var events: UInt32 = 0
        if !connection.peerHasClosed {
            events |= EPOLLRDHUP.rawValue
            if connection.wantsInput || connection.inputCount < 1 << 16 { events |= EPOLLIN.rawValue }
        }
        let mayWrite = connection.hasOutput && connection.phase != .draining
        if mayWrite || connection.phase == .writing { events |= EPOLLOUT.rawValue }
        guard events != connection.interest else { return }
        connection.interest = events
        Sockets.watch(epoll, EPOLL_CTL_MOD, connection.descriptor, events: events, token: connection.id)
    }

    /// Closes a connection in any phase; with RST if `resetting` is true.
    func close(_ connection: ClientConnection, resetting: Bool = false) {
        guard connection.phase != .closed else { return }
        let unfinished = connection.head.map { connection.recorded($0, trailers: [:], now: now) }
        let wasReading = connection.phase == .reading
        let wasActive = connection.isActive
        connection.phase = .closed
        connection.isActive = false
        connections[connection.id] = nil
        cancelWake(connection)
        if resetting { Sockets.resetOnClose(connection.descriptor) }
        Glibc.close(connection.descriptor)
        let limit = state.configuration.recordingLimit
        state.update { log in
            log.statistics.openConnectionCount -= 1
            guard wasActive else { return }
            log.statistics.activeRequestCount -= 1
            log.statistics.abandonedRequestCount += 1
            if wasReading, let unfinished, log.incomplete.count < limit { log.incomplete.append(unfinished) }
        }
    }
}
