import ConvoyReachability
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The wait between an attempt that has ended and the next attempt. The operation's lock guards it.
final class RetryDelay: @unchecked Sendable {
    /// The time on the clock at which the next attempt is due; the maximum value if an answer ends the wait.
    let due: UInt64
    /// The network whose return ends the wait early, if any.
    let network: NetworkCondition?
    let reason: WaitReason
    /// The waiting operation, which this reference keeps alive.
    var operation: URLConnectionOperation?
    /// The timers that end the wait. The first one that fires ends it.
    var timers: [any ClockTimer] = []
    var networkWait: NetworkReturn.Wait?

    init(until due: UInt64, or network: NetworkCondition? = nil, for reason: WaitReason = .retry) {
        self.due = due
        self.reason = reason
        self.network = network
    }

    /// Ends the wait. Call it without holding the lock, after the attempt has released it.
    func cancel() {
        for timer in timers { timer.cancel() }
        operation = nil
        networkWait = nil
        timers = []
    }
}

/// Methods that wait between two attempts, and report waits at a closed gate.
extension URLConnectionOperation {
    /// Begins the next attempt when an answer has arrived.
    ///
    /// - Parameter ask: A closure that requests the answer, called after the slot was released.
    func wait(for reason: WaitReason, after attempt: Attempt, _ ask: () -> Void) {
        eventLog?.note(.delay(for: reason))
        delay(RetryDelay(until: .max, for: reason), after: attempt)
        // If the operation was paused while the attempt was ending, the next attempt requests the answer.
        if isBackingOff(after: attempt) { ask() }
    }

    func delay(_ wait: RetryDelay, after attempt: Attempt) {
        core.withLock { _ in attempt.wait = wait }
        handle(.workWillRetry(attempt.number))
    }

    /// Waits after an attempt, then handles the event `retryDue`. If the next attempt has begun or the operation has
    /// finished, no wait is needed.
    func awaitRetry(after number: Lifecycle.AttemptNumber) {
        let current = core.withLock { core -> (attempt: Attempt, wait: RetryDelay)? in
            guard let attempt = core.attempt(number), isBackingOff(after: attempt), let wait = attempt.wait else {
                return nil
            }
            // From now on, the end of the wait releases the operation.
            wait.operation = self
            return (attempt, wait)
        }
        guard let (attempt, wait) = current else { return }
        if wait.due < .max { setTimer(of: wait, after: attempt, at: wait.due) }
        // If the wait has neither a deadline nor a network, the pending answer will end it.
        if let network = wait.network { watch(network, for: wait, after: attempt) }
    }

    private func isBackingOff(after attempt: Attempt) -> Bool {
        let life = lifecycle.value
        return life.isBackingOff && life.attemptNumber == attempt.number
    }

    /// Ends the wait at a deadline of the clock, unless it has ended earlier.
    private func setTimer(of wait: RetryDelay, after attempt: Attempt, at due: UInt64) {
        let number = attempt.number
        let timer = retryClock.schedule(at: due) { [weak self] in self?.handle(.retryDue(number)) }
        if !change(wait, after: attempt, { $0.timers.append(timer) }) { timer.cancel() }
    }

    /// Changes the wait after an attempt. Returns false if the wait is over.
    private func change(_ wait: RetryDelay, after attempt: Attempt, _ change: (RetryDelay) -> Void) -> Bool {
        core.withLock { _ in
            guard attempt.wait === wait else { return false }
            change(wait)
            return true
        }
    }

    /// Ends the wait after an attempt, because the next attempt is due or no longer needed. If a later attempt has
    /// begun, it has already ended the wait.
    func cancelWait(after number: Lifecycle.AttemptNumber) {
        let wait = core.withLock { $0.attempt(number)?.wait.take() }
        wait?.cancel()
    }

    // MARK: The network

    /// The destination to which the request's connection needs a route; nil if it needs no route.
    package final var networkTarget: NetworkTarget? {
        let configuration = connectionConfiguration
        guard configuration.unixSocket == nil else { return nil }
        return transferRequest.target.map(configuration.connectedHost).map { NetworkTarget(host: $0) }
    }

    /// Ends the wait after an attempt as soon as the network returns, that is, a route to its target exists.
    private func watch(_ network: NetworkCondition, for wait: RetryDelay, after attempt: Attempt) {
        let clock = retryClock
        let target = network.target
        do {
            let isLostFirst = !network.isGone
            let networkWait = try NetworkReturn.shared.wait(for: target, afterLoss: isLostFirst, lookingUp: true) {
                [weak self, weak attempt] in
                // Return from this callback first, because the next steps may take a long time.
                clock.schedule(at: clock.now) { [weak self, weak attempt] in
                    if let attempt { self?.networkDidReturn(target, after: attempt) }
                }
            }
            // If the wait is over, the observation is released outside the lock.
            _ = change(wait, after: attempt) { $0.networkWait = networkWait }
        } catch {
            // No socket is available to observe the network. A wait without a deadline ends after five seconds.
            guard wait.due == .max else { return }
            setTimer(of: wait, after: attempt, at: Nanoseconds.deadline(5, after: clock.now))
        }
    }

    private func networkDidReturn(_ target: NetworkTarget, after attempt: Attempt) {
        let now = retryClock.now
        let isHostAlone = !target.isAddress && target.isOutOfReach
        let (wait, delay) = core.withLock { core in
            (attempt.wait, core.retryRecord.noteNetworkReturn(at: now, isHostAlone: isHostAlone))
        }
        guard let wait, let delay else { return handle(.retryDue(attempt.number)) }
        setTimer(of: wait, after: attempt, at: Nanoseconds.deadline(delay, after: now))
    }

    // MARK: Gates

    /// The handler called when the operation waits at the closed gate of its host, on the queue of the `retryHandler`.
    package final var closedGateHandler: (@Sendable () -> Void)? {
        get { handler(\.closedGate) }
        set { setHandler(\.closedGate, newValue) }
    }

    /// Closes the gate of a host.
    func closeGate(_ gate: NextStep.GateClosure) {
        let deadline = Nanoseconds.deadline(gate.duration, after: retryClock.now)
        let patience = gate.patience.map { Nanoseconds.clamping(seconds: $0) }
        closeGate(of: gate.host, until: deadline, patience: patience)
    }

    /// Reports to monitors that the gate of the host is closed. The `retryHandler` is not called, because no attempt
    /// has failed.
    func reportClosedGate(until deadline: UInt64) {
        if let handler = closedGateHandler { (completionQueue ?? OperationQueues.processing).submit(handler) }
        guard let eventLog, let host = waitingHost else { return }
        let decision = RetryEvent.Decision.waitAtGate(until: retryClock.date(of: deadline))
        let event = RetryEvent(retryCount: retryCount, reason: .closedGate(host: host), decision: decision)
        eventLog.note(.event(.retryDecided(event.naming(request.url))))
    }

    /// The host whose slot the operation waits for: the host of its request, or the host to which it was redirected.
    private var waitingHost: String? {
        scheduler.object?.state.withLock { $0.host(of: self) } ?? schedulingHost
    }
}

extension ConnectionConfiguration {
    /// Returns the name or address of the host to which connections for a target are made.
    fileprivate func connectedHost(for target: Target) -> String {
        if let proxy = try? proxy.proxy(for: target) { return proxy.host }
        // The fixed address has the form `::HOST:PORT`, with an optional port.
        guard let fixed = fixedAddress(for: target)?.dropFirst(2), let colon = fixed.lastIndex(of: ":") else {
            return target.bareHost
        }
        return String(fixed[..<colon])
    }
}
