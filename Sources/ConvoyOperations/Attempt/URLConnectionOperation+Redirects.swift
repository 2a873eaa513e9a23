import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that decide about redirects and record their results.
extension URLConnectionOperation {
    /// The handler that decides about each redirect. It is called on `completionQueue` or, if that is nil, on an
    /// internal thread, which it may block. The transfer waits for the decision. Without a handler, redirects are
    /// followed, except for redirects that would send the request body to another origin: see
    /// `ConnectionConfiguration.sendsBodiesAcrossOrigins`.
    public final var redirectHandler: RedirectHandler? {
        get { handler(\.redirect) }
        set { setHandler(\.redirect, newValue) }
    }

    /// The redirects of the latest attempt so far, in order, with the decision about each. If a redirect made the
    /// attempt fail, that redirect is the last element.
    public final var redirects: [RedirectEvent] { extra(\.redirects) ?? [] }

    /// Adds the result of a redirect.
    func note(_ redirect: RedirectEvent) {
        depositForRedirect(redirect)
        eventLog?.note(.event(.redirected(redirect)))
        core.withLock { $0.redirects = ($0.redirects ?? []) + [redirect] }
    }

    /// Decides about a redirect: calls the handler or the delegate, if any, and otherwise accepts the request proposed
    /// by the redirect rules, with a new body stream if the body must be read again.
    func decide(
        about redirect: Redirect, _ attempt: Attempt, _ then: @escaping @Sendable (URLRequest?) -> Void
    ) {
        let proposed = redirect.request
        if reportsAnswer, redirect.response.cacheUse == nil { hostDidAnswer(Target.place(of: redirect.response.url)) }
        let decide: @Sendable (URLRequest?) -> Void = { [self] in follow($0, attempt, then) }
        let handler = redirectHandler
        let delegate = handler == nil ? delegate(interestedIn: .redirects) : nil
        if handler != nil || delegate?.decidesForUser == true { redirect.bodyConsent?.give() }
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
            if let queue = completionQueue { queue.submit(answer) } else { answer() }
        }
    }

    /// Lets the transfer follow a redirect as soon as the operation has a slot of the new host, whose limit and gate
    /// apply from now on. The transfer waits without a timeout. If it must stop, no answer is needed.
    private func follow(
        _ request: URLRequest?, _ attempt: Attempt, _ then: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let request, let scheduler = scheduler.object, let host = Target.place(of: request.url) else {
            return then(request)
        }
        let redirect = UnansweredRedirect(host: host, answer: Once { then(request) })
        core.withLock { _ in attempt.unansweredRedirect = redirect }
        wait(for: redirect, scheduler, attempt)
    }

    private func wait(for redirect: UnansweredRedirect, _ scheduler: Scheduler, _ attempt: Attempt) {
        scheduler.redirect(self, to: redirect.host, if: { [self] in isRunning(attempt) }) { redirect.answer.set(()) }
    }

    /// Waits again for the slot of a redirect, after a pause released the slot while the transfer was held.
    func waitAgainAfterRedirect(of attempt: Attempt) {
        guard let scheduler = scheduler.object, let redirect = core.withLock({ _ in attempt.unansweredRedirect }),
            !redirect.answer.isSet
        else { return }
        wait(for: redirect, scheduler, attempt)
    }

    /// Counts a redirected request for the retry budget of its host, unless it is a retry.
    private func depositForRedirect(_ redirect: RedirectEvent) {
        guard [.followed, .changedByHandler].contains(redirect.outcome), retryCount == 0,
            let budget = retryPolicy?.budget, let host = Target.place(of: redirect.to),
            Target.place(of: redirect.from) != host
        else { return }
        budget.deposit(forHost: host)
    }
}

/// A redirect that waits for a slot of its target host.
struct UnansweredRedirect {
    let host: String
    /// Set when the transfer may follow the redirect.
    let answer: Once<Void>
}
