import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

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
