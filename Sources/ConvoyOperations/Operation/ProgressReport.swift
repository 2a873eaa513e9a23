import ConvoySupport
import Foundation

/// The object that reports transferred bytes to the user's handlers and to the operation's `Progress`, only as often as
/// they can process the reports.
///
/// Thousands of blocks may arrive per second, so the bytes are accumulated until the handler's queue is free.
final class ProgressReport: Sendable {
    private struct State {
        var download = ProgressAccumulator()
        var upload = ProgressAccumulator()
        var progress: Progress?
        /// The units of the `Progress`: the bytes transferred in both directions.
        var units = (completed: Int64(0), total: Int64?.none)
        var isProgressWaiting = false
        /// The followers of the progress, until the operation finishes.
        var followers: [Int: ProgressFollower] = [:]
        var nextKey = 0
        var body: (@Sendable (() -> Data) -> Void)?
    }

    private let state = Locked(State())

    deinit {
        // The operation was released without finishing.
        for follower in state.withLock({ $0.followers }).values { follower.end() }
    }

    func noteDownload(_ bytes: Int64, total: Int64, expected: Int64?, of operation: URLConnectionOperation) {
        if let handler = operation.downloadProgressHandler {
            note(\.download, bytes, total, expected, handler, operation)
        }
        tellFollowers(of: operation)
    }

    func noteUpload(_ bytes: Int64, total: Int64, expected: Int64?, of operation: URLConnectionOperation) {
        if let handler = operation.uploadProgressHandler { note(\.upload, bytes, total, expected, handler, operation) }
        tellFollowers(of: operation)
    }

    private func note(
        _ flow: WritableKeyPath<State, ProgressAccumulator> & Sendable, _ bytes: Int64, _ total: Int64, _ expected: Int64?,
        _ handler: @escaping URLConnectionOperation.ProgressHandler, _ operation: URLConnectionOperation
    ) {
        let mustTell = state.withLock { $0[keyPath: flow].add(bytes, total: total, expected: expected) }
        guard mustTell else { return }
        (operation.completionQueue ?? .mainForHandlers).submit { [self] in
            let latest = state.withLock { $0[keyPath: flow].take() }
            // The handler may use the operation, so keep it alive.
            withExtendedLifetime(operation) { handler(latest.bytes, latest.total, latest.expected) }
        }
    }

    // MARK: Followers

    /// Adds a follower of the progress.
    ///
    /// - Returns: A closure that stops following early.
    func follow(_ operation: URLConnectionOperation, with follower: ProgressFollower) -> @Sendable () -> Void {
        // Called before any newer value can arrive.
        follower.move(operation.transferProgress)
        let key = state.withLock { state in
            state.nextKey += 1
            state.followers[state.nextKey] = follower
            return state.nextKey
        }
        // Either the finishing operation finds the follower, or this check finds the operation finished.
        if operation.core.withLock({ $0.isFinished }) { endFollowing(operation) }
        return { [weak self] in
            let left = self?.state.withLock { $0.followers.removeValue(forKey: key) }
            withExtendedLifetime(left) {}
        }
    }

    private func tellFollowers(of operation: URLConnectionOperation) {
        let (hasProgress, followers) = state.withLock { ($0.progress != nil, $0.followers) }
        guard hasProgress || !followers.isEmpty else { return }
        let progress = operation.transferProgress
        if hasProgress { move(to: progress) }
        for follower in followers.values { follower.move(progress) }
    }

    private func endFollowing(_ operation: URLConnectionOperation) {
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

    func followBody(with handler: @escaping @Sendable (() -> Data) -> Void) { state.replace(\.body, by: handler) }

    func noteBody(_ body: () -> Data) { state.withLock { $0.body }?(body) }

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
        // Report the transferred bytes now, because no more may be transferred for a while.
        let transferred = operation.transferProgress
        if transferred.units.completed > 0 { move(to: transferred, isFirst: true) }
        if operation.isFinished { finish(of: operation) }
        return progress
    }

    /// - Parameter isFirst: Whether to report only if no bytes have been reported yet.
    private func move(to transferred: TransferProgress, isFirst: Bool = false) {
        let mustTell = state.withLock { state in
            if isFirst, state.units.completed > 0 { return false }
            state.units = transferred.units
            defer { state.isProgressWaiting = true }
            return !state.isProgressWaiting
        }
        guard mustTell else { return }
        OperationQueues.progress.submit { [self] in
            let (progress, units) = state.withLock { state in
                state.isProgressWaiting = false
                return (state.progress, state.units)
            }
            progress?.totalUnitCount = units.total ?? -1
            progress?.completedUnitCount = units.completed
        }
    }

    /// Ends the reports: completes the `Progress` of a successful operation, and releases the handlers of every
    /// `Progress`.
    func finish(of operation: URLConnectionOperation) {
        endFollowing(operation)
        state.replace(\.body, by: nil)
        guard state.withLock({ $0.progress != nil }) else { return }
        let isSuccess = operation.error == nil
        OperationQueues.progress.submit { [self] in
            let (progress, total) = state.withLock { ($0.progress, $0.units.completed) }
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

extension TransferProgress {
    /// The units of a `Progress`: the bytes transferred in both directions, and their total; nil while unknown.
    fileprivate var units: (completed: Int64, total: Int64?) {
        let completed = bytesReceived.adding(bytesSent)
        // The length of the response to an upload is unknown while the upload is sent, so count the upload alone.
        guard let bytesExpectedToSend else { return (completed, bytesExpectedToReceive) }
        return (completed, bytesExpectedToSend.adding(bytesExpectedToReceive ?? bytesReceived))
    }
}

/// The bytes transferred since the last report. They are accumulated until the receiver is free, because thousands of
/// blocks may arrive per second.
package struct ProgressAccumulator: Sendable {
    /// The number of bytes transferred since the last report.
    package private(set) var bytes: Int64 = 0
    package private(set) var total: Int64 = 0
    package private(set) var expected: Int64?
    private var isWaiting = false

    package init() {}

    /// Adds bytes. Returns whether the caller must schedule a report, which then calls ``take()``; false if a report is
    /// already scheduled.
    package mutating func add(_ bytes: Int64, total: Int64, expected: Int64?) -> Bool {
        self.bytes += bytes
        self.total = total
        self.expected = expected
        defer { isWaiting = true }
        return !isWaiting
    }

    /// Returns the values to report, and resets the count.
    package mutating func take() -> ProgressAccumulator {
        defer {
            bytes = 0
            isWaiting = false
        }
        return self
    }
}
