import ConvoyOperations
import ConvoySupport
import Foundation

/// The state of a source, and who wants to know of its changes: of each once, in order.
final class EventSourceStates: Sendable {
    typealias Change = OperationChange<EventSourceState>
    private typealias Sequence = AsyncStream<EventSourceState>.Continuation

    private struct Observer: Sendable {
        let queue: DispatchQueue
        let call: @Sendable (Change) -> Void
    }

    private struct State {
        var value = EventSourceState.connecting
        var observers: [Int: Observer] = [:]
        var sequences: [Int: Sequence] = [:]
        var lastNumber = 0
    }

    private let state = Locked(State())

    var value: EventSourceState { state.withLock { $0.value } }

    /// Changes the state, unless that is the last one already.
    func change(to value: EventSourceState) {
        let (observers, sequences) = state.withLock { state -> ([Int: Observer], [Int: Sequence]) in
            guard state.value != value, state.value != .closed else { return ([:], [:]) }
            let change = Change(oldValue: state.value, newValue: value)
            state.value = value
            // Submitted under the lock, which keeps the order; called later, without it.
            for observer in state.observers.values { observer.queue.async { observer.call(change) } }
            for sequence in state.sequences.values { sequence.yield(value) }
            guard value == .closed else { return ([:], [:]) }
            defer { (state.observers, state.sequences) = ([:], [:]) }
            return (state.observers, state.sequences)
        }
        withExtendedLifetime(observers) {}
        for sequence in sequences.values { sequence.finish() }
    }

    func observe(on queue: DispatchQueue?, _ call: @escaping @Sendable (Change) -> Void) -> OperationObservation {
        let serial = DispatchQueue(label: "Convoy.Observation", target: queue ?? OperationQueues.processing)
        let isEnded = Locked(false)
        let number = state.withLock { state in
            state.lastNumber += 1
            guard state.value != .closed else { return state.lastNumber }
            state.observers[state.lastNumber] = Observer(queue: serial) { change in
                if !isEnded.withLock({ $0 }) { call(change) }
            }
            return state.lastNumber
        }
        return OperationObservation { [weak self] in
            isEnded.withLock { $0 = true }
            let removed = self?.state.withLock { $0.observers.removeValue(forKey: number) }
            withExtendedLifetime(removed) {}
        }
    }

    /// The state now, and each one that follows.
    var sequence: AsyncStream<EventSourceState> {
        let (stream, continuation) = AsyncStream.makeStream(of: EventSourceState.self)
        let number = state.withLock { state in
            state.lastNumber += 1
            continuation.yield(state.value)
            if state.value == .closed { continuation.finish() } else { state.sequences[state.lastNumber] = continuation }
            return state.lastNumber
        }
        continuation.onTermination = { [weak self] _ in
            let removed = self?.state.withLock { $0.sequences.removeValue(forKey: number) }
            withExtendedLifetime(removed) {}
        }
        return stream
    }
}
