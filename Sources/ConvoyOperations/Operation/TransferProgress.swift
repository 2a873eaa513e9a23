import ConvoySupport
import Foundation
import Synchronization

/// The progress of an operation's transfer: a snapshot.
public struct TransferProgress: Sendable, Hashable {
    /// Bytes of the response's body that have arrived; after a pause, including those that were kept.
    public var bytesReceived: Int64 = 0
    /// How many bytes will arrive; nil while unknown: before the head of the response, and for a body without a length
    /// or with an encoding. After a success, how many have arrived.
    public var bytesExpectedToReceive: Int64?
    /// Bytes of the request's body that were sent, in the current or the last attempt.
    public var bytesSent: Int64 = 0
    /// How many bytes will be sent; nil before the first was sent, and for a body without a length.
    public var bytesExpectedToSend: Int64?

    /// The share of the bytes that are expected, both ways, from 0 to 1; nil while no number is known. It decreases
    /// when the head of a response to an upload announces a body, or when a transfer starts over.
    public var fractionCompleted: Double? {
        guard bytesExpectedToReceive != nil || bytesExpectedToSend != nil else { return nil }
        var (done, expected) = (0.0, 0.0)
        for case (let bytes, let total?) in [(bytesReceived, bytesExpectedToReceive), (bytesSent, bytesExpectedToSend)] {
            done += Double(bytes)
            expected += Double(total)
        }
        return expected > 0 ? min(1, done / expected) : 1
    }

    /// Nothing has moved yet.
    init() {}
}

/// The progress of the transfer as values.
extension URLConnectionOperation {
    /// The progress of the transfer, before, during and after it, from any thread.
    public final var transferProgress: TransferProgress {
        core.withLock { core in
            if let attempt = core.attempt { return attempt.progress }
            if let kept = core.keptProgress { return kept }
            var progress = TransferProgress()
            if core.isFinished, let count = core.data?.count {
                progress.bytesReceived = Int64(count)
                progress.bytesExpectedToReceive = Int64(count)
            }
            return progress
        }
    }

    /// The progress of the transfer: first the current one, last the one at the end of the operation; then the sequence
    /// ends. Iterate over it once; each access makes a new one.
    ///
    /// ```swift
    /// for await progress in operation.transferProgressUpdates { print(progress.fractionCompleted ?? 0) }
    /// ```
    ///
    /// A slow reader misses intermediate values, but never the last one. It does not start the operation: where nothing has
    /// enqueued or started it after five seconds, a line on standard error says so, once in a process.
    public final var transferProgressUpdates: AsyncStream<TransferProgress> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: TransferProgress.self, bufferingPolicy: .bufferingNewest(1))
        let end = followProgress(
            ProgressFollower(move: { continuation.yield($0) }, end: { continuation.finish() }))
        let isOver = Locked(false)
        continuation.onTermination = { _ in
            isOver.withLock { $0 = true }
            end()
        }
        if isUnclaimed {
            UsageWarning.unstarted.watch { [weak self] in self?.isUnclaimed == true && !isOver.withLock { $0 } }
        }
        return stream
    }

    /// Adds a follower of the progress: called first with the current one, last with the one at the end.
    ///
    /// - Returns: a closure that ends this earlier.
    final func followProgress(_ follower: ProgressFollower) -> @Sendable () -> Void {
        flags.insert(.progress)
        return progressReport.follow(self, with: follower)
    }

    /// Calls a handler whenever more bytes of a body in memory have come, on the network thread, which it must not hold
    /// up. It may ask for all bytes so far. Replaces an earlier handler.
    package final func followBody(_ handler: @escaping @Sendable (_ body: () -> Data) -> Void) {
        flags.insert(.progress)
        progressReport.followBody(with: handler)
    }
}

extension TransferProgress {
    /// Called with the progress, when bytes have moved and the queue of the operation's handlers has time.
    public typealias Handler = @Sendable (TransferProgress) -> Void

