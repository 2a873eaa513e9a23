import CCurl
import ConvoySupport
import Foundation

/// The sockets that the run loop watches for libcurl.
///
/// libcurl unregisters a socket after each request and registers it again for the next. Here the socket stays
/// registered in between, which saves two system calls per request; if it becomes ready meanwhile (the server has
/// closed it), it is unregistered then. That is safe for sockets whose closing is noticed: those that were opened here.
///
/// Belongs to the network thread.
final class SocketTable {
    private struct Entry {
        var registered: FileEvents = []
        /// Whether libcurl wants its events now.
        var isWanted = false
        /// Whether it was opened here, so that it is closed here too.
        var isOwn = false
        /// Whether it is an idle plain-text connection.
        var isAtRest = false
    }

    private let runLoop: NetworkRunLoop
    @exclusivity(unchecked) private var entries: [Entry] = []
    /// How often a socket could not be opened for lack of a descriptor.
    @exclusivity(unchecked) private(set) var shortages = 0
    /// Handles that were refused a socket, and do not know that they could go on with another address.
    @exclusivity(unchecked) var stalled: [EasyHandle] = []

    init(runLoop: NetworkRunLoop) { self.runLoop = runLoop }

    /// Makes connections of this handle close their sockets here. A connection may outlive the handle, but not the table.
    func adopt(_ easy: UnsafeMutableRawPointer) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        convoy_easy_set_pointer(easy, CURLOPT_CLOSESOCKETDATA, context)
        convoy_easy_set_close_socket_callback(easy) { context, socket in
            guard let context else { return close(socket) }
            return Unmanaged<SocketTable>.fromOpaque(context).takeUnretainedValue().closeSocket(socket)
        }
    }

    /// Opens a socket for libcurl.
    func open(_ address: curl_sockaddr) -> curl_socket_t {
        let descriptor = socket(
            address.family, address.socktype | Int32(SOCK_CLOEXEC.rawValue), address.protocol)
        guard descriptor >= 0 else {
            if DescriptorQueue.meansShortage(errno) { shortages += 1 }
            return CURL_SOCKET_BAD
        }
        grow(to: descriptor)
        entries[Int(descriptor)] = Entry(isOwn: true)
        return descriptor
    }

    @discardableResult func closeSocket(_ descriptor: curl_socket_t) -> Int32 {
        drop(descriptor)
        if Int(descriptor) < entries.count { entries[Int(descriptor)] = Entry() }
        return close(descriptor)
    }

    func watch(_ descriptor: curl_socket_t, for events: FileEvents, handler: any FileEventHandler) {
        grow(to: descriptor)
        let entry = entries[Int(descriptor)]
        entries[Int(descriptor)].isWanted = !events.isEmpty
        if !events.isEmpty { entries[Int(descriptor)].isAtRest = false }
        if events.isEmpty, entry.isOwn, entry.registered == .readable { return }
        guard events != entry.registered else { return }
        entries[Int(descriptor)].registered = events
        do {
            try runLoop.watch(descriptor, for: events, handler: handler)
        } catch {
            // There is no memory to watch it: the transfer's timeout will end it with an error.
            entries[Int(descriptor)].registered = []
        }
    }

    func isWatched(_ descriptor: Int32) -> Bool {
        Int(descriptor) < entries.count && entries[Int(descriptor)].isWanted
    }

    /// Notes that the transfer of a plain-text connection has ended.
    func noteRest(of descriptor: curl_socket_t) {
        guard descriptor >= 0, Int(descriptor) < entries.count, !entries[Int(descriptor)].isWanted else { return }
        entries[Int(descriptor)].isAtRest = true
    }

    /// Handles a socket that has become ready without being wanted by libcurl.
    ///
    /// - Parameter mayBeInUse: whether a transfer may be using its connection.
    func noteUnwanted(_ descriptor: Int32, mayBeInUse: Bool) {
        drop(descriptor)
        guard !mayBeInUse, Int(descriptor) < entries.count, entries[Int(descriptor)].isAtRest, entries[Int(descriptor)].isOwn
        else { return }
        // An unsolicited response would be taken for the response to the next request (RFC 9112, section 9.2). libcurl
        // 7.88 does not check for it, but does not use a connection that is shut down.
        var byte: UInt8 = 0
        if recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0 { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }

    /// Stops watching a socket.
    private func drop(_ descriptor: Int32) {
        guard Int(descriptor) < entries.count, !entries[Int(descriptor)].registered.isEmpty else { return }
        entries[Int(descriptor)].registered = []
        try? runLoop.unwatch(descriptor)
    }

    private func grow(to descriptor: Int32) {
        guard Int(descriptor) >= entries.count else { return }
        entries.append(contentsOf: repeatElement(Entry(), count: Int(descriptor) + 1 - entries.count))
    }
}

/// A transfer that lacks a file descriptor for its connection.
protocol DescriptorWaiter: AnyObject {
    /// Called when there may be a descriptor.
    func tryAgainForDescriptor()
}

