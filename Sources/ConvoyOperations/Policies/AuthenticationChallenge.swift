import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// A challenge from a server or a proxy that requires authentication. The counterpart of `URLAuthenticationChallenge`.
public struct AuthenticationChallenge: Sendable {
    /// The server or proxy, the realm and the method.
    public let protectionSpace: ProtectionSpace
    /// The credential that `.performDefaultHandling` sends unless a credential has already failed: the operation's
    /// `credential`, the proxy's, or one from the credential store. nil if no credential is available for the method.
    public let proposedCredential: URLCredential?
    /// The number of the operation's answers that the server has rejected for this protection space. If a server keeps
    /// changing its realm, from the third rejection on, the rejections for all realms count.
    public let previousFailureCount: Int
    /// The 401 or 407 response; nil if a proxy has refused a tunnel.
    public let failureResponse: HTTPURLResponse?
}

/// The answer to an ``AuthenticationChallenge``.
public enum AuthenticationDisposition: Sendable {
    /// Send the request again with this credential. If its persistence is not `.none` and the server accepts it, the
    /// credential store keeps it until the program ends. With the method `.negotiate`, an empty user name and password
    /// select the Kerberos tickets of the current user.
    case useCredential(URLCredential)
    /// Send the request again with this token, if the method is `.bearer` (RFC 6750).
    case useToken(String)
    /// Proceed as without a handler: send the proposed credential once. If no credential is proposed, or it was
    /// rejected, the response is the result.
    case performDefaultHandling
    /// Fail with `URLError.userCancelledAuthentication`.
    case cancel
    /// Reject the protection space. If the server also offers a weaker method, the handler is called for that method;
    /// otherwise the response is the result.
    case rejectProtectionSpace
}

extension AuthenticationDisposition: CustomStringConvertible, OpaqueReflectable {
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
}

extension AuthenticationChallenge: OpaqueReflectable {}