    /// What an awaited call reports its progress to. It is no closure, so that a closure behind a call is `success`, or the
    /// parts of a form, however many parameters it has.
    ///
    /// ```swift
    /// let film: Data = try await manager.get("film", progress: .to { print($0.fractionCompleted ?? 0) })
    /// ```
    public struct Report: Sendable {
        let handler: Handler

        /// Calls a handler on the operation's `completionQueue`, each time when bytes have moved and the queue has time for
        /// it.
        public static func to(_ handler: @escaping Handler) -> Report { Report(handler: handler) }
    }
}

extension HTTPRequestOperation {
    /// Reports the progress in both directions to a handler from now on, if there is one. Returns the operation.
    @discardableResult
    package final func reporting(to handler: TransferProgress.Handler?) -> Self {
        report(handler, handler)
        return self
    }

    /// The same with what an awaited call was given.
    @discardableResult
    package final func reporting(to report: TransferProgress.Report?) -> Self { reporting(to: report?.handler) }

    /// Reports the progress of uploading to one handler, and of downloading to another, if there are any.
    package final func report(_ upload: TransferProgress.Handler?, _ download: TransferProgress.Handler?) {
        func telling(_ handler: @escaping TransferProgress.Handler) -> ProgressHandler {
            { [weak self] _, _, _ in
                if let progress = self?.transferProgress { handler(progress) }
            }
        }
        if let upload { uploadProgressHandler = telling(upload) }
        if let download { downloadProgressHandler = telling(download) }
    }
}

/// Receives the progress of a transfer. Both closures are called on any thread, and must be short.
struct ProgressFollower: Sendable {
    /// Called when bytes have moved.
    let move: @Sendable (TransferProgress) -> Void
    /// Called at the end.
    let end: @Sendable () -> Void
}

/// The progress of several transfers, in bytes.
extension TransferProgress {
    /// The sum of the progress of operations. The number of expected bytes is known when it is known for each; an
    /// operation that has failed or was cancelled expects no more than it has.
    public static func sum(of operations: some Sequence<URLConnectionOperation>) -> TransferProgress {
        var sum = TransferProgress()
        var expected: Int64? = 0
        var expectedToSend: Int64 = 0
        for operation in operations {
            let isFinished = operation.isFinished
            let one = operation.transferProgress
            sum.bytesReceived = sum.bytesReceived.adding(one.bytesReceived)
            sum.bytesSent = sum.bytesSent.adding(one.bytesSent)
            let own = isFinished ? one.bytesReceived : one.bytesExpectedToReceive
            expected = own.flatMap { own in expected.map { $0.adding(own) } }
            expectedToSend = expectedToSend.adding(one.bytesExpectedToSend ?? one.bytesSent)
        }
        sum.bytesExpectedToReceive = expected
        if expectedToSend > 0 { sum.bytesExpectedToSend = expectedToSend }
        return sum
    }

    /// Reads a progress ten times a second until the end: first the current one, last the final one.
    static func updates(
        of progress: @escaping @Sendable () -> TransferProgress, until isOver: @escaping @Sendable () -> Bool
    ) -> AsyncStream<TransferProgress> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let task = Task {
                while !Task.isCancelled {
                    let isLast = isOver()
                    continuation.yield(progress())
                    if isLast { break }
                    try? await Task.sleep(nanoseconds: 100_000_000)
                }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }
}

extension Int64 {
    /// The sum, or the largest number if that overflows.
    fileprivate func adding(_ other: Int64) -> Int64 {
        let (sum, isTooLarge) = addingReportingOverflow(other)
        return isTooLarge ? .max : sum
    }
}

/// Reports bytes to the user's handlers and the operation's `Progress`, no more often than they can keep up with.
///
/// Thousands of blocks may arrive per second. The bytes since the last call are added up here until the handler's queue
/// is free.
final class ProgressReport: Sendable {
    private struct State {
        var download = MovedBytes()
        var upload = MovedBytes()
        var progress: Progress?
        var isProgressWaiting = false
        /// The followers of the progress until the end.
        var followers: [Int: ProgressFollower] = [:]
        var nextKey = 0
        var body: (@Sendable (() -> Data) -> Void)?
    }

