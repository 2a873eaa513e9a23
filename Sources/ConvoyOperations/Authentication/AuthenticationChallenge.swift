import ConvoySecurity
import Foundation
import FoundationNetworking

/// A challenge from a server or a proxy that requires authentication. The counterpart of `URLAuthenticationChallenge`.
public struct AuthenticationChallenge: Sendable {
    /// The server or proxy, the realm and the method.
    public let protectionSpace: ProtectionSpace
    /// The credential that `.performDefaultHandling` sends if none has failed yet: the operation's `credential`, the
    /// proxy's, or that of the credential store. nil if none is available for the method.
    public let proposedCredential: URLCredential?
    /// The number of the operation's answers that the server has rejected for this protection space. If a server keeps
    /// changing its realm, all rejections count from the third on.
    public let previousFailureCount: Int
    /// The response with 401 or 407; nil if a proxy has refused a tunnel.
    public let failureResponse: HTTPURLResponse?
}

/// The answer to an ``AuthenticationChallenge``.
public enum AuthenticationDisposition: Sendable {
    /// Send the request again with this credential. If its persistence is not `.none` and the server accepts it, the
    /// credential store keeps it until the program ends. With the method `.negotiate`, an empty user and password stand
    /// for the Kerberos tickets.
    case useCredential(URLCredential)
    /// Send the request again with this token, if the method is `.bearer` (RFC 6750).
    case useToken(String)
    /// Proceed as without a handler: send the proposed credential, once; otherwise keep the response.
    case performDefaultHandling
    /// Fail with `URLError.userCancelledAuthentication`.
    case cancel
    /// Reject this space. If the server offers another, weaker method, the handler is called for that; otherwise the
    /// response is kept.
    case rejectProtectionSpace
}

extension AuthenticationDisposition: CustomStringConvertible, CustomReflectable {
    /// The kind of answer, without the credential or the token.
    public var description: String {
        switch self {
        case .useCredential: "useCredential(***)"
        case .useToken: "useToken(***)"
        case .performDefaultHandling: "performDefaultHandling"
        case .cancel: "cancel"
        case .rejectProtectionSpace: "rejectProtectionSpace"
        }
    }

    /// An empty mirror, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension AuthenticationChallenge: CustomReflectable {
    /// An empty mirror, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
