import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Redirects: the decisions about them, and their results.
extension URLConnectionOperation {
    /// Decides about each redirect. Called on `completionQueue`, or, if that is nil, on one of the library's threads,
    /// which it may block. The transfer waits for the answer. Without a handler, redirects are followed, except for
    /// those that would send the request's body to another origin: see
    /// `ConnectionConfiguration.sendsBodiesAcrossOrigins`.
    public final var redirectHandler: RedirectHandler? {
        get { core.withLock { $0.rareHandlers?.redirect } }
        set { setHandler(\.redirect, newValue) }
    }

    /// The redirects of the operation's latest attempt so far, in order, with the decision about each. The last one may
    /// be the one that it failed with.
    public final var redirects: [RedirectEvent] { core.withLock { $0.redirects } ?? [] }

    /// Adds the result of a redirect.
    func note(_ redirect: RedirectEvent) {
        depositForRedirect(redirect)
        metricsRecord?.note(redirect)
        eventLog?.note(.event(.redirected(redirect)))
        core.withLock { $0.redirects = ($0.redirects ?? []) + [redirect] }
    }

    /// Answers the transfer with the request that the rules propose, unless the user decides, or the body must be read
    /// again.
    func decide(
        about redirect: Redirect, _ attempt: Attempt, _ then: @escaping @Sendable (URLRequest?) -> Void
    ) {
        let proposed = redirect.request
        if reportsAnswer, redirect.response.cacheUse == nil { hostDidAnswer(hostKey(of: redirect.response.url)) }
        let decide: @Sendable (URLRequest?) -> Void = { [self] in follow($0, attempt, then) }
        let handler = redirectHandler
        let delegate = handler == nil ? delegate(interestedIn: .redirects) : nil
        if handler != nil || delegate != nil { redirect.bodyConsent?.give() }
        let isReplayed = proposed.httpBodyStream != nil && canReplay(proposed.httpBodyStream)
        guard handler != nil || delegate != nil || isReplayed else { return decide(proposed) }
        // The user's stream and handler may both block.
        BlockingWorkers.shared.perform { [self] in
            var next = proposed
            if isReplayed, let stream = next.httpBodyStream, let fresh = freshBodyStream(for: stream) {
                next.httpBodyStream = fresh
            }
            if let delegate {
                return delegate.operation(
                    self, willFollow: next, after: redirect.response.urlResponse, decide: decide)
            }
            guard let handler else { return decide(next) }
            let replayed = next
            let answer: @Sendable () -> Void = {
                decide(handler(self, replayed, redirect.response.urlResponse))
            }
            if let queue = completionQueue { queue.async(execute: answer) } else { answer() }
        }
    }

    /// Answers the transfer as soon as the operation has a slot of the host that it is redirected to, whose limit and
    /// gate count from now on. The transfer waits without a timeout; one that must stop needs no answer.
    private func follow(
        _ request: URLRequest?, _ attempt: Attempt, _ then: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let request, let scheduler = scheduler.object, let host = hostKey(of: request.url) else {
            return then(request)
        }
        scheduler.redirect(self, to: host, if: { [self] in isRunning(attempt) }) { then(request) }
    }

    /// Counts a redirected request for the retry budget of its host, unless it is a retry.
    private func depositForRedirect(_ redirect: RedirectEvent) {
        guard [.followed, .changedByHandler].contains(redirect.outcome), retryCount == 0,
            let budget = retryPolicy?.budget, let host = redirect.to.flatMap({ HostKey.of($0) }),
            HostKey.of(redirect.from) !== host
        else { return }
        budget.deposit(forHost: host.name)
    }
}