    private let state = Locked(State())
    private let hasProgress = Atomic<Bool>(false)
    private let hasFollowers = Atomic<Bool>(false)
    private let hasBodyFollower = Atomic<Bool>(false)

    deinit {
        // For an operation that never finished.
        for follower in state.withLock({ $0.followers }).values { follower.end() }
    }

    func noteDownload(_ bytes: Int64, total: Int64, expected: Int64?, of operation: URLConnectionOperation) {
        if let handler = operation.downloadProgressHandler {
            note(\.download, bytes, total, expected, handler, operation)
        }
        if hasProgress.load(ordering: .acquiring) { move(to: total, of: expected) }
        tellFollowers(of: operation)
    }

    func noteUpload(_ bytes: Int64, total: Int64, expected: Int64?, of operation: URLConnectionOperation) {
        if let handler = operation.uploadProgressHandler { note(\.upload, bytes, total, expected, handler, operation) }
        tellFollowers(of: operation)
    }

    private func note(
        _ flow: WritableKeyPath<State, MovedBytes> & Sendable, _ bytes: Int64, _ total: Int64, _ expected: Int64?,
        _ handler: @escaping URLConnectionOperation.ProgressHandler, _ operation: URLConnectionOperation
    ) {
        let mustTell = state.withLock { $0[keyPath: flow].add(bytes, total: total, expected: expected) }
        guard mustTell else { return }
        (operation.completionQueue ?? .mainForHandlers).submit { [self] in
            let latest = state.withLock { $0[keyPath: flow].take() }
            // The handler may use the operation, which this keeps alive.
            withExtendedLifetime(operation) { handler(latest.bytes, latest.total, latest.expected) }
        }
    }

    // MARK: Followers

    /// Adds a follower of the progress until the end.
    ///
    /// - Returns: a closure that ends this earlier.
    func follow(_ operation: URLConnectionOperation, with follower: ProgressFollower) -> @Sendable () -> Void {
        // Before any newer value.
        follower.move(operation.transferProgress)
        let key = state.withLock { state in
            state.nextKey += 1
            state.followers[state.nextKey] = follower
            return state.nextKey
        }
        hasFollowers.store(true, ordering: .sequentiallyConsistent)
        // Either the end sees the follower, or it is seen here.
        if operation.core.withLock({ $0.isFinished }) { endFollowing(operation) }
        return { [weak self] in
            let left = self?.state.withLock { $0.followers.removeValue(forKey: key) }
            withExtendedLifetime(left) {}
        }
    }

    private func tellFollowers(of operation: URLConnectionOperation) {
        guard hasFollowers.load(ordering: .acquiring) else { return }
        let progress = operation.transferProgress
        for follower in state.withLock({ $0.followers }).values { follower.move(progress) }
    }

    private func endFollowing(_ operation: URLConnectionOperation) {
        guard hasFollowers.load(ordering: .sequentiallyConsistent) else { return }
        let followers = state.withLock { state in
            defer { state.followers = [:] }
            return state.followers
        }
        let progress = operation.transferProgress
        for follower in followers.values {
            follower.move(progress)
            follower.end()
        }
    }

    func followBody(with handler: @escaping @Sendable (() -> Data) -> Void) {
        state.replace(\.body, by: handler)
        hasBodyFollower.store(true, ordering: .releasing)
    }

    func noteBody(_ body: () -> Data) {
        guard hasBodyFollower.load(ordering: .acquiring) else { return }
        state.withLock { $0.body }?(body)
    }

    // MARK: Foundation's Progress

    func progress(of operation: URLConnectionOperation) -> Progress {
        let fresh = Progress(totalUnitCount: -1)
        fresh.isPausable = true
        fresh.cancellationHandler = { [weak operation] in operation?.cancel() }
        fresh.pausingHandler = { [weak operation] in operation?.pause() }
        fresh.resumingHandler = { [weak operation] in operation?.resume() }
        let progress = state.withLock { state in
            let progress = state.progress ?? fresh
            state.progress = progress
            return progress
        }
        hasProgress.store(true, ordering: .releasing)
        // Reported now, as the server may send no more bytes for a while.
        let received = operation.transferProgress
        if received.bytesReceived > 0 {
            move(to: received.bytesReceived, of: received.bytesExpectedToReceive, isFirst: true)
        }
        if operation.isFinished { finish(of: operation) }
        return progress
    }

