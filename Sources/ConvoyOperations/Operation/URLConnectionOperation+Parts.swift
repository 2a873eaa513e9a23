import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

extension URLConnectionOperation {
    /// The runner that performs the work of the operation; nil, the default, for a single transfer. Set it before the
    /// operation starts.
    package final var worker: (any AttemptRunner)? {
        get { extra(\.worker) }
        set {
            set(newValue) { swap(&$0.worker, &$1) }
            guard let newValue else { return }
            if newValue.workedClass == ObjectIdentifier(type(of: self)) { declare([.ofLibrary, .startedDirectly]) }
            if !newValue.takesSlot { declare(.slotless) }
        }
    }

    /// Makes the operation a part of `parent`. The part adopts the parent's settings, and the parent's handlers decide
    /// about redirects and challenges. A part is not retried unless nothing was sent, uses no cache, does not share its
    /// transfer, and posts no notifications. A part for another origin receives none of the parent's secrets, as after
    /// a redirect.
    ///
    /// - Parameters:
    ///   - decoding: Whether to decode a body if the server encoded it although no encoding was requested.
    ///   - identity: Whether to request the body without an encoding.
    package final func adoptSettings(of parent: URLConnectionOperation, decoding: Bool, identity: Bool = false) {
        let (common, redirect, challenge, context) = parent.core.withLock { core in
            core.common.makeShared()
            return (core.common, core.handlers.redirect, core.handlers.challenge, core.traceContext)
        }
        let settings = common.ofPart(decoding: decoding, identity: identity)
        set(settings) { core, settings in
            swap(&core.common, &settings)
            // The requests of the part belong to the parent's trace.
            core.traceContext = context
        }
        addEvents(to: parent)
        if let base = parent.request.url, let own = request.url, base != own,
            !SecretScope(of: base).mayReceiveSecrets(own)
        {
            change { values in
                values.credential = nil
                values.authenticator = nil
                values.connectionConfiguration.clientIdentity = nil
            }
            var request = request
            connectionConfiguration.removeSecrets(of: &request, madeFor: base)
            let cleared = request
            replaceRequest(with: cleared)
        }
        if parent.delegate != nil { setDelegate(ForwardingDelegate(parent)) }
        if let redirect {
            redirectHandler = { [weak parent] _, request, response in
                guard let parent else { return request }
                return redirect(parent, request, response)
            }
        }
        if let challenge {
            authenticationChallengeHandler = { [weak parent] _, asked, answer in
                guard let parent else { return answer(.cancel) }
                challenge(parent, asked, answer)
            }
        }
    }

    /// Allows the server to pause while it sends the body. After the response head has arrived, the transfer may be
    /// arbitrarily slow and may go without a byte for `limit` seconds, or forever if `limit` is nil. The usual idle
    /// timeout applies until the head arrives.
    package final func allowSilence(for limit: TimeInterval?) {
        let request = transferRequest.urlRequest
        change { values in
            values.connectionConfiguration.stallLimit = nil
            let usual = values.idleTimeout ?? request.timeoutInterval
            values.connectionConfiguration.timeoutIntervalForHead =
                values.connectionConfiguration.timeoutIntervalForHead ?? usual
            values.idleTimeout = limit ?? 0
        }
    }

    /// The handler called on the network thread with each interim response (1xx) except 100. It must not block.
    package final var interimResponseHandler: (@Sendable (ResponseHead) -> Void)? {
        get { handler(\.interim) }
        set { setHandler(\.interim, newValue) }
    }

    /// The head of the response; nil until it has arrived.
    package final var responseHead: ResponseHead? { currentHead }
}
