import ConvoySupport
import Foundation

/// Tells when to show that the program uses the network: while operations or tasks are under way, but not for what is over
/// at once, and without flickering between two requests. The counterpart of `AFNetworkActivityIndicatorManager`.
///
/// ```swift
/// NetworkActivityMonitor.shared.activityHandler = { isVisible in statusBar.spinner.isHidden = !isVisible }
/// NetworkActivityMonitor.shared.isEnabled = true
/// ```
///
/// An operation counts while it is executing: not while it waits for its turn, a retry or the network, and not while it is
/// paused. The task of a session counts as its operation does; a download counts once, however many connections it has. An
/// operation that is under way when the monitor is enabled counts when it goes on after its next pause or retry.
///
/// As long as no monitor is enabled, operations do nothing for it. All members can be used from any thread.
public final class NetworkActivityMonitor: Sendable {
    /// One for the whole program, whose handler runs on the main queue. It does nothing until it is enabled.
    public static let shared = NetworkActivityMonitor()

    private typealias Stream = AsyncStream<Bool>.Continuation

    private struct State {
        var isEnabled = false
        var activationDelay: TimeInterval = 1
        var completionDelay: TimeInterval = 0.17
        /// The operations that are under way.
        var operations: Set<ObjectIdentifier> = []
        /// What was counted by hand.
        var extra = 0
        var activity = ActivityState()
        /// The timer of the delay that is under way.
        var timer: (any ClockTimer)?
        /// What was reported last, somewhat later than the change.
        var reported = false
        var handler: (@Sendable (Bool) -> Void)?
        var streams: [Int: Stream] = [:]
        var nextKey = 0

        var count: Int { operations.count + extra }
    }

    private let clock: any SchedulingClock
    private let counts: @Sendable (URLConnectionOperation) -> Bool
    private let handlerQueue: DispatchQueue?
    private let ownQueue = DispatchQueue(label: "Convoy.Activity", target: OperationQueues.processing)
    private let state = Locked(State())

    /// A monitor that is not enabled.
    ///
    /// - Parameter queue: the queue of the handler; nil is the main queue.
    public convenience init(queue: DispatchQueue? = nil) { self.init(queue: queue, clock: MonotonicClock()) }

    /// A monitor of some of the operations.
    ///
    /// - Parameter counts: says which operations count. Called on any thread, and must be short.
    package init(
        queue: DispatchQueue?, clock: any SchedulingClock = MonotonicClock(),
        counts: @escaping @Sendable (URLConnectionOperation) -> Bool = { _ in true }
    ) {
        (handlerQueue, self.clock, self.counts) = (queue, clock, counts)
    }

    deinit {
        ActivityListeners.remove(self)
        let (streams, timer) = state.withLock { ($0.streams, $0.timer) }
        for stream in streams.values { stream.finish() }
        timer?.cancel()
    }

    // MARK: Settings

    /// Whether the monitor counts operations; false at first. When it is set to false, the activity is hidden at once.
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

    /// How many seconds something must be under way before it is shown; 1 unless set. What is less than 0 or NaN is 0. A delay
    /// that has begun keeps its length.
    public var activationDelay: TimeInterval {
        get { state.withLock { $0.activationDelay } }
        set { state.withLock { $0.activationDelay = newValue } }
    }

    /// How many seconds after the end of everything the activity is hidden; 0.17 unless set. What is less than 0 or NaN is 0.
    public var completionDelay: TimeInterval {
        get { state.withLock { $0.completionDelay } }
        set { state.withLock { $0.completionDelay = newValue } }
    }

    // MARK: Activity

    /// Whether the activity is to be shown.
    public var isNetworkActivityVisible: Bool { state.withLock { $0.activity.isVisible } }

    /// How much is under way: operations, and what was counted by hand.
    public var activityCount: Int { state.withLock { $0.count } }

    /// Counts something that is under way besides the operations, as a connection of your own: until
    /// ``decrementActivityCount()``.
    public func incrementActivityCount() {
        state.withLock { state in
            state.extra += 1
            update(&state)
        }
    }

    /// Ends what ``incrementActivityCount()`` has begun. Does nothing if nothing was counted by hand.
    public func decrementActivityCount() {
        state.withLock { state in
            state.extra = max(0, state.extra - 1)
            update(&state)
        }
    }

