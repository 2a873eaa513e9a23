import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation

/// What drives a subscription: it tells the state what has come, and does what that asks for.
///
/// All that comes is handled one after another: events on a queue of the subscription, as the handlers of the source run
/// there, and the ends of fetches by the lock.
final class SubscriptionCore: Sendable {
    struct Inner {
        var state = SubscriptionState()
        var readers: [ObjectIdentifier: SubscriptionReading.Buffer] = [:]
        var end: Result<Void, any Error>?
        /// Why the source is about to be ended.
        var failure: (any Error)?
        var fetch: HTTPRequestOperation?
        /// The timer of the next fetch.
        var timer: (any ClockTimer)?
        var handler: (@Sendable (EventSource, SubscriptionChange) -> Void)?
        /// Kept from its opening until the handler has been called for the last time.
        var source: EventSource?
        /// What the handler has not been called with.
        var handed = SubscriptionReading.Buffer()
        var isHandling = false
    }

    let inner = Locked(Inner())
    /// Where events are handled.
    let queue = DispatchQueue(label: "Convoy.Subscription")
    private let handlerQueue: DispatchQueue
    private let makeFetch: @Sendable () throws -> HTTPRequestOperation
    private let enqueue: @Sendable (HTTPRequestOperation) -> Void

    init(
        of source: EventSource, makeFetch: @escaping @Sendable () throws -> HTTPRequestOperation,
        enqueue: @escaping @Sendable (HTTPRequestOperation) -> Void
    ) {
        (self.makeFetch, self.enqueue) = (makeFetch, enqueue)
        handlerQueue = DispatchQueue(label: "Convoy.Subscription.handler", target: source.completionQueue ?? .main)
        source.completionQueue = queue
        source.openHandler = { source in self.opened(source) }
        source.eventHandler = { source, event in self.perform(on: source) { $0.received(event) } }
        source.whenDelivered { [weak source] in
            self.finish(source?.error)
        }
    }

    private func opened(_ source: EventSource) {
        // It was paused when it should have ended.
        let failure = inner.withLock { inner in
            if inner.end == nil { inner.source = source }
            return inner.failure
        }
        if let failure { return source.feed.fail(failure) }
        perform(on: source) { $0.opened() }
    }

    /// Changes the state, and does what follows.
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

    /// Whether the value may come with the next try, as long as the events do.
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
        // What the handler holds is released after its last call.
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
