import ConvoySecurity
import Foundation
import FoundationNetworking

extension URLError {
    /// A key in the `userInfo` of an error about a server that is not trusted: a `ServerTrustFailure`.
    public static let serverTrustFailureKey = "ConvoyServerTrustFailure"

    /// A key in the `userInfo` of an error about a server that is not trusted: `[Certificate]`, as the server sent them.
    public static let serverCertificatesKey = "ConvoyServerCertificates"

    /// Why the server is not trusted; nil for other errors.
    ///
    /// The code is `.serverCertificateHasBadDate` for an expired certificate, `.serverCertificateNotYetValid`,
    /// `.serverCertificateHasUnknownRoot`, and else `.serverCertificateUntrusted`.
    public var serverTrustFailure: ServerTrustFailure? { userInfo[Self.serverTrustFailureKey] as? ServerTrustFailure }

    /// The certificates that a server sent that is not trusted, its own first; nil for other errors.
    public var serverCertificates: [Certificate]? { userInfo[Self.serverCertificatesKey] as? [Certificate] }

    /// Why a server's own proof that it knows the password of Digest authentication is not one; nil for other errors.
    public var responseAuthenticationFailure: ResponseAuthenticationFailure? {
        userInfo[NSUnderlyingErrorKey] as? ResponseAuthenticationFailure
    }

    init(untrusted failure: ServerTrustFailure, presented: [Certificate], url: URL?, isProxy: Bool) {
        let code: Code =
            switch failure.reason {
            case .expired: .serverCertificateHasBadDate
            case .notYetValid: .serverCertificateNotYetValid
            case .unknownRoot: .serverCertificateHasUnknownRoot
            case .unusablePolicy: .secureConnectionFailed
            default: .serverCertificateUntrusted
            }
        let description = isProxy ? "The proxy is not trusted. \(failure.description)" : failure.description
        var userInfo: [String: Any] = [
            NSLocalizedDescriptionKey: description, NSLocalizedFailureReasonErrorKey: description,
            NSUnderlyingErrorKey: failure, Self.serverTrustFailureKey: failure, Self.serverCertificatesKey: presented,
        ]
        if let url { userInfo[NSURLErrorFailingURLErrorKey] = url.withoutUserInfo }
        self.init(code, describedBy: userInfo)
    }
}
