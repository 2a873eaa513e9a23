import ConvoySecurity
import Foundation
import FoundationNetworking

/// A server or a proxy requires authentication. The counterpart of `URLAuthenticationChallenge`.
public struct AuthenticationChallenge: Sendable {
    /// The server or proxy, the realm and the method.
    public let protectionSpace: ProtectionSpace
    /// What `.performDefaultHandling` sends, if nothing has failed yet: the operation's `credential`, the proxy's, or
    /// that of the credential store. nil if there is none, or none for the method.
    public let proposedCredential: URLCredential?
    /// How often the server has refused the operation's answers for this protection space. If a server keeps changing
    /// its realm, all refusals count from the third on.
    public let previousFailureCount: Int
    /// The response with 401 or 407; nil if a proxy has refused a tunnel.
    public let failureResponse: HTTPURLResponse?
}

/// The answer to an ``AuthenticationChallenge``.
public enum AuthenticationDisposition: Sendable {
    /// Send the request again with this credential. If its persistence is not `.none` and the server accepts it, the
    /// credential store keeps it until the program ends. An empty user and password stand for the tickets of Kerberos,
    /// if the method is `.negotiate`.
    case useCredential(URLCredential)
    /// Send the request again with this token, if the method is `.bearer` (RFC 6750).
    case useToken(String)
    /// Do the same as without a handler: send the proposed credential, once; else keep the response.
    case performDefaultHandling
    /// Fail with `URLError.userCancelledAuthentication`.
    case cancel
    /// Reject this space. If the server has offered another, weaker method, the handler is asked about that; else the
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

    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension AuthenticationChallenge: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