/// Waits for the descriptor of a file.
final class FileWaiter {
    let began: MonotonicTime
    let isWanted: @Sendable () -> Bool
    let goOn: @Sendable () -> Void

    init(
        since began: MonotonicTime, while isWanted: @escaping @Sendable () -> Bool,
        then goOn: @escaping @Sendable () -> Void
    ) {
        (self.began, self.isWanted, self.goOn) = (began, isWanted, goOn)
    }
}

extension NetworkThread {
    /// Whether a file should not be opened now: the descriptors that are left are for connections. See
    /// ``awaitDescriptors(while:then:)``.
    package static var lacksDescriptors: Bool { DescriptorQueue.isScarce }

    /// Waits until other transfers have ended, and there are descriptors for a file; for five seconds only, where the thread
    /// has no transfer that could end. Any thread.
    ///
    /// - Parameters:
    ///   - isWanted: whether the wait goes on. Asked several times a second, on the network thread.
    ///   - then: called once, on the network thread, or at once where that has no descriptors itself.
    package func awaitDescriptors(
        while isWanted: @escaping @Sendable () -> Bool, then: @escaping @Sendable () -> Void
    ) {
        let isPerformed = perform {
            guard let multi = self.multi else { return then() }
            multi.descriptorQueue.append(FileWaiter(since: multi.runLoop.turnTime, while: isWanted, then: then))
        }
        if !isPerformed { then() }
    }
}

/// A queue of transfers for whose connections the system had no file descriptor left (`EMFILE`, `ENFILE`). They wait
/// for others to finish, where libcurl would let them fail.
///
/// Belongs to the network thread.
final class DescriptorQueue {
    private var waiting: [any DescriptorWaiter] = []
    /// What waits until there are descriptors for files, behind the transfers.
    private var files: [FileWaiter] = []
    private var timer: RunLoopTimer?
    private unowned let multi: MultiHandle

    /// How often to try again, besides after each end of a transfer: descriptors may be freed elsewhere. libcurl also
    /// closes idle connections, but checks for them at most once a second.
    private static let interval: MonotonicTime = 250_000_000
    /// How long a transfer waits if no other one on the thread could free its descriptor.
    private static let patience: MonotonicTime = 5_000_000_000

    init(multi: MultiHandle) { self.multi = multi }

    var isEmpty: Bool { waiting.isEmpty && files.isEmpty }

    func append(_ waiter: any DescriptorWaiter) {
        waiting.append(waiter)
        startTimer()
    }

    func append(_ waiter: FileWaiter) {
        files.append(waiter)
        startTimer()
    }

    private func startTimer() {
        let timer =
            self.timer
            ?? RunLoopTimer { [unowned self] in
                goOn(with: 1)
            }
        self.timer = timer
        if !timer.isScheduled { multi.runLoop.schedule(timer, at: multi.runLoop.turnTime + Self.interval) }
    }

    func remove(_ waiter: any DescriptorWaiter) { waiting.removeAll { $0 === waiter } }

    func removeAll() {
        waiting = []
        let files = self.files
        self.files = []
        for waiter in files { waiter.goOn() }
        if let timer { multi.runLoop.cancel(timer) }
    }

    /// Lets up to `count` waiting transfers try again.
    func goOn(with count: Int) {
        guard !isEmpty else { return }
        let next = Array(waiting.prefix(max(1, count)))
        waiting.removeFirst(next.count)
        let ready = next.isEmpty ? takeReadyFiles() : []
        if !isEmpty, let timer, !timer.isScheduled {
            multi.runLoop.schedule(timer, at: multi.runLoop.turnTime + Self.interval)
        }
        for waiter in next { waiter.tryAgainForDescriptor() }
        for waiter in ready { waiter.goOn() }
    }

    /// The first of those that wait for a file's descriptor, if there is one, and all that need not wait any more.
    private func takeReadyFiles() -> [FileWaiter] {
        var ready = files.filter { !$0.isWanted() || !mayWait(since: $0.began) }
        if ready.isEmpty, let first = files.first, !Self.isScarce { ready = [first] }
        files.removeAll { waiter in ready.contains { $0 === waiter } }
        return ready
    }

    /// Whether what is left of the process's descriptors is for connections: files that are held open by transfers which
    /// find none for their connections would never be closed. The lowest free number is the next one, so it says how many
    /// are taken.
    static var isScarce: Bool {
        let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return meansShortage(errno) }
        close(descriptor)
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return false }
        return rlim_t(descriptor) + min(32, limit.rlim_cur / 4) > limit.rlim_cur
    }

    /// Whether the system has no or hardly any descriptors left now: a connection may need several.
    static var isSystemShort: Bool {
        var taken: [Int32] = []
        defer { for descriptor in taken { close(descriptor) } }
        for _ in 0..<4 {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return Self.meansShortage(errno) }
            taken.append(descriptor)
        }
        return false
    }

    static func meansShortage(_ error: Int32) -> Bool {
        error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM
    }

    /// Whether a transfer that has waited since a time may keep waiting.
    func mayWait(since: MonotonicTime) -> Bool {
        !multi.isIdle || multi.runLoop.turnTime < since + Self.patience
    }
}
