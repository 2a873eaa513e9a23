import ConvoyOperations
import ConvoySupport
import Foundation

/// A monitor that decides when to show network activity: while operations or tasks are running, but not for very short
/// ones, and without flickering between requests. The counterpart of `AFNetworkActivityIndicatorManager`.
///
/// ```swift
/// NetworkActivityMonitor.shared.activityHandler = { isVisible in statusBar.spinner.isHidden = !isVisible }
/// NetworkActivityMonitor.shared.isEnabled = true
/// ```
///
/// An operation counts while it is executing, but not while it is paused or waits for its turn, a retry or the network.
/// A session's task counts like its operation; a download counts once, however many connections it has. An operation
/// that is already running when the monitor is enabled counts only after its next pause or retry.
///
/// Unless a monitor is enabled, operations do no work for it. All members can be used from any thread.
public final class NetworkActivityMonitor: Sendable {
    /// The shared monitor, whose handler runs on the main queue. It does nothing until it is enabled.
    public static let shared = NetworkActivityMonitor()

    private typealias Updates = AsyncStream<Bool>.Continuation

    private struct State {
        var isEnabled = false
        var activationDelay: TimeInterval = 1
        var completionDelay: TimeInterval = 0.17
        /// The running operations.
        var operations: Set<ObjectIdentifier> = []
        /// The number of activities counted by the user.
        var extra = 0
        var activity = ActivityState()
        /// The timer of the current delay.
        var timer: (any ClockTimer)?
        /// The last reported value, which lags behind changes.
        var reported = false
        var handler: (@Sendable (Bool) -> Void)?
        var streams: [Int: Updates] = [:]
        var nextKey = 0

        var count: Int { operations.count + extra }
    }

    private let clock: any SchedulingClock
    private let counts: @Sendable (URLConnectionOperation) -> Bool
    private let handlerQueue: DispatchQueue?
    private let ownQueue = DispatchQueue(label: "Convoy.Activity", target: OperationQueues.processing)
    private let state = Locked(State())

    /// Creates a disabled monitor.
    ///
    /// - Parameter queue: The queue of the handler; nil for the main queue.
    public convenience init(queue: DispatchQueue? = nil) { self.init(queue: queue, clock: MonotonicClock()) }

    /// Creates a monitor for the operations that `counts` selects.
    ///
    /// - Parameter counts: A closure that returns whether an operation counts. It is called on any thread, and must
    ///   return quickly.
    package init(
        queue: DispatchQueue?, clock: any SchedulingClock = MonotonicClock(),
        counts: @escaping @Sendable (URLConnectionOperation) -> Bool = { _ in true }
    ) {
        handlerQueue = queue
        self.clock = clock
        self.counts = counts
    }

    deinit {
        ActivityListeners.remove(self)
        let (streams, timer) = state.withLock { ($0.streams, $0.timer) }
        for stream in streams.values { stream.finish() }
        timer?.cancel()
    }

    // MARK: Settings

    /// Whether the monitor counts operations. False by default. Setting it to false hides the activity immediately.
    public var isEnabled: Bool {
        get { state.withLock { $0.isEnabled } }
        set {
            state.withLock { state in
                guard state.isEnabled != newValue else { return }
                state.isEnabled = newValue
                if newValue {
                    ActivityListeners.add(self)
                    update(&state)
                } else {
                    ActivityListeners.remove(self)
                    state.operations = []
                    carryOut(state.activity.reset(), &state)
                }
            }
        }
    }

    /// The time that an activity must last before it is shown, in seconds. 1 by default. Negative numbers and NaN count
    /// as 0. A delay in progress keeps its length.
    public var activationDelay: TimeInterval {
        get { state.withLock { $0.activationDelay } }
        set { state.withLock { $0.activationDelay = newValue } }
    }

    /// The delay, in seconds, between the end of all activity and the moment when the indicator is hidden. 0.17 by
    /// default. Negative numbers and NaN count as 0.
    public var completionDelay: TimeInterval {
        get { state.withLock { $0.completionDelay } }
        set { state.withLock { $0.completionDelay = newValue } }
    }

    // MARK: Activity

    /// Whether the activity should be shown.
    public var isNetworkActivityVisible: Bool { state.withLock { $0.activity.isVisible } }

    /// The number of activities: running operations, and activities counted by the user.
    public var activityCount: Int { state.withLock { $0.count } }

    /// Counts an activity in addition to the operations, such as a connection of your own, until
    /// ``decrementActivityCount()``.
    public func incrementActivityCount() {
        state.withLock { state in
            state.extra += 1
            update(&state)
        }
    }

    /// Ends an activity started by ``incrementActivityCount()``. Does nothing without such an activity.
    public func decrementActivityCount() {
        state.withLock { state in
            state.extra = max(0, state.extra - 1)
            update(&state)
        }
    }

    // MARK: Reports

    /// A closure called with true when the activity should be shown, and with false when it should be hidden, in order,
    /// on the queue given to the initializer. The counterpart of `setNetworkingActivityActionWithBlock:`.
    public var activityHandler: (@Sendable (_ isVisible: Bool) -> Void)? {
        get { state.withLock { $0.handler } }
        set { state.replace(\.handler, by: newValue) }
    }

