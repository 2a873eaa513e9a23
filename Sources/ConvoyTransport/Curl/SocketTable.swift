import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

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
        /// Whether it is an idle connection of HTTP/1.
        var isAtRest = false
        /// Whether its transfer is paused until the next turn, so that its events are ignored.
        var isResting = false
        /// The other end's port, if it was opened here.
        var port = 0
    }

    private let runLoop: NetworkRunLoop
    @exclusivity(unchecked) private var entries: [Entry] = []
    /// How many sockets are open that were opened here.
    @exclusivity(unchecked) private var ownCount = 0
    /// How often a socket could not be opened for lack of a descriptor.
    @exclusivity(unchecked) private(set) var shortages = 0
    /// When an idle connection was last found to be dead, by the other end's port.
    @exclusivity(unchecked) private var losses: [Int: MonotonicTime] = [:]
    /// Handles that were refused a socket, and have not tried another address yet.
    @exclusivity(unchecked) var stalled: [EasyHandle] = []

    init(runLoop: NetworkRunLoop) { self.runLoop = runLoop }

    /// Makes connections of this handle close their sockets here. A connection may outlive the handle, but not the table.
    func adopt(_ easy: UnsafeMutableRawPointer) -> CURLcode {
        let context = Unmanaged.passUnretained(self).toOpaque()
        let code = convoy_easy_set_pointer(easy, CURLOPT_CLOSESOCKETDATA, context)
        guard code == CURLE_OK else { return code }
        return convoy_easy_set_close_socket_callback(easy) { context, socket in
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
        // The last ones are for what is open for a moment only: a directory, the journal of a file.
        if ownCount > 0, DescriptorQueue.isAmongLast(descriptor) {
            close(descriptor)
            shortages += 1
            return CURL_SOCKET_BAD
        }
        grow(to: descriptor)
        let hasPort = address.family == AF_INET || address.family == AF_INET6
        let digits = address.addr.sa_data
        let port = hasPort ? Int(UInt8(bitPattern: digits.0)) << 8 | Int(UInt8(bitPattern: digits.1)) : 0
        entries[Int(descriptor)] = Entry(isOwn: true, port: port)
        ownCount += 1
        return descriptor
    }

    /// Whether a connection to a port has died within the time in which libcurl may not have asked whether it is alive.
    func hasLostConnection(to port: Int) -> Bool {
        losses[port].map { runLoop.turnTime &- $0 < 1_100_000_000 } ?? false
    }

    @discardableResult func closeSocket(_ descriptor: curl_socket_t) -> Int32 {
        drop(descriptor)
        if Int(descriptor) < entries.count {
            if entries[Int(descriptor)].isOwn { ownCount -= 1 }
            entries[Int(descriptor)] = Entry()
        }
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
            // There is no memory to watch it: the transfer will time out.
            entries[Int(descriptor)].registered = []
        }
    }

    func isWatched(_ descriptor: Int32) -> Bool {
        Int(descriptor) < entries.count && entries[Int(descriptor)].isWanted
    }

    /// Ignores the events of a socket whose transfer is paused for a turn, or no longer.
    func setResting(_ descriptor: Int32, _ isResting: Bool) {
        if descriptor >= 0, Int(descriptor) < entries.count { entries[Int(descriptor)].isResting = isResting }
    }

    /// Notes that the transfer of a connection of HTTP/1 has ended, and watches for what may come unasked.
    ///
    /// - Parameter hasUnreadBytes: whether more than its response has been received.
    func noteRest(of descriptor: curl_socket_t, hasUnreadBytes: Bool, handler: any FileEventHandler) {
        // libcurl may have closed it already, if the response was incomplete.
        guard descriptor >= 0, Int(descriptor) < entries.count, entries[Int(descriptor)].isOwn,
            !entries[Int(descriptor)].isWanted
        else { return }
        if hasUnreadBytes { return abandon(descriptor) }
        if entries[Int(descriptor)].registered != .readable {
            // The transfer had to wait for nothing, so that libcurl did not ask for it.
            watch(descriptor, for: .readable, handler: handler)
            entries[Int(descriptor)].isWanted = false
        }
        entries[Int(descriptor)].isAtRest = true
    }

    /// Makes libcurl see that a connection is dead: over TLS, it takes one with unread bytes for alive.
    private func abandon(_ descriptor: curl_socket_t) {
        shutdown(descriptor, Int32(SHUT_RDWR))
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        for _ in 0..<64 { guard recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT)) > 0 else { break } }
    }

    /// Handles a socket that has become ready without being wanted by libcurl.
    ///
    /// - Parameter mayBeInUse: whether a transfer may be using its connection.
    func noteUnwanted(_ descriptor: Int32, mayBeInUse: @autoclosure () -> Bool) {
        if Int(descriptor) < entries.count, entries[Int(descriptor)].isResting { return }
        drop(descriptor)
        guard !mayBeInUse(), Int(descriptor) < entries.count, entries[Int(descriptor)].isAtRest,
            entries[Int(descriptor)].isOwn
        else { return }
        if losses.count > 64 { losses = [:] }
        losses[entries[Int(descriptor)].port] = runLoop.turnTime
        // An unsolicited response would be taken for the response to the next request (RFC 9112, section 9.2). libcurl
        // 7.88 does not check for it, but does not use a connection that is shut down. Over TLS it may be a message of TLS,
        // which is rare between two requests.
        var byte: UInt8 = 0
        if recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0 { abandon(descriptor) }
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
    /// When it began to wait.
    var waitsForDescriptorSince: MonotonicTime { get }
    /// Called when there may be a descriptor.
    func tryAgainForDescriptor()
}

