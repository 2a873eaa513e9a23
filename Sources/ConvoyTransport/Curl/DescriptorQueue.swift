import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The process's limit on open file descriptors.
package enum DescriptorLimit {
    /// Raises the soft limit to the hard limit, once, when the first network thread starts. Go's runtime does the same:
    /// the soft limit, usually 1,024, exists only for programs that call `select(2)`. Convoy starts no programs to which
    /// the lower limit would have to be restored.
    package static let raise: Void = {
        guard var limit = current else { return }
        // More descriptors would be useless, and some systems have a hard limit of a billion.
        let wanted = min(limit.rlim_max, 65_536)
        guard limit.rlim_cur < wanted else { return }
        limit.rlim_cur = wanted
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }()

    /// The soft limit; nil if it cannot be determined.
    static var soft: Int? { current.map { Int(clamping: $0.rlim_cur) } }

    private static var current: rlimit? {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? limit : nil
    }

    /// The number of the last descriptors that connections leave for files, and files for connections. Transfers that
    /// hold all descriptors of one kind, and wait for the other, would never end.
    fileprivate static func share(of limit: Int) -> Int { min(32, limit / 8) }

    /// Whether a connection must not use a descriptor, because it is among the last of the process.
    static func isForFiles(_ descriptor: Int32) -> Bool {
        soft.map { Int(descriptor) + share(of: $0) >= $0 } ?? false
    }

    static func meansShortage(_ error: Int32) -> Bool {
        error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM
    }

    /// Whether the system has almost no free descriptors; a connection may need several.
    static var isSystemShort: Bool {
        var taken: [Int32] = []
        defer { for descriptor in taken { close(descriptor) } }
        for _ in 0..<4 {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return meansShortage(errno) }
            taken.append(descriptor)
        }
        return false
    }

    // MARK: Files

    /// The number of descriptors of files that are being opened.
    private static let opening = Atomic<Int>(0)
    /// The number of free descriptors from which files may be opened as late as possible.
    private static let ample = 512

    /// Opens files, unless the remaining descriptors are reserved for connections.
    ///
    /// - Parameters:
    ///   - count: The number of descriptors that the files need.
    ///   - wait: The wait after which the files are opened, if any.
    ///   - shortage: The error to throw if no descriptor is available.
    ///   - body: Opens the files, given whether so many descriptors are free that files may be opened later.
    package static func openFiles<Value, Failure: Error>(
        _ count: Int, after wait: DescriptorWait?, else shortage: @autoclosure () -> Failure,
        _ body: (_ isAmple: Bool) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let others = opening.add(count, ordering: .relaxed).newValue
        defer { opening.subtract(count, ordering: .relaxed) }
        // The lowest unused descriptor indicates how many descriptors are in use.
        let lowest = open("/dev/null", O_RDONLY | O_CLOEXEC)
        if lowest >= 0 { close(lowest) }
        guard lowest >= 0 || !meansShortage(errno), let limit = soft else {
            if wait?.usesReserve == true || soft == nil { return try body(false) }
            throw shortage()
        }
        let free = limit - Int(lowest) - others - share(of: limit)
        guard free >= 0 || wait?.usesReserve == true else { throw shortage() }
        return try body(free >= ample)
    }
}

/// A wait for a file descriptor that has ended.
package struct DescriptorWait: Sendable {
    /// The time at which the wait began.
    fileprivate let since: MonotonicTime
    /// Whether waiting again would have no effect.
    package let isLast: Bool
    /// Whether the descriptors reserved for connections may be used, because no connection needs them.
    fileprivate let usesReserve: Bool

    fileprivate init(since: MonotonicTime, isLast: Bool, usesReserve: Bool) {
        self.since = since
        self.isLast = isLast
        self.usesReserve = usesReserve
    }

    /// The end of a wait where nothing can be awaited.
    package static let impossible = DescriptorWait(since: 0, isLast: true, usesReserve: true)
}

extension NetworkThread {
    /// Waits until a transfer has ended, so that descriptors for files may be available. Gives up after five seconds in
    /// which no transfer could end. Can be called from any thread.
    ///
    /// - Parameters:
    ///   - earlier: An earlier wait after which a file could not be opened.
    ///   - isWanted: Whether to keep waiting. Called several times per second on the network thread.
    ///   - then: Called once on the network thread, or immediately if that thread has no descriptors itself.
    package func awaitDescriptors(
        after earlier: DescriptorWait?, while isWanted: @escaping @Sendable () -> Bool,
        then: @escaping @Sendable (DescriptorWait) -> Void
    ) {
        let isPerformed = perform {
            guard let multi = self.multi else { return then(.impossible) }
            multi.descriptorQueue.append(
                DescriptorQueue.File(since: earlier?.since ?? multi.runLoop.turnTime, isWanted: isWanted, goOn: then))
        }
        if !isPerformed { then(.impossible) }
    }
}

