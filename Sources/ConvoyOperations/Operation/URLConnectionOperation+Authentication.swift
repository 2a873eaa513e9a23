import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Authentication.
extension URLConnectionOperation {
    /// Answers a challenge: calls `answer` once, now or later, on any thread. Until then the operation has no slot in
    /// its queue. If `answer` is released without a call, the default applies.
    public typealias AuthenticationChallengeHandler =
        @Sendable (
            _ operation: URLConnectionOperation, _ challenge: AuthenticationChallenge,
            _ answer: @escaping @Sendable (AuthenticationDisposition) -> Void
        ) -> Void

    /// Asked about each 401 and 407 with a method that is supported: Basic (RFC 7617), Digest (RFC 7616), Bearer (RFC
    /// 6750), NTLM and Negotiate (RFC 4559), those two if libcurl supports them. The strongest comes first. The
    /// exchange has then ended, and the answer begins another, in which a body is sent again: a stream must be a
    /// `ReplayableBodyStream`, or the operation fails with `URLError.requestBodyStreamExhausted`.
    ///
    /// Called on `completionQueue`, or on one of the library's queues if that is nil. Without a handler, `credential`
    /// and the credential store answer, and no refused credential is sent again. The `authenticator` handles a 401 to
    /// its token.
    public final var authenticationChallengeHandler: AuthenticationChallengeHandler? {
        get { core.withLock { $0.rareHandlers?.challenge } }
        set { setHandler(\.challenge, newValue) }
    }
}