    /// - Parameter isFirst: whether it counts only if no bytes have been reported yet.
    private func move(to total: Int64, of expected: Int64?, isFirst: Bool = false) {
        let mustTell = state.withLock { state in
            if isFirst, state.download.total > 0 { return false }
            state.download.set(total: total, expected: expected)
            defer { state.isProgressWaiting = true }
            return !state.isProgressWaiting
        }
        guard mustTell else { return }
        OperationQueues.progress.submit { [self] in
            let (progress, flow) = state.withLock { state in
                state.isProgressWaiting = false
                return (state.progress, state.download)
            }
            progress?.totalUnitCount = flow.expected ?? -1
            progress?.completedUnitCount = flow.total
        }
    }

    /// Completes the `Progress` of an operation that has finished with success, and releases its handlers in any case.
    func finish(of operation: URLConnectionOperation) {
        endFollowing(operation)
        if hasBodyFollower.load(ordering: .acquiring) { state.replace(\.body, by: nil) }
        guard hasProgress.load(ordering: .acquiring) else { return }
        let isSuccess = operation.error == nil
        OperationQueues.progress.submit { [self] in
            let (progress, total) = state.withLock { ($0.progress, $0.download.total) }
            guard let progress else { return }
            if isSuccess {
                progress.totalUnitCount = max(total, 1)
                progress.completedUnitCount = max(total, 1)
            }
            progress.cancellationHandler = nil
            progress.pausingHandler = nil
            progress.resumingHandler = nil
        }
    }
}

/// The bytes that have moved since the last report. Thousands of blocks may arrive in a second: they are added up until
/// the receiver has time.
package struct MovedBytes: Sendable {
    /// Since the last time.
    package private(set) var bytes: Int64 = 0
    package private(set) var total: Int64 = 0
    package private(set) var expected: Int64?
    private var isWaiting = false

    package init() {}

    /// Adds bytes. Returns whether a report must be scheduled, which then calls ``take()``; false if one is already.
    package mutating func add(_ bytes: Int64, total: Int64, expected: Int64?) -> Bool {
        self.bytes += bytes
        (self.total, self.expected) = (total, expected)
        defer { isWaiting = true }
        return !isWaiting
    }

    /// Sets the totals without a report.
    package mutating func set(total: Int64, expected: Int64?) { (self.total, self.expected) = (total, expected) }

    /// The values to report, which are then cleared.
    package mutating func take() -> MovedBytes {
        defer { (bytes, isWaiting) = (0, false) }
        return self
    }
}

/// The counts of a transfer's progress, readable by any thread; -1 if unknown.
struct TransferCounts: ~Copyable {
    let bytesReceived: Atomic<Int64>
    let bytesExpectedToReceive: Atomic<Int64>
    let bytesSent: Atomic<Int64>
    let bytesExpectedToSend: Atomic<Int64>

    /// - Parameter progress: that of the previous attempt.
    init(_ progress: TransferProgress?) {
        bytesReceived = Atomic(progress?.bytesReceived ?? 0)
        bytesExpectedToReceive = Atomic(progress?.bytesExpectedToReceive ?? -1)
        bytesSent = Atomic(progress?.bytesSent ?? 0)
        bytesExpectedToSend = Atomic(progress?.bytesExpectedToSend ?? -1)
    }

    var progress: TransferProgress {
        func known(_ number: Int64) -> Int64? { number < 0 ? nil : number }
        var progress = TransferProgress()
        progress.bytesReceived = bytesReceived.load(ordering: .relaxed)
        progress.bytesExpectedToReceive = known(bytesExpectedToReceive.load(ordering: .relaxed))
        progress.bytesSent = bytesSent.load(ordering: .relaxed)
        progress.bytesExpectedToSend = known(bytesExpectedToSend.load(ordering: .relaxed))
        return progress
    }
}