extension URLError {
    /// Whether a file could not be opened for lack of a descriptor.
    package var lacksDescriptor: Bool {
        (userInfo[NSUnderlyingErrorKey] as? POSIXError).map { SystemError(code: $0.code.rawValue).lacksDescriptor } ?? false
    }

    /// Creates the error for a file that is not opened, because the remaining descriptors are reserved.
    package init(lackingDescriptorFor url: URL?) {
        self.init(.cannotWriteToFile, url: url, "\(POSIXError(.EMFILE))", underlying: POSIXError(.EMFILE))
    }
}

/// A transfer that is waiting for a file descriptor for its connection.
protocol DescriptorWaiter: AnyObject {
    /// The time at which the transfer began to wait.
    var waitsForDescriptorSince: MonotonicTime { get }
    /// Called when a descriptor may be available.
    func tryAgainForDescriptor()
}

/// A queue of transfers and files for which no file descriptor was available (`EMFILE`, `ENFILE`). They wait for other
/// transfers to finish; libcurl alone would let its transfers fail.
///
/// Used on the network thread only.
final class DescriptorQueue {
    struct File {
        let since: MonotonicTime
        let isWanted: @Sendable () -> Bool
        let goOn: @Sendable (DescriptorWait) -> Void
    }

    private var transfers: [any DescriptorWaiter] = []
    private var files: [File] = []
    private var isTurnOfFiles = false
    private var timer: RunLoopTimer?
    /// The last time at which a transfer that had its descriptors ended, or could have.
    private var lastProgress: MonotonicTime = 0
    private unowned let multi: MultiHandle

    /// The retry interval, in addition to retrying after each finished transfer, because descriptors may be freed
    /// elsewhere. libcurl also closes idle connections, but checks for them at most once per second.
    private static let interval: MonotonicTime = 250_000_000
    /// The maximum waiting time if no transfer on the thread can end.
    private static let patience: MonotonicTime = 5_000_000_000

    init(multi: MultiHandle) { self.multi = multi }

    var isEmpty: Bool { transfers.isEmpty && files.isEmpty }

    func append(_ transfer: any DescriptorWaiter) {
        transfers.append(transfer)
        startTimer()
    }

    func append(_ file: File) {
        files.append(file)
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
    func noteEnd() { lastProgress = multi.runLoop.turnTime }

    func remove(_ transfer: any DescriptorWaiter) { transfers.removeAll { $0 === transfer } }

    func removeAll() {
        transfers = []
        let files = self.files
        self.files = []
        for file in files { file.goOn(.impossible) }
        if let timer { multi.runLoop.cancel(timer) }
    }

    /// Lets the first waiting transfer retry, or the first waiting file, or more of them if several transfers have ended.
    ///
    /// The two kinds take turns: a file may belong to a transfer that holds a connection, and a transfer may hold files.
    /// They do not retry at once, because each looks for free descriptors by opening some.
    func goOn(with count: Int) {
        guard !isEmpty else { return }
        if multi.canTransferEnd { noteEnd() }
        isTurnOfFiles = transfers.isEmpty || !isTurnOfFiles && !files.isEmpty
        var next: [any DescriptorWaiter] = []
        var ready: [(File, DescriptorWait)] = []
        if isTurnOfFiles {
            ready = takeReadyFiles(atMost: max(1, count))
        } else {
            // Let all transfers that have exceeded their waiting time end together, not one after the other.
            let isOver = transfers.first.map { !mayWait(since: $0.waitsForDescriptorSince) } ?? false
            next = Array(transfers.prefix(isOver ? transfers.count : max(1, count)))
            transfers.removeFirst(next.count)
        }
        if !isEmpty { startTimer() }
        for transfer in next { transfer.tryAgainForDescriptor() }
        for (file, wait) in ready { file.goOn(wait) }
    }

    /// Removes and returns the first files, and all files that need not wait any longer.
    private func takeReadyFiles(atMost most: Int) -> [(File, DescriptorWait)] {
        var ready: [(File, DescriptorWait)] = []
        var granted = 0
        files.removeAll { file in
            let isLast = !file.isWanted() || !mayWait(since: file.since)
            guard isLast || granted < most else { return false }
            // If nothing is running or waiting for a connection, one file may use the descriptors reserved for these.
            let usesReserve = isLast || multi.isIdle && transfers.isEmpty && granted == 0
            if !isLast { granted += 1 }
            ready.append((file, DescriptorWait(since: file.since, isLast: isLast, usesReserve: usesReserve)))
            return true
        }
        return ready
    }

    /// Returns whether a transfer or file that has been waiting since the given time may keep waiting.
    func mayWait(since: MonotonicTime) -> Bool { multi.runLoop.turnTime < max(since, lastProgress) + Self.patience }
}
