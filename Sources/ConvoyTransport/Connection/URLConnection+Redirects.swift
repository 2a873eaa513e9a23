import CCurl
import Foundation
import FoundationNetworking

/// Redirects: the delegate is asked, and the transfer waits for its answer.
extension URLConnection {
    func ask(about redirect: Redirect) {
        phase = .deciding(redirect)
        let decision = RedirectDecision()
        delegate?.connection(self, willFollow: redirect) { [weak self] request in
            guard decision.make(request), let self else { return }
            self.thread.perform { self.decided(request, redirect) }
        }
        if case .made(let request) = decision.awaitLater() { decided(request, redirect) }
    }

    private func decided(_ request: URLRequest?, _ redirect: Redirect) {
        guard case .deciding = phase else { return }
        let result = heldResult
        heldResult = nil
        if let request {
            phase = .following(request)
        } else {
            phase = .loading
            do throws(URLError) {
                try prepareToDecode(ContentCoding.codings(in: head.contentEncodings), of: redirect.response)
            } catch {
                pendingFailure = error
            }
            delegate?.connection(self, didReceive: redirect.response)
        }
        if let result, let handle { return easyHandle(handle, didFinishWith: result) }
        // The request's body may have become ready meanwhile, too.
        if isHeldBack || body != nil { resumeFlow() }
    }

    func follow(_ request: URLRequest) {
        if let stream = request.httpBodyStream, stream === currentRequest.bodyStream {
            return fail(
                URLError(
                    .requestBodyStreamExhausted, url: request.url,
                    "The redirect requires sending the body again, but its stream cannot be read twice."))
        }
        followedRedirects += 1
        load(.foundation(request))
    }
}
