import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import Synchronization

/// The core of a subscription. It passes events to the state, and performs the resulting actions.
///
/// Inputs are serialized: events by a queue of the subscription, on which the handlers of the source run, and fetch
/// results by the lock.
final class SubscriptionCore: Sendable {
    struct Inner {
        var state = SubscriptionState()
        var readers: [ObjectIdentifier: SubscriptionReading.Buffer] = [:]
        var end: Result<Void, any Error>?
        /// The error with which the source is about to end.
        var failure: (any Error)?
        var fetch: HTTPRequestOperation?
        /// The timer of the next fetch.
        var timer: (any ClockTimer)?
        var handler: (@Sendable (EventSource, SubscriptionChange) -> Void)?
        /// The source, retained from its opening until the last call of the handler.
        var source: EventSource?
        /// The handler's backlog.
        var handed = SubscriptionReading.Buffer()
        var isHandling = false
    }

    let inner = Locked(Inner())
    /// The queue on which events are handled.
    let queue = DispatchQueue(label: "Convoy.Subscription")
    private let handlerQueue: DispatchQueue
    private let makeFetch: @Sendable () throws -> HTTPRequestOperation
    private let enqueue: @Sendable (HTTPRequestOperation) -> Void

    init(
        of source: EventSource, makeFetch: @escaping @Sendable () throws -> HTTPRequestOperation,
        enqueue: @escaping @Sendable (HTTPRequestOperation) -> Void
    ) {
        self.makeFetch = makeFetch
        self.enqueue = enqueue
        handlerQueue = DispatchQueue(label: "Convoy.Subscription.handler", target: source.completionQueue ?? .main)
        source.completionQueue = queue
        source.openHandler = { source in self.opened(source) }
        source.eventHandler = { source, event in self.perform(on: source) { $0.received(event) } }
        source.whenDelivered { [weak source] in
            self.finish(source?.error)
        }
    }

    private func opened(_ source: EventSource) {
        // The subscription failed while it was paused.
        let failure = inner.withLock { inner in
            if inner.end == nil { inner.source = source }
            return inner.failure
        }
        if let failure { return source.feed.fail(failure) }
        perform(on: source) { $0.opened() }
    }

    /// Changes the state, and performs the resulting actions.
    private func perform(on source: EventSource, _ change: (inout SubscriptionState) -> Void) {
        let (actions, waiting, handles) = inner.withLock {
            inner -> ([SubscriptionState.Action], [CheckedContinuation<Void, Never>], Bool) in
            guard inner.end == nil, inner.failure == nil else { return ([], [], false) }
            change(&inner.state)
            let (changes, actions) = inner.state.takeOutcome()
            if changes.isEmpty { return (actions, [], false) }
            return (actions, inner.tellReaders(changes), inner.beginHandling())
        }
        for continuation in waiting { continuation.resume() }
        if handles { handlerQueue.async { self.handle() } }
        for action in actions { run(action, for: source) }
    }

    private func run(_ action: SubscriptionState.Action, for source: EventSource) {
        switch action {
        case .fail(let error):
            inner.withLock { $0.failure = error }
            source.feed.fail(error)
        case .fetch(let number, let delay):
            inner.withLock { $0.fetch.take() }?.cancel()
            let clock = source.retryClock
            let due = delay > 0 ? Nanoseconds.deadline(delay, after: clock.now) : clock.now
            let timer = clock.schedule(at: due) { [weak source] in
                guard let source else { return }
                self.queue.async { self.fetch(number, for: source) }
            }
            let unused = inner.withLock { inner in
                defer { if inner.end == nil { inner.timer = timer } }
                return inner.end == nil ? inner.timer : timer
            }
            unused?.cancel()
        }
    }

    // MARK: Fetching

    private func fetch(_ number: Int, for source: EventSource) {
        guard inner.withLock({ $0.end == nil && $0.state.willFetch(number) }) else { return }
        let fetch: HTTPRequestOperation
        do {
            fetch = try makeFetch()
        } catch {
            return perform(on: source) { $0.fetchFailed(number, error, isTemporary: false) }
        }
        fetch.whenDelivered { [weak fetch, weak source] in
            guard let fetch, let source else { return }
            self.queue.async { self.conclude(fetch, number, for: source) }
        }
        let isOver = inner.withLock { inner in
            inner.fetch = fetch
            return inner.end != nil
        }
        if isOver { fetch.cancel() }
        enqueue(fetch)
    }

    private func conclude(_ fetch: HTTPRequestOperation, _ number: Int, for source: EventSource) {
        inner.withLock { if $0.fetch === fetch { $0.fetch = nil } }
        let version = fetch.responseHead?["Last-Event-ID"] ?? ""
        perform(on: source) { state in
            if let error = fetch.error {
                state.fetchFailed(number, error, isTemporary: Self.isTemporary(error))
            } else if let value = fetch.responseObject as? JSON {
                state.fetched(number, value, version: version)
            } else {
                state.fetchFailed(number, SubscriptionError.missingValue, isTemporary: false)
            }
        }
    }

