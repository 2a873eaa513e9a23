import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking

/// Redirects: calls the delegate, and holds the transfer back until the delegate has decided.
extension RequestChain {
    /// Returns the redirect to follow after a response; nil if the response is not a redirect or is delivered instead.
    func redirect(of response: ResponseHead) throws(URLError) -> Redirect? {
        guard RedirectRules.isRedirect(response.statusCode) else { return nil }
        var rules = RedirectRules(configuration)
        if configuration.routing.hsts != nil { rules.upgrade = { self.upgraded($0) } }
        let verdict = rules.evaluate(response, to: step.request.urlRequest, followed: followedRedirects)
        if configuration.returnsRedirects {
            if let event = verdict.eventAsResponse {
                traceRedirect(event)
                delegate?.connection(self, didHandle: event)
            }
            return nil
        }
        switch verdict {
        case .noRedirect: return nil
        case .follow(let redirect): return redirect
        case .refuse(let event, let refusal):
            traceRedirect(event)
            delegate?.connection(self, didHandle: event)
            throw URLError(refusing: event, refusal)
        }
    }

    /// Lets the delegate decide whether to follow a redirect. Returns false to abort the transfer with the pending
    /// failure.
    func ask(about redirect: Redirect) -> Bool {
        phase = .deciding
        let decision = Once<URLRequest?>()
        delegate?.connection(self, willFollow: redirect) { decision.set($0) }
        if let request = decision.take() { return decided(request, redirect) }
        updateFlow(.hold(.decision))
        // The decision is executed in a later turn of the run loop.
        decision.whenSet { [weak self] request in
            guard let self else { return }
            self.thread.perform { self.didDecide(request, redirect) }
        }
        return true
    }

    /// Executes a decision that was made after the call to the delegate returned.
    private func didDecide(_ request: URLRequest?, _ redirect: Redirect) {
        guard case .deciding = phase else { return }
        goOn(isAccepted: decided(request, redirect), lifting: .decision)
    }

    /// Continues with a response that was held back for a decision. Must not be called from a libcurl callback.
    func goOn(isAccepted: Bool, lifting hold: TransferHolds) {
        if isCancelled { return }
        if let stored = step.stored {
            updateFlow(.lift(hold))
            return stored.pump(self)
        }
        guard isAccepted else {
            // The rest of the response may never arrive.
            if let network, network.mayLeaveRest { return network.giveUpRest() }
            network?.stop()
            return fail(step.failure ?? failure(.unknown, "The response was not accepted."))
        }
        carryOut(updateFlow(.lift(hold)))
    }

    /// Executes a decision. Returns false to abort the transfer with the pending failure. The caller continues the
    /// transfer, because this may be called from a libcurl callback.
    private func decided(_ request: URLRequest?, _ redirect: Redirect) -> Bool {
        guard case .deciding = phase else { return true }
        var event = redirect.event(sending: request)
        if let request, let refusal = refusal(of: request, redirect) {
            event.outcome = .refused(refusal)
            phase = .loading
            step.failure = URLError(refusing: event, refusal)
        }
        traceRedirect(event)
        delegate?.connection(self, didHandle: event)
        guard step.failure == nil else { return false }

        if let request {
            phase = .draining(.request(request))
            return step.stored != nil || network?.awaitsRest(of: redirect.response) != false
        }
        phase = .loading
        do throws(URLError) {
            try prepareToDecode(redirect.response.codings, of: redirect.response)
        } catch {
            step.failure = error
        }
        deliver(redirect.response)
        return step.failure == nil
    }

    /// Returns the reason why a request must not be sent; nil if it can be. The request may differ from the one
    /// proposed by the rules.
    private func refusal(of request: URLRequest, _ redirect: Redirect) -> RedirectEvent.Refusal? {
        if redirect.withholdsBody(of: request) { return .bodyForOtherOrigin }
        if let stream = request.httpBodyStream, stream === step.request.bodyStream { return .bodyCannotBeSentAgain }
        redirectHistory.note(step.request.urlRequest, redirectedBy: redirect.response)
        return redirectHistory.leadsBack(to: request) ? .loop : nil
    }

    /// See ``Connection/redirected``.
    package var redirected: (request: URLRequest, followed: Int)? {
        followedRedirects > 0 ? (step.request.urlRequest, followedRedirects) : nil
    }

    func follow(_ request: URLRequest) {
        finishTransaction()
        followedRedirects += 1
        load(ChainStep(TransferRequest(request), after: step.flow))
    }
}

/// The redirected requests of a transfer, used to detect a loop before the limit is reached. A value type without I/O.
///
/// Only GET and HEAD count: another method may have changed the server's response. A response that sets a cookie or
/// requests a delay may also lead to a different response, so it clears the earlier requests.
struct RedirectHistory {
    private struct SentRequest: Hashable {
        let url: String
        let method: String
        let fields: [String: String]

        /// Creates the key of a request; nil for a request whose repetition may have a different result.
        init?(_ request: URLRequest) {
            let method = request.httpMethod ?? "GET"
            guard method == "GET" || method == "HEAD", let url = request.url?.absoluteString else { return nil }
            let text = HTTPAddress(url)?.text ?? url
            // Ignore the fragment, because it is not sent.
            self.url = String(text.prefix { $0 != "#" })
            self.method = method
            fields = request.allHTTPHeaderFields ?? [:]
        }
    }

    private var requests: Set<SentRequest> = []

    /// Records that a request was redirected.
    mutating func note(_ request: URLRequest, redirectedBy response: ResponseHead) {
        if response.hasField("set-cookie", "retry-after") { return requests.removeAll() }
        if let request = SentRequest(request) { requests.insert(request) }
    }

    /// Returns whether the request was redirected before, and nothing has changed since.
    func leadsBack(to request: URLRequest) -> Bool { SentRequest(request).map(requests.contains) ?? false }
}
