import ConvoyOperations
import ConvoySupport
import Foundation

/// One reader of a source's events: what waits for it, and its loop.
final class EventReading: Sendable {
    /// What a reader has not taken yet. Guarded by the lock of the delivery.
    struct Buffer {
        private(set) var events: [ServerSentEvent] = []
        private(set) var cost = 0
        private var waiting: [CheckedContinuation<Void, Never>] = []

        mutating func append(_ new: [ServerSentEvent], cost: Int) -> [CheckedContinuation<Void, Never>] {
            if events.isEmpty { events = new } else { events += new }
            self.cost += cost
            return takeWaiting()
        }

        mutating func takeWaiting() -> [CheckedContinuation<Void, Never>] {
            defer { waiting = [] }
            return waiting
        }

        mutating func take() -> [ServerSentEvent] {
            defer { (events, cost) = ([], 0) }
            return events
        }

        mutating func wait(_ continuation: CheckedContinuation<Void, Never>) { waiting.append(continuation) }
    }

    let source: EventSource
    private let closesSource: Bool
    private let isClaimed = Locked(false)

    private var delivery: EventDelivery { source.feed.delivery }
    private var key: ObjectIdentifier { ObjectIdentifier(self) }

    init(of source: EventSource, closesSource: Bool) {
        self.source = source
        self.closesSource = closesSource
        delivery.state.withLock { $0.readers[key] = Buffer() }
    }

    deinit { leave() }

    /// Lets one loop read. False if there is one already.
    func claim() -> Bool {
        isClaimed.withLock { isClaimed in
            defer { isClaimed = true }
            return !isClaimed
        }
    }

    /// Reads no more, so that nobody waits for this reader.
    func leave() {
        let (waiting, room) = delivery.state.withLock { state in
            var buffer = state.readers.removeValue(forKey: key)
            return (buffer?.takeWaiting() ?? [], state.takeRoom())
        }
        for continuation in waiting { continuation.resume() }
        room?()
        if closesSource { source.close() }
    }

    /// All events that wait, as soon as there are any; nil at the end, and when the task is cancelled.
    nonisolated(nonsending) func next() async throws -> [ServerSentEvent]? {
        try await withTaskCancellationHandler {
            AwaitedOperations.start(source)
            return try await take()
        } onCancel: {
            leave()
        }
    }

    private nonisolated(nonsending) func take() async throws -> [ServerSentEvent]? {
        while true {
            let (events, end, isLeft, room) = delivery.state.withLock { state in
                let events = state.readers[key]?.take() ?? []
                return (events, state.end, state.readers[key] == nil, events.isEmpty ? nil : state.takeRoom())
            }
            room?()
            if isLeft || Task.isCancelled { return nil }
            if !events.isEmpty { return events }
            if let end {
                try end.get()
                return nil
            }
            await nextChange()
        }
    }

    private nonisolated(nonsending) func nextChange() async {
        await withCheckedContinuation { continuation in
            let isOver = delivery.state.withLock { state in
                guard state.end == nil, state.readers[key]?.events.isEmpty == true else { return true }
                state.readers[key]?.wait(continuation)
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}