/// Descriptors that files are about to take. They count as taken until they are, so that files that are opened at the same
/// time do not count on the same ones.
package final class DescriptorClaim: Sendable {
    private static let claimed = Atomic<Int>(0)
    /// How many are claimed.
    static var total: Int { claimed.load(ordering: .relaxed) }

    private let count: Int
    /// When they were asked for first; nil where they were there at once.
    let since: MonotonicTime?
    /// Whether waiting again would be in vain.
    package let isLast: Bool

    package init(_ count: Int, since: MonotonicTime? = nil, isLast: Bool = false) {
        (self.count, self.since, self.isLast) = (count, since, isLast)
        Self.claimed.add(count, ordering: .relaxed)
    }

    deinit { Self.claimed.subtract(count, ordering: .relaxed) }
}

/// Waits for the descriptors of files.
final class FileWaiter {
    let count: Int
    let began: MonotonicTime
    let isWanted: @Sendable () -> Bool
    let goOn: @Sendable (DescriptorClaim) -> Void

    init(
        _ count: Int, since began: MonotonicTime, while isWanted: @escaping @Sendable () -> Bool,
        then goOn: @escaping @Sendable (DescriptorClaim) -> Void
    ) {
        (self.count, self.began, self.isWanted, self.goOn) = (count, began, isWanted, goOn)
    }
}

extension NetworkThread {
    /// Claims descriptors for files that are opened while the claim is held; nil where those that are left are for
    /// connections. See ``awaitDescriptors(_:after:while:then:)``.
    package static func claimDescriptors(_ count: Int) -> DescriptorClaim? {
        let claim = DescriptorClaim(count)
        return DescriptorQueue.isPlenty || !DescriptorQueue.isScarce ? claim : nil
    }

    /// Whether there are so many descriptors that a claim may be held until there is something to write.
    package static var hasAmpleDescriptors: Bool { DescriptorQueue.isAmple.load(ordering: .relaxed) }

    /// Waits until other transfers have ended, and there are descriptors for files; for five seconds only, where the thread
    /// has no transfer that could end. Any thread.
    ///
    /// - Parameters:
    ///   - claim: an earlier claim, with which a file could not be opened.
    ///   - isWanted: whether the wait goes on. Asked several times a second, on the network thread.
    ///   - then: called once, on the network thread, or at once where that has no descriptors itself.
    package func awaitDescriptors(
        _ count: Int, after claim: DescriptorClaim?, while isWanted: @escaping @Sendable () -> Bool,
        then: @escaping @Sendable (DescriptorClaim) -> Void
    ) {
        let since = claim?.since
        let isPerformed = perform {
            guard let multi = self.multi else { return then(DescriptorClaim(count, isLast: true)) }
            let began = since ?? multi.runLoop.turnTime
            multi.descriptorQueue.append(FileWaiter(count, since: began, while: isWanted, then: then))
        }
        if !isPerformed { then(DescriptorClaim(count, isLast: true)) }
    }
}

extension URLError {
    /// Whether a file could not be opened for lack of a descriptor.
    package var lacksDescriptor: Bool {
        (userInfo[NSUnderlyingErrorKey] as? POSIXError).map { SystemError(code: $0.code.rawValue).lacksDescriptor } ?? false
    }
}

