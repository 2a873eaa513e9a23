import ConvoyReachability
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Waiting for the network.
extension URLConnectionOperation {
    /// How long after a network returns its name servers may still be unknown, in seconds.
    private static let lookupLag: TimeInterval = 30
    /// The delays between failed lookups in that time, in seconds.
    private static let lookupDelays: [TimeInterval] = [1, 3, 9]

    /// Returns the next attempt after a failure without a network; nil if the operation does not wait, or the failure
    /// has another cause.
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
        // A route to its addresses existed each time.
        if core.withLock({ $0.retry?.returnsToHost ?? 0 }) > Self.lookupDelays.count { return nil }
        let count = core.withLock { core in
            core.retryRecord.count += 1
            return core.retryRecord.count - 1
        }
        tell(RetryEvent(retryCount: count, reason: .error(failure), decision: .waitForNetwork))
        return .whenAnswered(for: .connectivity) { [self] in awaitNetwork(target, after: attempt) }
    }

    /// The destination that the request's connection needs a route to; nil if it needs none.
    package final var networkTarget: NetworkTarget? {
        let configuration = connectionConfiguration
        guard configuration.unixSocket == nil else { return nil }
        return core.withLock({ $0.request }).target.map(configuration.connectedHost).map { NetworkTarget(host: $0) }
    }

    /// The destination without a route; nil if the failure has another cause.
    private func networkTarget(of failure: URLError) -> NetworkTarget? {
        guard let target = networkTarget else { return nil }
        switch failure.code {
        case .notConnectedToInternet, .cannotFindHost, .dnsLookupFailed: return target
        // A host that refuses a connection has been reached. Without a route to it, the refusal came from elsewhere.
        case .cannotConnectToHost: return target.isAddress || failure.isOfProxyName ? target : nil
        default: return nil
        }
    }

    /// Returns the next attempt for the time when the network has returned but names cannot be looked up yet.
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
            // No socket is available now.
            end(wait, of: attempt, at: Nanoseconds.deadline(5, after: retryClock.now))
        }
    }

    /// The network that the request's connection needs; nil if it needs none.
    var networkToAwait: NetworkCondition? {
        networkTarget.map { NetworkCondition(target: $0, isGone: $0.isOutOfReach) }
    }

    /// Ends the wait for a retry early when the network returns. If no socket is available to detect that, the wait
    /// keeps its length.
    func end(_ wait: RetryDelay, of attempt: Attempt, withReturnOf network: NetworkCondition) {
        try? end(wait, of: attempt, withReturnOf: network.target, afterLoss: !network.isGone)
    }

    private func end(
        _ wait: RetryDelay, of attempt: Attempt, withReturnOf target: NetworkTarget, afterLoss: Bool
    ) throws {
        let clock = retryClock
        let networkWait = try NetworkReturn.shared.wait(for: target, afterLoss: afterLoss, lookingUp: true) {
            [weak self, weak attempt] in
            // The next steps may take long.
            clock.schedule(at: clock.now) { [weak self, weak attempt] in
                if let attempt { self?.networkDidReturn(target, after: attempt) }
            }
        }
        // Otherwise it is released without the lock.
        core.withLock { _ in if attempt.wait === wait { wait.networkWait = networkWait } }
    }

    private func networkDidReturn(_ target: NetworkTarget, after attempt: Attempt) {
        let now = retryClock.now
        // If there is a route to the host alone and attempts still fail, they must not follow each other without a
        // delay.
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
    /// The name or address that connections for a target are made to.
    fileprivate func connectedHost(for target: Target) -> String {
        if let proxy = try? proxy.proxy(for: target) { return proxy.host }
        // Two colons, a host, a colon, and optionally a port.
        guard let fixed = fixedAddress(for: target)?.dropFirst(2), let colon = fixed.lastIndex(of: ":") else {
            return target.bareHost
        }
        return String(fixed[..<colon])
    }
}

extension URLError {
    /// Whether the name of a proxy could not be resolved.
    fileprivate var isOfProxyName: Bool {
        guard let underlying = userInfo[NSUnderlyingErrorKey] as? NSError else { return false }
        // CURLE_COULDNT_RESOLVE_PROXY of <curl/curl.h>.
        return underlying.domain == Self.libcurlErrorDomain && underlying.code == 5
    }
}
