import COpenSSL
import ConvoySupport
import Foundation

/// Certificate revocation lists (RFC 5280, section 5), loaded into OpenSSL. They are immutable after loading, so any
/// thread can search them.
package final class RevocationLists: @unchecked Sendable {
    /// OpenSSL's stack of lists.
    let pointer: OpaquePointer
    /// The time at which the first list expires; nil if no list has an expiry.
    private(set) var nextUpdate: Date?

    private init?() {
        guard let stack = convoy_crl_stack_new() else { return nil }
        pointer = stack
    }

    deinit { convoy_crl_stack_free(pointer) }

    /// Throws if the given files cannot be read as revocation lists. Blocks.
    package static func check(_ files: [URL]) throws(CertificateError) { _ = try read(files) }

    /// Returns the revocation lists in the given files, or nil if there are no files. Blocks.
    static func read(_ files: [URL]) throws(CertificateError) -> RevocationLists? {
        guard !files.isEmpty else { return nil }
        let lists = RevocationLists()
        for file in files {
            guard let lists else { break }
            let data: Data
            do throws(FileContents.Failure) {
                data = try FileReading.data(of: file)
            } catch {
                throw .unreadable(file: file.path, reason: error.reason)
            }
            try lists.add(data, named: file.path)
        }
        guard let lists else { throw .unreadable(file: files[0].path, reason: "Out of memory.") }
        return lists
    }

    /// Adds all lists in PEM text, skipping other blocks, or the single list in DER data.
    private func add(_ data: Data, named file: String) throws(CertificateError) {
        let blocks = PEM.blocks(in: data)
        guard !blocks.isEmpty else {
            guard data.first == PEM.sequenceTag, let list = Self.parsed(data) else { throw .noRevocationList(in: file) }
            return try add(list, 1, of: file)
        }
        var count = 0
        for block in blocks where block.label == "X509 CRL" {
            count += 1
            guard let list = block.derData.flatMap(Self.parsed) else {
                throw .damagedRevocationList(file: file, number: count)
            }
            try add(list, count, of: file)
        }
        guard count > 0 else { throw .noRevocationList(in: file) }
    }

    private static func parsed(_ data: Data) -> OpaquePointer? {
        defer { ERR_clear_error() }
        return data.withUnsafeBytes { bytes -> OpaquePointer? in
            var position = bytes.bindMemory(to: UInt8.self).baseAddress
            let end = position.map { $0 + bytes.count }
            guard let list = d2i_X509_CRL(nil, &position, bytes.count) else { return nil }
            guard position == end else {
                X509_CRL_free(list)
                return nil
            }
            return list
        }
    }

    private func add(_ list: OpaquePointer, _ number: Int, of file: String) throws(CertificateError) {
        // OpenSSL ignores delta CRLs, so certificates revoked by one would be accepted.
        guard X509_CRL_get_ext_by_NID(list, NID_delta_crl, -1) < 0 else {
            X509_CRL_free(list)
            throw .incompleteRevocationList(file: file, number: number)
        }
        let end = Certificate.date(X509_CRL_get0_nextUpdate(list))
        guard convoy_crl_stack_append(pointer, list) == 1 else {
            throw .unreadable(file: file, reason: "Out of memory.")
        }
        nextUpdate = [nextUpdate, end].compactMap { $0 }.min()
    }
}

/// A stapled OCSP response (RFC 6066, section 8; RFC 6960).
enum StapledStatus {
    /// The maximum clock difference between the responder and this machine, in seconds.
    private static let clockSkew = 300
    /// The maximum age of a response without an expiry, in seconds. Without a limit, a response from before the
    /// revocation would be valid forever.
    private static let maximumAge = 86_400

    /// Checks whether a response confirms that the first certificate in a chain is good.
    ///
    /// - Parameters:
    ///   - response: The response in DER; nil if the server sent none.
    ///   - chain: The verified chain.
    ///   - store: The authority at which the signer's chain must end.
    /// - Returns: The reason the response does not confirm that the certificate is good; nil if it does.
    static func failure(
        of response: UnsafeRawBufferPointer?, for chain: [Certificate], store: TrustStore
    ) -> ServerTrustFailure? {
        defer { ERR_clear_error() }
        guard let response, let base = response.bindMemory(to: UInt8.self).baseAddress else {
            return .noStatus("The server did not staple an OCSP response.", chain)
        }
        guard chain.count > 1 else { return .noStatus("The issuer of the server's certificate is unknown.", chain) }
        var position: UnsafePointer<UInt8>? = base
        guard let parsed = d2i_OCSP_RESPONSE(nil, &position, response.count) else {
            return .noStatus("The stapled OCSP response is damaged.", chain)
        }
        defer { OCSP_RESPONSE_free(parsed) }
        guard OCSP_response_status(parsed) == OCSP_RESPONSE_STATUS_SUCCESSFUL, let basic = OCSP_response_get1_basic(parsed)
        else { return .noStatus("The stapled OCSP response contains an error from the responder.", chain) }
        defer { OCSP_BASICRESP_free(basic) }
        guard let certificates = convoy_x509_stack_new() else { return .noStatus("Out of memory.", chain) }
        defer { convoy_x509_stack_free(certificates) }
        for certificate in chain { _ = convoy_x509_stack_append(certificates, certificate.reference.pointer) }
        guard OCSP_basic_verify(basic, certificates, store.pointer, UInt(OCSP_PARTIAL_CHAIN)) > 0 else {
            return .noStatus("The stapled OCSP response was not signed by the issuer.", chain)
        }
        return failure(in: basic, chain)
    }

    private static func failure(in basic: OpaquePointer, _ chain: [Certificate]) -> ServerTrustFailure? {
        var (status, why): (Int32, Int32) = (0, 0)
        var revoked: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
        var (from, until): (UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?, UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?)
        // A responder can identify the certificate by either hash.
        let isFound = [EVP_sha1(), EVP_sha256()].contains { digest in
            guard let name = OCSP_cert_to_id(digest, chain[0].reference.pointer, chain[1].reference.pointer) else {
                return false
            }
            defer { OCSP_CERTID_free(name) }
            return OCSP_resp_find_status(basic, name, &status, &why, &revoked, &from, &until) == 1
        }
        guard isFound else { return .noStatus("The stapled OCSP response is for another certificate.", chain) }
        guard OCSP_check_validity(from, until, clockSkew, until == nil ? maximumAge : -1) == 1 else {
            return .noStatus("The stapled OCSP response has expired or is not yet valid.", chain)
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
