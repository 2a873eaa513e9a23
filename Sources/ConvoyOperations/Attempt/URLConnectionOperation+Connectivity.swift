import ConvoyReachability
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A network that an operation needs.
struct NetworkCondition {
    let target: NetworkTarget
    /// Whether the route was missing when the attempt failed.
    let isGone: Bool
}

/// Methods that wait for the network.
extension URLConnectionOperation {
    /// The destination to which the request's connection needs a route; nil if it needs no route.
    package final var networkTarget: NetworkTarget? {
        let configuration = connectionConfiguration
        guard configuration.unixSocket == nil else { return nil }
        return transferRequest.target.map(configuration.connectedHost).map { NetworkTarget(host: $0) }
    }

    /// Ends the wait after an attempt as soon as the network returns, that is, a route to its target exists.
    func watch(_ network: NetworkCondition, for wait: RetryDelay, after attempt: Attempt) {
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
