import ConvoyReachability
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that wait for the network.
extension URLConnectionOperation {
    /// The time after the return of a network during which its name servers may still be unknown, in seconds.
    private static let lookupLag: TimeInterval = 30
    /// The delays after failed lookups during `lookupLag`, in seconds.
    private static let lookupDelays: [TimeInterval] = [1, 3, 9]

    /// Returns the next attempt after a failure caused by a missing network; nil if the operation does not wait for a
    /// network, or the failure has another cause.
    func retryForNetwork(_ error: any Error, _ attempt: Attempt) -> NextAttempt? {
        guard waitsForConnectivity, let failure = error as? URLError, redirects.isEmpty,
            let target = networkTarget(of: failure)
        else { return nil }
        let request = self.request
        // If another URL failed, there was a redirect.
        let failed = failure.userInfo[NSURLErrorFailingURLErrorKey] as? URL
        guard failed == nil || failed == request.url?.withoutUserInfo else { return nil }
        guard canReplay(request.httpBodyStream) else { return nil }
        guard target.isOutOfReach else { return retryForLateLookup(failure) }
        // Give up if attempts keep failing although a route to the host's addresses exists.
        if core.withLock({ $0.retry?.returnsToHost ?? 0 }) > Self.lookupDelays.count { return nil }
        let count = core.withLock { core in
            core.retryRecord.count += 1
            return core.retryRecord.count - 1
        }
        tell(RetryEvent(retryCount: count, reason: .error(failure), decision: .waitForNetwork))
        return .whenAnswered(for: .connectivity) { [self] in awaitNetwork(target, after: attempt) }
    }

    /// The destination to which the request's connection needs a route; nil if it needs no route.
    package final var networkTarget: NetworkTarget? {
        let configuration = connectionConfiguration
        guard configuration.unixSocket == nil else { return nil }
        return core.withLock({ $0.request }).target.map(configuration.connectedHost).map { NetworkTarget(host: $0) }
    }

    /// Returns the destination whose missing route may have caused a failure; nil if the failure has another cause.
    private func networkTarget(of failure: URLError) -> NetworkTarget? {
        guard let target = networkTarget else { return nil }
        switch failure.code {
        case .notConnectedToInternet, .cannotFindHost, .dnsLookupFailed: return target
        // A host that refuses a connection has been reached. Without a route to it, the refusal came from elsewhere.
        case .cannotConnectToHost: return target.isAddress || failure.isOfProxyName ? target : nil
        default: return nil
        }
    }

    /// Returns the next attempt after a failed lookup shortly after the return of the network, when names may not
    /// resolve yet; nil if the operation is not retried for that reason.
    private func retryForLateLookup(_ failure: URLError) -> NextAttempt? {
        guard [.cannotFindHost, .dnsLookupFailed].contains(failure.code) || failure.isOfProxyName else { return nil }
        let now = retryClock.now
        let (count, delay) = core.withLock { core -> (Int, TimeInterval?) in
            guard let record = core.retry, let returned = record.networkReturned,
                Nanoseconds.seconds(from: returned, to: now) < Self.lookupLag, record.lookups < Self.lookupDelays.count
            else { return (0, nil) }
            let delay = Self.lookupDelays[record.lookups]
            record.lookups += 1
            record.count += 1
            return (record.count - 1, delay)
        }
        guard let delay else { return nil }
        tell(RetryEvent(retryCount: count, reason: .error(failure), decision: .retry(after: delay)))
        return .later(RetryDelay(until: Nanoseconds.deadline(delay, after: now)))
    }

    private func awaitNetwork(_ target: NetworkTarget, after attempt: Attempt) {
        guard let wait = core.withLock({ _ in attempt.wait }) else { return }
        do {
            try end(wait, of: attempt, withReturnOf: target, afterLoss: false)
        } catch {
            // No socket is available to observe the network, so try again after five seconds.
            end(wait, of: attempt, at: Nanoseconds.deadline(5, after: retryClock.now))
        }
    }

    /// The network that the request's connection needs; nil if it needs no network.
    var networkToAwait: NetworkCondition? {
        networkTarget.map { NetworkCondition(target: $0, isGone: $0.isOutOfReach) }
    }

    /// Ends the wait for a retry early when the network returns. If no socket is available to observe the network, the
    /// wait keeps its length.
    func end(_ wait: RetryDelay, of attempt: Attempt, withReturnOf network: NetworkCondition) {
        try? end(wait, of: attempt, withReturnOf: network.target, afterLoss: !network.isGone)
    }

    private func end(
        _ wait: RetryDelay, of attempt: Attempt, withReturnOf target: NetworkTarget, afterLoss: Bool
    ) throws {
        let clock = retryClock
        let networkWait = try NetworkReturn.shared.wait(for: target, afterLoss: afterLoss, lookingUp: true) {
            [weak self, weak attempt] in
            // Return from this callback first, because the next steps may take long.
            clock.schedule(at: clock.now) { [weak self, weak attempt] in
                if let attempt { self?.networkDidReturn(target, after: attempt) }
            }
        }
        // If the wait is over, the observation is released outside the lock.
        core.withLock { _ in if attempt.wait === wait { wait.networkWait = networkWait } }
    }

    private func networkDidReturn(_ target: NetworkTarget, after attempt: Attempt) {
        let now = retryClock.now
        // If a route exists only to the host, and not to the Internet, attempts that keep failing must not follow each
        // other without a delay.
        let isHostAlone = !target.isAddress && target.isOutOfReach
        let (wait, delay) = core.withLock { core -> (RetryDelay?, TimeInterval?) in
            let record = core.retryRecord
            let isSoon = record.networkReturned.map { Nanoseconds.seconds(from: $0, to: now) < Self.lookupLag } ?? false
            record.returnsToHost = isHostAlone ? (isSoon ? record.returnsToHost : 0) + 1 : 0
            record.networkReturned = now
            record.lookups = 0
            let earlier = record.returnsToHost - 2
            return (attempt.wait, Self.lookupDelays.indices.contains(earlier) ? Self.lookupDelays[earlier] : nil)
        }
        guard let wait, let delay else { return handle(.retryDue(attempt.number)) }
        end(wait, of: attempt, at: Nanoseconds.deadline(delay, after: now))
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

extension URLError {
    /// Whether the error reports that the name of a proxy could not be resolved.
    fileprivate var isOfProxyName: Bool {
        guard let underlying = userInfo[NSUnderlyingErrorKey] as? NSError else { return false }
        // 5 is CURLE_COULDNT_RESOLVE_PROXY in <curl/curl.h>.
        return underlying.domain == Self.libcurlErrorDomain && underlying.code == 5
    }
}
