import ConvoySupport
import Foundation
import FoundationNetworking

/// Reads, within limits, the rest of a redirect, of a response that a stored one replaces, or of an error response.
extension NetworkExchange {
    /// Returns whether the rest of the response is discarded.
    private func isRestUnneeded(_ chain: RequestChain) -> Bool {
        if case .draining = chain.phase { true } else { false }
    }

    /// Whether the rest of a held-back response can be dropped immediately, because it may never arrive.
    var mayLeaveRest: Bool { chain.map { isRestUnneeded($0) && $0.step.failure == nil && heldResult == nil } ?? false }

    /// Returns whether to read the rest of a response after its head, either to keep its connection or to complete the
    /// cached body. Returns false to abort the transfer, if the end of the body would close the connection anyway.
    func awaitsRest(of head: ResponseHead) -> Bool {
        guard let chain, isRestUnneeded(chain), mayHaveRest(head, chain) else { return true }
        if chain.step.cacheWriter == nil,
            response.head.isEndedByConnection || head.contentLength ?? 0 > DrainLimit.unneeded.bytes
        {
            return false
        }
        limitRest(to: .unneeded)
        return true
    }

    /// Limits the rest of an error response; see ``Connection/limitBodyOfError()``.
    func limitRestOfError(_ chain: RequestChain) {
        if isHeadWhole, mayHaveRest(receivedHead(chain), chain) { limitRest(to: .error) }
    }

    /// Limits the time that libcurl spends discarding the body of an intermediate response in a negotiation.
    func limitRestOfHeldHead(_ head: ResponseHead, _ chain: RequestChain) {
        if head.asksForCredentials, mayHaveRest(head, chain) { limitRest(to: .negotiation) }
    }

    private func mayHaveRest(_ head: ResponseHead, _ chain: RequestChain) -> Bool {
        chain.step.request.method != "HEAD" && head.statusCode != 304 && head.contentLength != 0 && heldResult == nil
    }

    private func limitRest(to limit: DrainLimit) {
        let meter = DrainMeter(limit, at: multi.runLoop.turnTime)
        rest = meter
        handle.schedule(at: meter.deadline, on: multi.runLoop)
    }

    /// Returns whether to stop reading the rest now.
    func isRestOver(at now: MonotonicTime, _ chain: RequestChain) -> Bool {
        if isRestUnneeded(chain) { return now >= nextDeadline ?? .max }
        guard chain.isLoading, heldResult == nil else { return false }
        if chain.step.flow.isHeldBack || !chain.step.flow.isFree { rest?.postpone(to: now) }
        return rest?.isOver(at: now) == true
    }

    /// Continues without the rest, and closes the connection. Must not be called from a libcurl callback.
    func giveUpRest() {
        guard let chain else { return }
        stop()
        if isRestUnneeded(chain) { chain.leaveRest(isWhole: false) } else { chain.endWithoutRest() }
    }
}

extension RequestChain {
    /// Continues after a response whose body is not needed, whether complete or not.
    func leaveRest(isWhole: Bool) {
        if isCancelled { return end { $0.connectionDidCancel(self) } }
        if let failure = step.failure { return fail(failure) }
        guard case .draining(let next) = phase else { return }
        switch next {
        case .stored(let stored): deliver(stored)
        // The cache stores only complete bodies.
        case .request(let request) where isWhole: finishStoring { $0.follow(request) }
        case .request(let request): follow(request)
        }
    }

    /// Ends the transfer with the part of an error response's body that has arrived.
    func endWithoutRest() {
        if isCancelled { return end { $0.connectionDidCancel(self) } }
        if let failure = step.failure { return fail(failure) }
        let received = network?.rest?.received ?? 0
        network?.deliverHeldHead(self)
        let error = URLError(leavingRestOf: step.request.url, after: received)
        traceFailure(error)
        finishTransaction(error.localizedDescription)
        end { $0.connection(self, didFailWith: error) }
    }
}

extension URLError {
    private static let leftRestKey = "ConvoyLeftRest"

    package init(leavingRestOf url: URL?, after count: Int) {
        self = URLError(
            .timedOut, url: url, "The body of the error response was not read completely: it is too long or too slow."
        ).adding(count, for: Self.leftRestKey)
    }

    /// Whether the only failure is that the rest of an error response's body exceeded the limit of
    /// ``Connection/limitBodyOfError()``.
    package var leavesRest: Bool { userInfo[Self.leftRestKey] != nil }
}