    // MARK: Reports

    /// Is called when the activity is to be shown, with true, or hidden, with false: in order, on the queue that the
    /// initializer was given. The counterpart of `setNetworkingActivityActionWithBlock:`.
    public var activityHandler: (@Sendable (_ isVisible: Bool) -> Void)? {
        get { state.withLock { $0.handler } }
        set {
            let old = state.withLock { state in
                defer { state.handler = newValue }
                return state.handler
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Whether the activity is to be shown: as it is now, and each time when that changes. Ends when the monitor is
    /// released. To be iterated over once; each reading of the property makes a new one.
    ///
    /// Who is slower than the changes misses some of them, but never the last.
    public var activityUpdates: AsyncStream<Bool> {
        let (stream, continuation) = AsyncStream.makeStream(of: Bool.self, bufferingPolicy: .bufferingNewest(1))
        let key = state.withLock { state in
            state.nextKey += 1
            return state.nextKey
        }
        continuation.onTermination = { [weak self] _ in self?.removeStream(key) }
        // On the queue that reports the changes, so that none of them comes before.
        ownQueue.async { [weak self] in
            guard let self else { return continuation.finish() }
            let isVisible = state.withLock { state in
                state.streams[key] = continuation
                return state.reported
            }
            // Who has gone meanwhile was not there to be removed.
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

    /// Under the lock, so that the order of the queue is that of the changes: to add to it, and to a clock, calls no other code.
    private func carryOut(_ action: ActivityState.Action, _ state: inout State) {
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
    /// The state is read here, under the lock: whatever is reported late, the last one sees how the operation is in the end.
    func activityDidChange(of operation: URLConnectionOperation) {
        guard counts(operation) else { return }
        let key = ObjectIdentifier(operation)
        state.withLock { state in
            guard state.isEnabled else { return }
            if operation.state == .executing { state.operations.insert(key) } else { state.operations.remove(key) }
            update(&state)
        }
    }
}

/// Decides when a program shows that it uses the network: not for what is over at once, and without flickering between two
/// requests. The rules are those of AFNetworking's `AFNetworkActivityIndicatorManager`.
///
/// A plain value: it says what is to be done, and has a method for the end of a delay.
struct ActivityState: Equatable {
    enum Phase: Equatable {
        /// Nothing is shown, and nothing is under way.
        case notActive
        /// Something has begun; it is shown if there still is something when the delay is over.
        case delayingStart
        /// It is shown.
        case active
        /// Nothing is under way any more; it is shown until the delay is over, in case something follows.
        case delayingEnd
    }

    enum Delay: Equatable { case activation, completion }

    enum Action: Equatable {
        case nothing
        /// Wait, and call ``delayDidPass(_:)`` with the number.
        case wait(Delay, number: UInt)
        case show
        case hide
    }

    private(set) var phase = Phase.notActive
    /// Whether something is under way.
    private(set) var isOccurring = false
    /// The number of the last delay. An earlier one that passes has no meaning any more.
    private var number: UInt = 0

    /// Whether the activity is shown.
    var isVisible: Bool { phase == .active || phase == .delayingEnd }

    /// Whether a delay is under way.
    var isDelaying: Bool { phase == .delayingStart || phase == .delayingEnd }

    /// Something has begun, or all has ended.
    mutating func setOccurring(_ isOccurring: Bool) -> Action {
        self.isOccurring = isOccurring
        switch (phase, isOccurring) {
        case (.notActive, true): return wait(.activation, in: .delayingStart)
        case (.active, false): return wait(.completion, in: .delayingEnd)
        case (.delayingEnd, true):
            phase = .active
            number &+= 1
            return .nothing
        // The delay goes on, whatever comes in it.
        case (.delayingStart, _), (.notActive, false), (.active, true), (.delayingEnd, false): return .nothing
        }
    }

    /// A delay is over.
    mutating func delayDidPass(_ number: UInt) -> Action {
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

    /// Activity is not shown any more.
    mutating func reset() -> Action {
        defer { (phase, isOccurring, number) = (.notActive, false, number &+ 1) }
        return isVisible ? .hide : .nothing
    }

    private mutating func wait(_ delay: Delay, in phase: Phase) -> Action {
        self.phase = phase
        number &+= 1
        return .wait(delay, number: number)
    }
}
