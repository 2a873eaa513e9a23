import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Redirects: what is decided about them, and what became of them.
extension URLConnectionOperation {
    /// Decides about each redirect. Called on `completionQueue`, or, if that is nil, on one of the library's threads,
    /// which it may block. The transfer waits for the answer. Without a handler, redirects are followed, but for those that
    /// would send the request's body to another origin: see `ConnectionConfiguration.sendsBodiesAcrossOrigins`.
    public final var redirectHandler: RedirectHandler? {
        get { core.withLock { $0.rareHandlers?.redirect } }
        set { setHandler(\.redirect, newValue) }
    }

    /// The redirects of the operation's latest attempt so far, in order: what was done about each, and why. The last one may
    /// be the one that it failed with.
    public final var redirects: [RedirectEvent] { core.withLock { $0.redirects } ?? [] }

    /// Adds what became of a redirect.
    func note(_ redirect: RedirectEvent) {
        depositForRedirect(redirect)
        metricsRecord?.note(redirect)
        story?.note(.event(.redirected(redirect)))
        core.withLock { $0.redirects = ($0.redirects ?? []) + [redirect] }
    }

    /// Answers the transfer: with what the rules propose, unless the user decides, or the body has to be read again.
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
        // The user's stream and the user's handler may both block.
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

    /// Answers the transfer as soon as the operation has a slot of the host to which it is redirected: that one's limit and
    /// gate count from now on. The transfer waits without a timeout. One that was asked to stop needs no answer.
    private func follow(
        _ request: URLRequest?, _ attempt: Attempt, _ then: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let request, let scheduler = scheduler.object, let host = hostKey(of: request.url) else {
            return then(request)
        }
        scheduler.redirect(self, to: host, if: { [self] in isRunning(attempt) }) { then(request) }
    }

    /// Counts a request to which a redirect leads for the budget of its host, if it is not a retry.
    private func depositForRedirect(_ redirect: RedirectEvent) {
        guard [.followed, .changedByHandler].contains(redirect.outcome), retryCount == 0,
            let budget = retryPolicy?.budget, let host = redirect.to.flatMap({ HostKey.of($0) }),
            HostKey.of(redirect.from) !== host
        else { return }
        budget.deposit(forHost: host.name)
    }
}
