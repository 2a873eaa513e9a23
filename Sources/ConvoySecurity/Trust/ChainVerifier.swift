import COpenSSL
import Foundation

/// Builds the chain of a certificate to one of a store, and checks it (RFC 5280, section 6; RFC 9525), by OpenSSL.
struct ChainVerifier {
    /// A thing that is wrong with a chain.
    struct Problem: Equatable {
        /// OpenSSL's number, `X509_V_ERR_…`.
        let code: Int32
        /// Which certificate of the chain: 0 is the server's.
        let depth: Int32
        let certificate: Certificate?
        /// What a list says of it, if it was revoked.
        var revocation: CertificateRevocation?

        /// That there is more, which was not found out.
        static let unknown = Problem(code: X509_V_ERR_UNSPECIFIED, depth: 0, certificate: nil)
    }

    /// The result: everything that is wrong, and the chain as far as it could be built.
    struct Result {
        var problems: [Problem]
        var chain: [Certificate]
        var isValid: Bool { problems.isEmpty }
    }

    let store: TrustStore
    /// The name to check; nil for no check.
    let host: HostName?
    let date: Date
    /// How many authorities may be between the first certificate of the chain and the last.
    let depth: Int
    /// Those that all but the last certificate must be in order by; nil for no check.
    let lists: RevocationLists?

    /// The same, with other certificates for a chain to end at.
    func with(_ store: TrustStore) -> ChainVerifier {
        ChainVerifier(store: store, host: host, date: date, depth: depth, lists: lists)
    }

    /// Weaker than 112 bits of security is refused: RSA below 2,048 bits, SHA-1.
    private static let securityLevel: Int32 = 2

    /// The seconds of the system's clock, within the years 1 to 9999, which are those that OpenSSL can compare.
    private static func seconds(_ date: Date) -> time_t {
        let seconds = date.timeIntervalSince1970.rounded(.down)
        return time_t(exactly: min(max(seconds, -62_135_596_800), 253_402_300_799)) ?? 0
    }

    /// Verifies the chain of the first certificate with the help of the others.
    func verify(_ certificates: [Certificate]) -> Result {
        guard let leaf = certificates.first, let others = convoy_x509_stack_new() else { return .impossible }
        defer { convoy_x509_stack_free(others) }
        for certificate in certificates.dropFirst() {
            guard convoy_x509_stack_append(others, certificate.reference.pointer) == 1 else { return .impossible }
        }
        guard let context = X509_STORE_CTX_new() else { return .impossible }
        defer { X509_STORE_CTX_free(context) }
        guard X509_STORE_CTX_init(context, store.pointer, leaf.reference.pointer, others) == 1,
            X509_STORE_CTX_set_default(context, "ssl_server") == 1,
            let parameters = X509_STORE_CTX_get0_param(context)
        else { return .impossible }
        X509_VERIFY_PARAM_set_auth_level(parameters, Self.securityLevel)
        X509_VERIFY_PARAM_set_time(parameters, Self.seconds(date))
        X509_VERIFY_PARAM_set_depth(parameters, Int32(min(max(depth, 0), 100)))
        // As in a store of Apple's, any certificate can be an anchor, also one that is not self-signed.
        X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST))
        if let lists {
            X509_STORE_CTX_set0_crls(context, lists.pointer)
            X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL))
        }
        if let host, !host.require(in: parameters) { return .impossible }

        let notes = Notes()
        return withExtendedLifetime((notes, lists)) {
            X509_STORE_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(notes).toOpaque())
            X509_STORE_CTX_set_verify_cb(context) { isGood, context in
                guard isGood == 0, let context, let notes = X509_STORE_CTX_get_ex_data(context, 0) else { return isGood }
                Unmanaged<Notes>.fromOpaque(notes).takeUnretainedValue().note(context)
                // A key that is too short would be told once more in the place of the root that is missing.
                X509_STORE_CTX_set_error(context, X509_V_OK)
                // All that is wrong is to be known, not only what is found first.
                return 1
            }
            let isVerified = X509_verify_cert(context) == 1
            ERR_clear_error()
            let chain = ServerTrust(chain: X509_STORE_CTX_get0_chain(context)).certificates
            if !isVerified {
                // OpenSSL gave up, for instance because of a key that it cannot read, and has checked nothing more.
                let code = X509_STORE_CTX_get_error(context)
                notes.problems.append(
                    notes.problems.isEmpty && code != X509_V_OK
                        ? Problem(code: code, depth: 0, certificate: leaf) : .unknown)
            }
            var problems = notes.problems
            // What a chain ends at by the policy's word, or by its own, has no issuer whose list could be asked for. One that
            // only lacks the certificates of its issuers has: else a server would escape its list by not sending them.
            if let last = chain.last?.reference.pointer,
                !problems.contains(where: { $0.reason == .unknownRoot }) || X509_check_issued(last, last) == X509_V_OK
            {
                problems.removeAll { $0.reason == .noValidRevocationList && $0.depth == chain.count - 1 }
            }
            if let problem = constraintProblem(in: chain) { problems.append(problem) }
            return Result(problems: problems, chain: chain)
        }
    }

    /// OpenSSL compares the names of certificates with what their authorities may certify. A wildcard also names hosts
    /// that they may not, so that the host itself is compared.
    private func constraintProblem(in chain: [Certificate]) -> Problem? {
        guard let leaf = chain.first, let host, host.isNamed(by: leaf.reference.pointer) else { return nil }
        for authority in chain.dropFirst() {
            let code = NameConstraints.code(of: authority, for: host)
            if code != X509_V_OK { return Problem(code: code, depth: 0, certificate: leaf) }
        }
        return nil
    }

    private final class Notes {
        var problems: [Problem] = []
        private static let limit = 32

        func note(_ context: OpaquePointer) {
            // A chain of a hostile server may have any number of faults.
            guard problems.count < Self.limit else {
                // Those that are not kept may be worse than all that are.
                if problems.count == Self.limit { problems.append(.unknown) }
                return
            }
            let certificate = X509_STORE_CTX_get_current_cert(context).flatMap(X509Reference.init(sharing:))
            var problem = Problem(
                code: X509_STORE_CTX_get_error(context), depth: X509_STORE_CTX_get_error_depth(context),
                certificate: certificate.map(Certificate.init))
            if problem.code == X509_V_ERR_CERT_REVOKED, let list = X509_STORE_CTX_get0_current_crl(context), let certificate
            {
                problem.revocation = CertificateRevocation(of: certificate.pointer, in: list)
            }
            problems.append(problem)
        }
    }
}

extension ChainVerifier.Result {
    /// What is said when OpenSSL has no memory.
    static var impossible: ChainVerifier.Result {
        ChainVerifier.Result(
            problems: [ChainVerifier.Problem(code: X509_V_ERR_OUT_OF_MEM, depth: 0, certificate: nil)], chain: [])
    }
}