    /// A sequence that reports whether the activity should be shown: the current value, and the value after each
    /// change. It ends when the monitor is released. Iterate over it once; each access creates a new sequence.
    ///
    /// A slow reader misses intermediate changes, but never the last one.
    public var activityUpdates: AsyncStream<Bool> {
        let (stream, continuation) = AsyncStream.makeStream(of: Bool.self, bufferingPolicy: .bufferingNewest(1))
        let key = state.withLock { state in
            state.nextKey += 1
            return state.nextKey
        }
        continuation.onTermination = { [weak self] _ in self?.removeStream(key) }
        // Use the queue that reports the changes, so that no change precedes the current value.
        ownQueue.async { [weak self] in
            guard let self else { return continuation.finish() }
            let isVisible = state.withLock { state in
                state.streams[key] = continuation
                return state.reported
            }
            // The stream may have ended before it was added, so remove it now.
            if case .terminated = continuation.yield(isVisible) { removeStream(key) }
        }
        return stream
    }

    private func removeStream(_ key: Int) {
        let old = state.withLock { $0.streams.removeValue(forKey: key) }
        withExtendedLifetime(old) {}
    }

    // MARK: Changes

    private func update(_ state: inout State) {
        guard state.isEnabled, state.activity.isOccurring != (state.count > 0) else { return }
        carryOut(state.activity.setOccurring(state.count > 0), &state)
    }

    /// Performs an action. Called under the lock, so that the reports are enqueued in the order of the changes.
    /// Enqueuing and setting timers call no user code.
    private func carryOut(_ action: ActivityState.Effect, _ state: inout State) {
        if !state.activity.isDelaying { state.timer.take()?.cancel() }
        switch action {
        case .nothing: break
        case .show: ownQueue.async { [weak self] in self?.report(true) }
        case .hide: ownQueue.async { [weak self] in self?.report(false) }
        case .wait(let delay, let number):
            let seconds = delay == .activation ? state.activationDelay : state.completionDelay
            state.timer = clock.schedule(at: Nanoseconds.deadline(seconds, after: clock.now)) { [weak self] in
                self?.delayDidPass(number)
            }
        }
    }

    private func delayDidPass(_ number: UInt) {
        state.withLock { carryOut($0.activity.delayDidPass(number), &$0) }
    }

    private func report(_ isVisible: Bool) {
        let streams = state.withLock { state in
            state.reported = isVisible
            return Array(state.streams.values)
        }
        for stream in streams { stream.yield(isVisible) }
        (handlerQueue ?? .main).async { [weak self] in self?.activityHandler?(isVisible) }
    }
}

extension NetworkActivityMonitor: ActivityListener {
    /// Reads the operation's state under the lock, so that the last call, however late, uses the final state.
    package func activityDidChange(of operation: URLConnectionOperation) {
        guard counts(operation) else { return }
        let key = ObjectIdentifier(operation)
        state.withLock { state in
            guard state.isEnabled else { return }
            if operation.state == .executing { state.operations.insert(key) } else { state.operations.remove(key) }
            update(&state)
        }
    }
}

/// The rules for showing network activity: not for very short activities, and without flickering between requests. The
/// rules are those of AFNetworking's `AFNetworkActivityIndicatorManager`.
///
/// A plain value: it returns the action to perform, and has a method for the end of a delay.
struct ActivityState: Equatable {
    enum Phase: Equatable {
        /// No activity is in progress, and none is shown.
        case notActive
        /// An activity is in progress. It is shown if it lasts beyond the delay.
        case delayingStart
        /// The activity is shown.
        case active
        /// The activity has ended; it is hidden after the delay unless a new activity begins.
        case delayingEnd
    }

    enum Delay: Equatable { case activation, completion }

    enum Effect: Equatable {
        case nothing
        /// Wait, and call ``delayDidPass(_:)`` with the number.
        case wait(Delay, number: UInt)
        case show
        case hide
    }

    private(set) var phase = Phase.notActive
    /// Whether any activity is in progress.
    private(set) var isOccurring = false
    /// The number of the current delay. The ends of earlier delays are ignored.
    private var number: UInt = 0

    /// Whether the activity is shown.
    var isVisible: Bool { phase == .active || phase == .delayingEnd }

    /// Whether a delay is running.
    var isDelaying: Bool { phase == .delayingStart || phase == .delayingEnd }

    /// Records that activity has begun, or that all activity has ended.
    mutating func setOccurring(_ isOccurring: Bool) -> Effect {
        self.isOccurring = isOccurring
        switch (phase, isOccurring) {
        case (.notActive, true): return wait(.activation, in: .delayingStart)
        case (.active, false): return wait(.completion, in: .delayingEnd)
        case (.delayingEnd, true):
            phase = .active
            number &+= 1
            return .nothing
        // A delay in progress continues, regardless of further changes.
        case (.delayingStart, _), (.notActive, false), (.active, true), (.delayingEnd, false): return .nothing
        }
    }

    /// Records that a delay is over.
    mutating func delayDidPass(_ number: UInt) -> Effect {
        guard number == self.number else { return .nothing }
        switch phase {
        case .delayingStart:
            phase = isOccurring ? .active : .notActive
            return isOccurring ? .show : .nothing
        case .delayingEnd:
            phase = .notActive
            return .hide
        case .notActive, .active: return .nothing
        }
    }

    /// Hides the activity.
    mutating func reset() -> Effect {
        defer {
            phase = .notActive
            isOccurring = false
            number = number &+ 1
        }
        return isVisible ? .hide : .nothing
    }

    private mutating func wait(_ delay: Delay, in phase: Phase) -> Effect {
        self.phase = phase
        number &+= 1
        return .wait(delay, number: number)
    }
}
