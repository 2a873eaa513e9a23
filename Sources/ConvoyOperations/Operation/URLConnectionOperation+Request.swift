import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A request as an attempt would send it, with the idle timeout and the current token.
package struct RequestPreview: Sendable {
    package let request: URLRequest
    package let configuration: ConnectionConfiguration
    /// The operation's own credential, if the request's target may receive it.
    package let credential: URLCredential?
    package let cookies: CookieKeeperReference?
    /// Whether Convoy's `User-Agent` is added to a request without one.
    package let addsUserAgent: Bool
}

/// Methods that modify the request of an operation, and renew the stream of its body.
extension URLConnectionOperation {
    /// Whether the request must not use a cellular network.
    package final var barsCellularAccess: Bool { transferRequest.barsCellularAccess }

    /// The request as the next attempt would send it.
    package final var requestPreview: RequestPreview {
        let (plain, values, credential, authenticator) = core.withLock {
            ($0.requestWithTimeout(under: $0.common.prepared), $0.common.values, $0.credentialSource.own, $0.authenticator)
        }
        let request = authenticator?.token.flatMap { try? authorized(plain, with: $0) } ?? plain
        return RequestPreview(
            request: request.urlRequest, configuration: values.connectionConfiguration, credential: credential,
            cookies: values.cookies, addsUserAgent: values.holder.addsUserAgent)
    }

    /// Modifies the request before the operation starts. The closure runs again if another thread changes the request at
    /// the same time.
    package final func changeRequest(_ change: (inout URLRequest) -> Void) {
        var isReplaced = false
        repeat {
            let old = transferRequest
            var request = old.urlRequest
            change(&request)
            set(TransferRequest(request)) { core, new in
                isReplaced = core.request === old
                if isReplaced { swap(&core.request, &new) }
            }
        } while !isReplaced
    }

    /// Replaces the request.
    final func replaceRequest(with request: URLRequest) {
        set(TransferRequest(request)) { swap(&$0.request, &$1) }
    }

    /// Returns a new stream for the body, positioned at its start; nil if no new stream can be created. Calls user
    /// code.
    final func freshBodyStream(for stream: InputStream) -> InputStream? {
        if let delegate = delegate(interestedIn: .bodyStreams), let fresh = delegate.newBodyStream(of: self) {
            return fresh
        }
        return try? (stream as? any ReplayableBodyStream)?.replay()
    }

    /// Returns whether a new stream for the body can be created.
    final func canReplay(_ stream: InputStream?) -> Bool {
        stream == nil || stream is any ReplayableBodyStream || delegate(interestedIn: .bodyStreams) != nil
    }
}
