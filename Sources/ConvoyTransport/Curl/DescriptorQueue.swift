import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// A transfer that is waiting for a file descriptor for its connection.
protocol DescriptorWaiter: AnyObject {
    /// The time at which the transfer began to wait.
    var waitsForDescriptorSince: MonotonicTime { get }
    /// Called when a descriptor may be available.
    func tryAgainForDescriptor()
}

/// A claim on descriptors for files that are about to be opened. The descriptors count as used until then, so that
/// files opened at the same time do not rely on the same descriptors.
package final class DescriptorClaim: Sendable {
    private static let claimed = Atomic<Int>(0)
    /// The number of claimed descriptors.
    static var total: Int { claimed.load(ordering: .relaxed) }

    private let count: Int
    /// The time of the first request for the descriptors; nil if they were available immediately.
    let since: MonotonicTime?
    /// Whether waiting again would have no effect.
    package let isLast: Bool

    package init(_ count: Int, since: MonotonicTime? = nil, isLast: Bool = false) {
        (self.count, self.since, self.isLast) = (count, since, isLast)
        Self.claimed.add(count, ordering: .relaxed)
    }

    deinit { Self.claimed.subtract(count, ordering: .relaxed) }
}

/// A pending request for file descriptors.
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
    /// Claims descriptors for files that are opened while the claim is held. Returns nil if the remaining descriptors
    /// are reserved for connections. See ``awaitDescriptors(_:after:while:then:)``.
    package static func claimDescriptors(_ count: Int) -> DescriptorClaim? {
        let claim = DescriptorClaim(count)
        return DescriptorQueue.isPlenty || !DescriptorQueue.isScarce ? claim : nil
    }

    /// Whether so many descriptors are available that a claim may be held until data is available to write.
    package static var hasAmpleDescriptors: Bool { DescriptorQueue.isAmple.load(ordering: .relaxed) }

    /// Waits until other transfers have ended and descriptors are available for files. Waits only five seconds if the
    /// thread has no transfer that could end. Can be called from any thread.
    ///
    /// - Parameters:
    ///   - claim: An earlier claim with which a file could not be opened.
    ///   - isWanted: Whether to keep waiting. Called several times per second on the network thread.
    ///   - then: Called once on the network thread, or immediately if that thread has no descriptors itself.
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

/// A queue of transfers for whose connections no file descriptor was available (`EMFILE`, `ENFILE`). They wait for
/// other transfers to finish; libcurl alone would let them fail.
///
/// Used on the network thread only.
final class DescriptorQueue {
    private var waiting: [any DescriptorWaiter] = []
    /// The requests for file descriptors, which are served after the transfers.
    private var files: [FileWaiter] = []
    private var timer: RunLoopTimer?
    /// The time at which the last transfer that had its descriptors ended.
    private var lastEnd: MonotonicTime = 0
    private unowned let multi: MultiHandle

    /// The retry interval, in addition to retrying after each finished transfer, because descriptors may be freed
    /// elsewhere. libcurl also closes idle connections, but checks for them at most once per second.
    private static let interval: MonotonicTime = 250_000_000
    /// The time for which a transfer waits for a descriptor if no other transfer on the thread can free one.
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

    /// Records the end of a transfer that had its descriptors.
    func noteEnd() { lastEnd = multi.runLoop.turnTime }

    func remove(_ waiter: any DescriptorWaiter) { waiting.removeAll { $0 === waiter } }

    func removeAll() {
        waiting = []
        let files = self.files
        self.files = []
        for waiter in files { waiter.goOn(DescriptorClaim(0, isLast: true)) }
        if let timer { multi.runLoop.cancel(timer) }
    }

    /// Lets the first waiting transfer retry, or more of them if several transfers have ended.
    func goOn(with count: Int) {
        guard !isEmpty else { return }
        // Let all transfers that have exceeded their waiting time end together, not one after the other.
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

    /// Removes and returns the waiting file requests for which descriptors are available, and all that need not wait
    /// any longer.
    private func takeReadyFiles(atMost most: Int) -> [(FileWaiter, DescriptorClaim)] {
        var ready: [(FileWaiter, DescriptorClaim)] = []
        var (granted, isOver) = (0, false)
        files.removeAll { waiter in
            guard waiter.isWanted() else {
                ready.append((waiter, DescriptorClaim(0, isLast: true)))
                return true
            }
            // The number of free descriptors is an estimate. A request that keeps failing must not retry forever.
            guard mayWait(since: waiter.began) else {
                ready.append((waiter, DescriptorClaim(0, isLast: true)))
                return true
            }
            guard !isOver, granted < most else { return false }
            // If nothing is running, the descriptors reserved for connections may be used for a single file request.
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

    /// Whether the remaining descriptors of the process are reserved for connections. Transfers that hold files open
    /// but find no descriptors for their connections would never close those files. The lowest unused descriptor number
    /// indicates how many descriptors are in use.
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

    /// The number of claims that may be granted before the next check. Together they use at most an eighth of the free
    /// descriptors.
    private static let unexamined = Atomic<Int>(0)
    /// Whether the last check found so many free descriptors that claims may be held for a long time.
    static let isAmple = Atomic<Bool>(false)
    /// The descriptor limit at the last check.
    private static let examinedLimit = Atomic<Int>(0)

    /// Whether the last check found so many free descriptors that a claim does not require another check.
    static var isPlenty: Bool {
        unexamined.load(ordering: .relaxed) > 0 && limit == examinedLimit.load(ordering: .relaxed)
            && unexamined.subtract(1, ordering: .relaxed).oldValue > 0
    }

    /// Returns whether a descriptor is among the last that the process can open, in addition to those claimed for
    /// files. Otherwise, transfers could hold all other descriptors while waiting for these.
    static func isAmongLast(_ descriptor: Int32) -> Bool {
        guard let limit else { return false }
        return Int(descriptor) + DescriptorClaim.total + min(8, limit / 8) >= limit
    }

    /// The process's descriptor limit; nil if it cannot be determined.
    private static var limit: Int? {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return Int(clamping: limit.rlim_cur)
    }

    /// Whether the system has almost no free descriptors; a connection may need several.
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

    /// Returns whether a transfer that has been waiting since the given time may keep waiting.
    func mayWait(since: MonotonicTime) -> Bool {
        !multi.isIdle || multi.runLoop.turnTime < max(since, lastEnd) + Self.patience
    }
}
