import ConvoySecurity
import Foundation
import FoundationNetworking

/// A server, or a proxy, has refused a request and asks who the client is. The counterpart of
/// `URLAuthenticationChallenge`.
public struct AuthenticationChallenge: Sendable {
    /// Who asks, for what, and by which method.
    public let protectionSpace: ProtectionSpace
    /// What `.performDefaultHandling` sends, if nothing has failed yet: the operation's `credential`, that of the proxy, or
    /// the one of the credential store. nil where there is none, or where it does not suit the method.
    public let proposedCredential: URLCredential?
    /// How often the operation has answered this protection space in vain. Where a server names another realm each time,
    /// the answers to all of them count from the third on.
    public let previousFailureCount: Int
    /// The response with 401 or 407; nil where a proxy has refused a tunnel.
    public let failureResponse: HTTPURLResponse?
}

/// What is done about an ``AuthenticationChallenge``.
public enum AuthenticationDisposition: Sendable {
    /// The request is sent again with this credential. If its persistence is not `.none` and the server accepts it, it is
    /// kept in the credential store, until the program ends. An empty user and password stand for the tickets of
    /// Kerberos, where the method is `.negotiate`.
    case useCredential(URLCredential)
    /// The request is sent again with this token, where the method is `.bearer` (RFC 6750).
    case useToken(String)
    /// What happens without a handler: the proposed credential is sent, once; else the response stands.
    case performDefaultHandling
    /// The operation fails with `URLError.userCancelledAuthentication`.
    case cancel
    /// This space is not entered. If the server has offered another, weaker method, the handler is asked about that; else
    /// the response stands.
    case rejectProtectionSpace
}

extension AuthenticationDisposition: CustomStringConvertible, CustomReflectable {
    /// What is done, without the credential and the token.
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