    /// Returns whether the error is temporary, so that fetching the value again may succeed.
    private static func isTemporary(_ error: any Error) -> Bool {
        if let status = (error as? HTTPError)?.statusCode { return RetryPolicy.temporaryStatusCodes.contains(status) }
        guard let error = error as? URLError else { return false }
        return error.code == .badServerResponse || RetryPolicy.temporaryErrorCodes.contains(error.code)
    }

    // MARK: The handler

    private func handle() {
        let (changes, handler, source) = inner.withLock { inner in (inner.handed.take(), inner.handler, inner.source) }
        if let source { for change in changes { handler?(source, change) } }
        let goesOn = inner.withLock { inner in
            inner.isHandling = false
            return inner.beginHandling()
        }
        if goesOn { handlerQueue.async { self.handle() } }
    }

    // MARK: The end

    private func finish(_ error: (any Error)?) {
        let (waiting, fetch, timer) = inner.withLock { inner in
            inner.end = error.map { .failure($0) } ?? .success(())
            let waiting = inner.readers.keys.compactMap { inner.readers[$0]?.takeWaiting() }
            return (waiting, inner.fetch.take(), inner.timer.take())
        }
        fetch?.cancel()
        timer?.cancel()
        for continuation in waiting { continuation.resume() }
        // Release the handler after its last call.
        handlerQueue.async { [self] in
            let kept = inner.withLock { ($0.handler.take(), $0.source.take()) }
            withExtendedLifetime(kept) {}
        }
    }
}

extension SubscriptionCore.Inner {
    fileprivate mutating func tellReaders(
        _ changes: [(change: SubscriptionChange, cost: Int)]
    ) -> [CheckedContinuation<Void, Never>] {
        for (change, cost) in changes {
            if handler != nil { handed.append(change, cost: cost) }
            for key in readers.keys { readers[key]?.append(change, cost: cost) }
        }
        if let value = state.value {
            if handed.isTooLong { handed.append(.value(value), cost: 0) }
            for key in readers.keys where readers[key]?.isTooLong == true { readers[key]?.append(.value(value), cost: 0) }
        }
        return readers.keys.compactMap { readers[$0]?.takeWaiting() }
    }

    fileprivate mutating func beginHandling() -> Bool {
        guard !isHandling, !handed.isEmpty, handler != nil else { return false }
        isHandling = true
        return true
    }
}

/// A reader of a subscription's changes.
final class SubscriptionReading: Sendable {
    /// The reader's backlog, guarded by the lock of the core.
    struct Buffer {
        /// The maximum backlog of a reader or of the handler, above which the whole value replaces it.
        static let maximumCount = 10_000
        static let maximumCost = 8 << 20

        private(set) var changes: [SubscriptionChange] = []
        private var cost = 0
        private var waiting: CheckedContinuation<Void, Never>?

        var isEmpty: Bool { changes.isEmpty }

        mutating func append(_ change: SubscriptionChange, cost: Int) {
            if case .value = change {
                // The whole value includes all earlier changes.
                changes = [change]
                self.cost = 0
            } else {
                changes.append(change)
                self.cost += cost
            }
        }

        var isTooLong: Bool { changes.count > Self.maximumCount || cost > Self.maximumCost }

        mutating func take() -> [SubscriptionChange] {
            defer {
                changes = []
                cost = 0
            }
            return changes
        }

        mutating func wait(_ continuation: CheckedContinuation<Void, Never>) { waiting = continuation }

        mutating func takeWaiting() -> CheckedContinuation<Void, Never>? { waiting.take() }
    }

    let core: SubscriptionCore
    private let source: EventSource
    private let isClaimed = Atomic(false)
    private var key: ObjectIdentifier { ObjectIdentifier(self) }

    init(of core: SubscriptionCore, by source: EventSource) {
        self.core = core
        self.source = source
        core.inner.withLock { inner in
            var buffer = Buffer()
            if let value = inner.state.value { buffer.append(.value(value), cost: 0) }
            inner.readers[key] = buffer
        }
    }

    deinit { leave() }

    /// Claims the reader for a loop. Returns false if another loop has claimed it.
    func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }

    func leave() {
        let waiting = core.inner.withLock { inner in
            var buffer = inner.readers.removeValue(forKey: key)
            return buffer?.takeWaiting()
        }
        waiting?.resume()
    }

    /// Waits for changes and returns all of them; nil at the end, and when the task is cancelled. Starts a subscription
    /// that was not enqueued.
    nonisolated(nonsending) func next() async throws -> [SubscriptionChange]? {
        try await withTaskCancellationHandler {
            source.startAwaited()
            while true {
                let (changes, end, isLeft) = core.inner.withLock { inner in
                    (inner.readers[key]?.take() ?? [], inner.end, inner.readers[key] == nil)
                }
                if isLeft || Task.isCancelled { return nil }
                if !changes.isEmpty { return changes }
                if let end {
                    try end.get()
                    return nil
                }
                await nextChange()
            }
        } onCancel: {
            leave()
        }
    }

    private nonisolated(nonsending) func nextChange() async {
        await withCheckedContinuation { continuation in
            let isOver = core.inner.withLock { inner in
                guard inner.end == nil, inner.readers[key]?.isEmpty == true else { return true }
                inner.readers[key]?.wait(continuation)
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}
