import ConvoyOperations
import ConvoySupport

/// One reader of a subscription's changes.
final class SubscriptionReading: Sendable {
    /// What a reader has not taken yet. Guarded by the lock of the core.
    struct Buffer {
        /// How much is kept for a reader, or for the handler, before the value as a whole takes its place.
        static let maximumCount = 10_000
        static let maximumCost = 8 << 20

        private(set) var changes: [SubscriptionChange] = []
        private var cost = 0
        private var waiting: CheckedContinuation<Void, Never>?

        var isEmpty: Bool { changes.isEmpty }

        mutating func append(_ change: SubscriptionChange, cost: Int) {
            if case .value = change {
                // It has all that was before it.
                (changes, self.cost) = ([change], 0)
            } else {
                changes.append(change)
                self.cost += cost
            }
        }

        var isTooLong: Bool { changes.count > Self.maximumCount || cost > Self.maximumCost }

        mutating func take() -> [SubscriptionChange] {
            defer { (changes, cost) = ([], 0) }
            return changes
        }

        mutating func wait(_ continuation: CheckedContinuation<Void, Never>) { waiting = continuation }

        mutating func takeWaiting() -> CheckedContinuation<Void, Never>? { waiting.take() }
    }

    let core: SubscriptionCore
    private let source: EventSource
    private let isClaimed = Locked(false)
    private var key: ObjectIdentifier { ObjectIdentifier(self) }

    init(of core: SubscriptionCore, by source: EventSource) {
        (self.core, self.source) = (core, source)
        core.inner.withLock { inner in
            var buffer = Buffer()
            if let value = inner.state.value { buffer.append(.value(value), cost: 0) }
            inner.readers[key] = buffer
        }
    }

    deinit { leave() }

    /// Lets one loop read. False if there is one already.
    func claim() -> Bool {
        isClaimed.withLock { isClaimed in
            defer { isClaimed = true }
            return !isClaimed
        }
    }

    func leave() {
        let waiting = core.inner.withLock { inner in
            var buffer = inner.readers.removeValue(forKey: key)
            return buffer?.takeWaiting()
        }
        waiting?.resume()
    }

    /// All changes that wait, as soon as there are any; nil at the end, and when the task is cancelled. Starts a subscription
    /// that nobody has enqueued.
    nonisolated(nonsending) func next() async throws -> [SubscriptionChange]? {
        try await withTaskCancellationHandler {
            AwaitedOperations.start(source)
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