/// A queue of transfers for whose connections the system had no file descriptor left (`EMFILE`, `ENFILE`). They wait
/// for others to finish; libcurl alone would let them fail.
///
/// Belongs to the network thread.
final class DescriptorQueue {
    private var waiting: [any DescriptorWaiter] = []
    /// Files that wait for a descriptor, after the transfers.
    private var files: [FileWaiter] = []
    private var timer: RunLoopTimer?
    /// When the last transfer that had its descriptors ended.
    private var lastEnd: MonotonicTime = 0
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
                goOn(with: 0)
            }
        self.timer = timer
        if !timer.isScheduled { multi.runLoop.schedule(timer, at: multi.runLoop.turnTime + Self.interval) }
    }

    /// A transfer has ended that had its descriptors.
    func noteEnd() { lastEnd = multi.runLoop.turnTime }

    func remove(_ waiter: any DescriptorWaiter) { waiting.removeAll { $0 === waiter } }

    func removeAll() {
        waiting = []
        let files = self.files
        self.files = []
        for waiter in files { waiter.goOn(DescriptorClaim(0, isLast: true)) }
        if let timer { multi.runLoop.cancel(timer) }
    }

    /// Lets one of those that wait try again, or more after the ends of so many transfers.
    func goOn(with count: Int) {
        guard !isEmpty else { return }
        // All that have waited in vain end together, and not one after the other.
        let isOver = waiting.first.map { !mayWait(since: $0.waitsForDescriptorSince) } ?? false
        let next = Array(waiting.prefix(isOver ? waiting.count : max(1, count)))
        waiting.removeFirst(next.count)
        let ready = next.isEmpty ? takeReadyFiles(atMost: max(1, count)) : []
        if !isEmpty, let timer, !timer.isScheduled {
            multi.runLoop.schedule(timer, at: multi.runLoop.turnTime + Self.interval)
        }
        for waiter in next { waiter.tryAgainForDescriptor() }
        for (waiter, claim) in ready { waiter.goOn(claim) }
    }

    /// The first of those that wait for descriptors of files, as far as there are some, and all that need not wait any more.
    private func takeReadyFiles(atMost most: Int) -> [(FileWaiter, DescriptorClaim)] {
        var ready: [(FileWaiter, DescriptorClaim)] = []
        var (granted, isOver) = (0, false)
        files.removeAll { waiter in
            guard waiter.isWanted() else {
                ready.append((waiter, DescriptorClaim(0, isLast: true)))
                return true
            }
            // How many descriptors are free is an estimate: one that has tried in vain must not try for ever.
            guard mayWait(since: waiter.began) else {
                ready.append((waiter, DescriptorClaim(0, isLast: true)))
                return true
            }
            guard !isOver, granted < most else { return false }
            // Where nothing is under way, those that are left for connections may do for one at a time.
            let isAlone = multi.isIdle && DescriptorClaim.total == 0
            let claim = DescriptorClaim(waiter.count, since: waiter.began)
            if Self.isScarce { isOver = !isAlone }
            guard !isOver else { return false }
            ready.append((waiter, claim))
            granted += 1
            return true
        }
        return ready
    }

    /// Whether the remaining descriptors of the process are reserved for connections: transfers that hold files open,
    /// but find no descriptor for their connections, would never close them. The lowest free number shows how many are
    /// in use.
    static var isScarce: Bool {
        let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return meansShortage(errno) }
        close(descriptor)
        guard let limit else { return false }
        let rest = limit - (Int(descriptor) + DescriptorClaim.total + min(32, limit / 4))
        examinedLimit.store(limit, ordering: .relaxed)
        unexamined.store(min(64, max(0, rest / 16)), ordering: .relaxed)
        isAmple.store(rest >= 64, ordering: .relaxed)
        return rest < 0
    }

    /// How many claims may follow on the last look at what is left: so few that they take an eighth of it at most.
    private static let unexamined = Atomic<Int>(0)
    /// Whether there were so many at the last look that claims may be held for long.
    static let isAmple = Atomic<Bool>(false)
    /// How many the process might have then.
    private static let examinedLimit = Atomic<Int>(0)

    /// Whether there were so many descriptors a moment ago that it need not be looked again for a claim.
    static var isPlenty: Bool {
        unexamined.load(ordering: .relaxed) > 0 && limit == examinedLimit.load(ordering: .relaxed)
            && unexamined.subtract(1, ordering: .relaxed).oldValue > 0
    }

    /// Whether a descriptor is one of the last that the process may have, beside those that files are about to take: their
    /// transfers would hold the others, and wait for these.
    static func isAmongLast(_ descriptor: Int32) -> Bool {
        guard let limit else { return false }
        return Int(descriptor) + DescriptorClaim.total + min(8, limit / 8) >= limit
    }

    /// How many descriptors the process may have; nil if the system does not tell.
    private static var limit: Int? {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return Int(clamping: limit.rlim_cur)
    }

    /// Whether the system has almost no descriptors left: a connection may need several.
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
        !multi.isIdle || multi.runLoop.turnTime < max(since, lastEnd) + Self.patience
    }
}
