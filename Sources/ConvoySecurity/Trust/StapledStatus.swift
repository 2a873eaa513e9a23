import COpenSSL
import Foundation

/// Checks a stapled OCSP response (RFC 6066, section 8; RFC 6960).
enum StapledStatus {
    /// How far the clocks of the responder and of this machine may differ, in seconds.
    private static let clockSkew = 300
    /// The maximum age of a response without an expiry, in seconds. Without a limit, one from before a revocation would
    /// be good for ever.
    private static let maximumAge = 86_400

    /// Whether a response says that the first certificate of a chain is good.
    ///
    /// - Parameters:
    ///   - response: in DER; nil if the server sent none.
    ///   - chain: the verified chain.
    ///   - store: the authority to which the signer's chain must lead.
    /// - Returns: the reason why it does not; nil if it does.
    static func failure(
        of response: UnsafeRawBufferPointer?, for chain: [Certificate], store: TrustStore
    ) -> ServerTrustFailure? {
        defer { ERR_clear_error() }
        guard let response, let base = response.bindMemory(to: UInt8.self).baseAddress else {
            return .noStatus("The server has stapled no OCSP response.", chain)
        }
        guard chain.count > 1 else { return .noStatus("The issuer of the server's certificate is not known.", chain) }
        var position: UnsafePointer<UInt8>? = base
        guard let parsed = d2i_OCSP_RESPONSE(nil, &position, response.count) else {
            return .noStatus("The stapled OCSP response is damaged.", chain)
        }
        defer { OCSP_RESPONSE_free(parsed) }
        guard OCSP_response_status(parsed) == OCSP_RESPONSE_STATUS_SUCCESSFUL, let basic = OCSP_response_get1_basic(parsed)
        else { return .noStatus("The stapled OCSP response is an error of the responder's.", chain) }
        defer { OCSP_BASICRESP_free(basic) }
        guard let certificates = convoy_x509_stack_new() else { return .noStatus("There is no memory.", chain) }
        defer { convoy_x509_stack_free(certificates) }
        for certificate in chain { _ = convoy_x509_stack_append(certificates, certificate.reference.pointer) }
        guard OCSP_basic_verify(basic, certificates, store.pointer, UInt(OCSP_PARTIAL_CHAIN)) > 0 else {
            return .noStatus("The signature of the stapled OCSP response is not one of the issuer's.", chain)
        }
        return failure(in: basic, chain)
    }

    private static func failure(in basic: OpaquePointer, _ chain: [Certificate]) -> ServerTrustFailure? {
        var (status, why): (Int32, Int32) = (0, 0)
        var revoked: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
        var (from, until): (UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?, UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?)
        // A responder may identify the certificate by either hash.
        let isFound = [EVP_sha1(), EVP_sha256()].contains { digest in
            guard let name = OCSP_cert_to_id(digest, chain[0].reference.pointer, chain[1].reference.pointer) else {
                return false
            }
            defer { OCSP_CERTID_free(name) }
            return OCSP_resp_find_status(basic, name, &status, &why, &revoked, &from, &until) == 1
        }
        guard isFound else { return .noStatus("The stapled OCSP response is about another certificate.", chain) }
        guard OCSP_check_validity(from, until, clockSkew, until == nil ? maximumAge : -1) == 1 else {
            return .noStatus("The stapled OCSP response is not, or no longer, valid.", chain)
        }
        switch status {
        case V_OCSP_CERTSTATUS_GOOD: return nil
        case V_OCSP_CERTSTATUS_REVOKED:
            let revocation = CertificateRevocation(
                date: Certificate.date(revoked), reason: CertificateRevocation.Reason(rawValue: Int(why)))
            return ServerTrustFailure(
                .revoked, "The server's certificate was revoked \(revocation).", certificate: chain[0],
                revocation: revocation)
        default: return .noStatus("The responder does not know the server's certificate.", chain)
        }
    }
}

extension ServerTrustFailure {
    fileprivate static func noStatus(_ text: String, _ chain: [Certificate]) -> ServerTrustFailure {
        ServerTrustFailure(
            .noValidStatus, "The policy requires a stapled OCSP response. \(text)", certificate: chain.first)
    }
}
