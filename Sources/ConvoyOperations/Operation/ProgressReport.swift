import ConvoySupport
import Foundation
import Synchronization

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
    }

    private let state = Locked(State())
    private let hasProgress = Atomic<Bool>(false)
    private let hasFollowers = Atomic<Bool>(false)

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
        (operation.completionQueue ?? .mainForHandlers).async { [self] in
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
        OperationQueues.progress.async { [self] in
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
        guard hasProgress.load(ordering: .acquiring) else { return }
        let isSuccess = operation.error == nil
        OperationQueues.progress.async { [self] in
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
