import ConvoyOperations
import ConvoyReachability
import ConvoySupport
import Foundation

/// The settings of an event source, read on connecting.
struct EventSourceSettings: Sendable {
    var retryInterval: TimeInterval = 3
    var maximumRetryInterval: TimeInterval = 60
    var readTimeout: TimeInterval?
    /// The value set by the user; nil for the default of the request's method.
    var reconnects: Bool?
    var reconnectsAfterServerErrors = false
    var reconnectsAfterExcess = false
    var maximumLineLength: Int?
    var maximumEventLength = 8 << 20
    var firstEventID: String?
    /// The state of the network, which tests replace.
    var network = NetworkSense()
}

/// The functions with which an event source observes the state of the network.
package struct NetworkSense: Sendable {
    /// A function that returns whether a target currently has no route.
    package var isAway: @Sendable (NetworkTarget) -> Bool = { $0.isOutOfReach }
    /// A function that calls the block once a target has a route, unless the returned object is released first. If the
    /// flag is set, an existing route counts only after it was lost and has returned.
    package var awaitReturn:
        @Sendable (NetworkTarget, _ afterLoss: Bool, @escaping @Sendable () -> Void) throws -> any AnyObject & Sendable = {
            try NetworkReturn.shared.wait(for: $0, afterLoss: $1, $2)
        }

    /// Creates functions that report the kernel's view of the network.
    package init() {}
}

/// The delay before a source reconnects.
struct ReconnectDelay: Sendable {
    /// The maximum interval, in seconds: a day.
    static let longest: TimeInterval = 86_400

    /// The interval from the user or the server, in seconds.
    let interval: TimeInterval
    /// The maximum delay in seconds, unless the interval is longer.
    let maximum: TimeInterval

    init(interval: TimeInterval, maximum: TimeInterval) {
        self.interval = Self.bounded(interval)
        self.maximum = max(Self.bounded(maximum), self.interval)
    }

    /// Returns a number of seconds, clamped to the valid range.
    static func bounded(_ seconds: TimeInterval) -> TimeInterval { seconds > 0 ? min(seconds, longest) : 0 }

    /// Returns the delay in seconds.
    ///
    /// - Parameters:
    ///   - failures: The number of consecutive connections without an event.
    ///   - random: A random number from 0 to 1.
    ///   - retryAfter: The `Retry-After` of the response, in seconds.
    func seconds(after failures: Int, random: Double, retryAfter: TimeInterval? = nil) -> TimeInterval {
        guard failures > 1 else { return max(interval, Self.bounded(retryAfter ?? 0)) }
        // With an interval of 0 the delay still grows while connections fail, so that they do not flood the server.
        let grown = min(maximum, max(interval, 0.1) * pow(2, Double(min(failures - 1, 64))))
        return max(interval, Self.bounded(retryAfter ?? 0), grown * (0.5 + 0.5 * random))
    }
}

/// The state of a source and its observers, each of which receives every change once, in order.
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

    /// Changes the state if the value differs from the current one.
    func change(to value: EventSourceState) {
        let (observers, sequences) = state.withLock { state -> ([Int: Observer], [Int: Sequence]) in
            guard state.value != value, state.value != .closed else { return ([:], [:]) }
            let change = Change(oldValue: state.value, newValue: value)
            state.value = value
            // Submit under the lock to keep the order. The observers are called later without the lock.
            for observer in state.observers.values { observer.queue.submit { observer.call(change) } }
            for sequence in state.sequences.values { sequence.yield(value) }
            guard value == .closed else { return ([:], [:]) }
            defer {
                state.observers = [:]
                state.sequences = [:]
            }
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

    /// A sequence of the current state and all later ones.
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
