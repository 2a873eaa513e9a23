import COpenSSL
import Foundation

extension ChainVerifier.Problem {
    var reason: ServerTrustFailure.Reason {
        switch code {
        case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD: .expired
        case X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD: .notYetValid
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: .wrongHost
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED, X509_V_ERR_CERT_REJECTED:
            .unknownRoot
        case X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE,
            X509_V_ERR_UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY, X509_V_ERR_SIGNATURE_ALGORITHM_MISMATCH:
            .badSignature
        case X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL: .weakKey
        case X509_V_ERR_CA_MD_TOO_WEAK: .weakSignature
        case X509_V_ERR_INVALID_PURPOSE, X509_V_ERR_INVALID_CA, X509_V_ERR_KEYUSAGE_NO_CERTSIGN,
            X509_V_ERR_PATH_LENGTH_EXCEEDED, X509_V_ERR_INVALID_NON_CA:
            .wrongUsage
        case X509_V_ERR_PERMITTED_VIOLATION, X509_V_ERR_EXCLUDED_VIOLATION, X509_V_ERR_SUBTREE_MINMAX,
            X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE, X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX,
            X509_V_ERR_UNSUPPORTED_NAME_SYNTAX:
            .nameConstraints
        case X509_V_ERR_CERT_REVOKED: .revoked
        case X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER, X509_V_ERR_CRL_HAS_EXPIRED,
            X509_V_ERR_CRL_NOT_YET_VALID, X509_V_ERR_CRL_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE,
            X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD, X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD,
            X509_V_ERR_KEYUSAGE_NO_CRL_SIGN, X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION, X509_V_ERR_DIFFERENT_CRL_SCOPE,
            X509_V_ERR_CRL_PATH_VALIDATION_ERROR:
            .noValidRevocationList
        default: .invalidChain
        }
    }

    /// OpenSSL's sentence about it.
    var text: String { String(cString: X509_verify_cert_error_string(Int(code))) }

    /// Whether it does not matter where only the key counts: the dates, the names and the use of a server's certificate
    /// that a pinned key has certified, as against its signatures.
    var isTolerableWithPinnedKey: Bool {
        switch reason {
        case .expired, .notYetValid, .wrongHost: true
        case .weakKey, .wrongUsage: depth == 0 && code != X509_V_ERR_INVALID_CA
        default: false
        }
    }
}

extension ChainVerifier.Result {
    /// The worst first: what makes everything else meaningless.
    private static let order: [ServerTrustFailure.Reason] = [
        .badSignature, .unknownRoot, .invalidChain, .revoked, .wrongUsage, .nameConstraints, .weakSignature, .weakKey,
        .noValidRevocationList, .wrongHost, .expired, .notYetValid,
    ]

    /// What is said of a certificate that does not name the host, and has no other fault that matters.
    static func wrongHost(_ leaf: Certificate) -> ChainVerifier.Result {
        ChainVerifier.Result(
            problems: [ChainVerifier.Problem(code: X509_V_ERR_HOSTNAME_MISMATCH, depth: 0, certificate: leaf)],
            chain: [leaf])
    }

    /// What revocation lists say against the chain, which no policy tolerates that has some.
    var revocationFailure: ServerTrustFailure? {
        ChainVerifier.Result(
            problems: problems.filter { [.revoked, .noValidRevocationList].contains($0.reason) }, chain: chain
        ).failure(host: nil)
    }

    /// What is wrong with the chain; nil if nothing is.
    func failure(host: String?) -> ServerTrustFailure? {
        let reasons = Self.order.filter { reason in problems.contains { $0.reason == reason } }
        guard let reason = reasons.first, let problem = problems.first(where: { $0.reason == reason }) else { return nil }
        let certificate = problem.certificate
        let others = reasons.dropFirst().map { " Also: \(Self.sentence($0, host, certificate, nil))" }.joined()
        return ServerTrustFailure(
            reason, "\(Self.sentence(reason, host, certificate, problem.revocation)) (\(problem.text))" + others,
            certificate: certificate, reasons: reasons, revocation: problem.revocation)
    }

    private static func sentence(
        _ reason: ServerTrustFailure.Reason, _ host: String?, _ certificate: Certificate?,
        _ revocation: CertificateRevocation?
    ) -> String {
        let subject = certificate.map { "\"\($0.subject)\"" } ?? "the server"
        switch reason {
        case .expired:
            return "The certificate of \(subject) expired\(certificate?.notValidAfter.map { " on \($0)" } ?? "")."
        case .notYetValid:
            return
                "The certificate of \(subject) is not valid\(certificate?.notValidBefore.map { " until \($0)" } ?? " yet")."
        case .wrongHost:
            let names = certificate?.namesInShort ?? ""
            return
                "The server's certificate is not for \(host ?? "this host")\(names.isEmpty ? ", and names none" : ", but for \(names)")."
        case .unknownRoot: return "The certificate of \(subject) does not lead to a trusted authority."
        case .badSignature: return "The signature of the certificate of \(subject) is wrong."
        case .weakKey: return "The key of \(subject) is too short."
        case .weakSignature: return "The certificate of \(subject) is signed with a broken hash."
        case .wrongUsage: return "The certificate of \(subject) is not for this use."
        case .nameConstraints:
            return "Its authority may not issue a certificate for \(subject)\(host.map { ", or not for \($0)" } ?? "")."
        case .revoked: return "The certificate of \(subject) was revoked\(revocation.map { " \($0)" } ?? "")."
        case .noValidRevocationList:
            return "The policy has revocation lists, and none of them is valid for the certificate of \(subject)."
        default: return "The server's certificate chain is invalid."
        }
    }
}

extension Certificate {
    /// The names that it is for, a few of them.
    fileprivate var namesInShort: String {
        let names = dnsNames.map(Self.printable) + addresses.map { HostName.text(ofAddress: Array($0)) }
        let shown = names.prefix(4).joined(separator: ", ")
        return names.count > 4 ? "\(shown) and \(names.count - 4) more" : shown
    }

    /// A name as a server sends it can hold anything, also what a terminal would obey.
    private static func printable(_ name: String) -> String {
        String(String.UnicodeScalarView(name.unicodeScalars.prefix(100).map { (0x21...0x7e) ~= $0.value ? $0 : "?" }))
    }
}
