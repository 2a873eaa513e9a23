import COpenSSL
import ConvoySupport
import Foundation

/// A verifier that builds the chain from a certificate to one in a store, and checks it with OpenSSL (RFC 5280, section
/// 6; RFC 9525).
struct ChainVerifier {
    /// An error that OpenSSL reports for a chain.
    struct Problem: Equatable {
        /// OpenSSL's error code, `X509_V_ERR_…`.
        let code: Int32
        /// The position of the certificate in the chain. The server's certificate is at 0.
        let depth: Int32
        let certificate: Certificate?
        /// The entry in a revocation list, if the certificate was revoked.
        var revocation: CertificateRevocation?

        /// A placeholder for errors that were not recorded.
        static let unknown = Problem(code: X509_V_ERR_UNSPECIFIED, depth: 0, certificate: nil)
    }

    /// All errors, and as much of the chain as could be built.
    struct Result {
        var problems: [Problem]
        var chain: [Certificate]
        var isValid: Bool { problems.isEmpty }
    }

    let store: TrustStore
    /// The host that the server's certificate must name; nil to skip this check.
    let host: HostName?
    let date: Date
    /// The maximum number of certificates between the first and the last certificate in the chain.
    let depth: Int
    /// The revocation lists for all certificates except the last; nil to skip this check.
    let lists: RevocationLists?

    /// Returns a copy that verifies chains against another store.
    func with(_ store: TrustStore) -> ChainVerifier {
        ChainVerifier(store: store, host: host, date: date, depth: depth, lists: lists)
    }

    /// OpenSSL's security level. Level 2 requires 112 bits, which excludes RSA keys under 2,048 bits and SHA-1.
    private static let securityLevel: Int32 = 2

    /// Converts a date to seconds since 1970, clamped to the years 1 to 9999, which OpenSSL can compare.
    private static func seconds(_ date: Date) -> time_t {
        let seconds = date.timeIntervalSince1970.rounded(.down)
        return time_t(exactly: min(max(seconds, -62_135_596_800), 253_402_300_799)) ?? 0
    }

    /// Verifies the first certificate. The other certificates may be used to build its chain.
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
        // As in Apple's API, any certificate can be an anchor, even if it is not self-signed.
        X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST))
        if let lists {
            X509_STORE_CTX_set0_crls(context, lists.pointer)
            X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL))
        }
        if let host, !host.require(in: parameters, of: leaf) { return .impossible }

        let log = ProblemLog()
        return withExtendedLifetime((log, lists)) {
            X509_STORE_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(log).toOpaque())
            X509_STORE_CTX_set_verify_cb(context) { isGood, context in
                guard isGood == 0, let context, let log = X509_STORE_CTX_get_ex_data(context, 0) else { return isGood }
                Unmanaged<ProblemLog>.fromOpaque(log).takeUnretainedValue().add(context)
                // Clear the error. Otherwise OpenSSL would report a key that is too short twice, instead of a missing
                // root.
                X509_STORE_CTX_set_error(context, X509_V_OK)
                // Return 1 to continue, so that all errors are found.
                return 1
            }
            let isVerified = X509_verify_cert(context) == 1
            ERR_clear_error()
            let chain = ServerTrust(chain: X509_STORE_CTX_get0_chain(context)).certificates
            if !isVerified {
                // OpenSSL stopped without checking the rest, for example because it cannot read a key.
                let code = X509_STORE_CTX_get_error(context)
                log.problems.append(
                    log.problems.isEmpty && code != X509_V_OK
                        ? Problem(code: code, depth: 0, certificate: leaf) : .unknown)
            }
            var problems = log.problems
            // A trust anchor or a self-signed certificate has no issuer whose list could be required. If a chain is
            // incomplete because the server did not send the issuers, the list is still required. Otherwise a server
            // could evade the revocation check by omitting the issuers.
            if let last = chain.last?.reference.pointer,
                !problems.contains(where: { $0.reason == .unknownRoot }) || X509_check_issued(last, last) == X509_V_OK
            {
                problems.removeAll { $0.reason == .noValidRevocationList && $0.depth == chain.count - 1 }
            }
            if let problem = constraintProblem(in: chain) { problems.append(problem) }
            return Result(problems: problems, chain: chain)
        }
    }

    /// Checks the host against the name constraints of the authorities. OpenSSL compares only the names in the
    /// certificate with them, but a wildcard can also match hosts that violate the constraints.
    private func constraintProblem(in chain: [Certificate]) -> Problem? {
        guard let leaf = chain.first, let host, host.isNamed(by: leaf) else { return nil }
        for authority in chain.dropFirst() {
            let code = NameConstraints.code(of: authority, for: host)
            if code != X509_V_OK { return Problem(code: code, depth: 0, certificate: leaf) }
        }
        return nil
    }

    private final class ProblemLog {
        var problems: [Problem] = []
        private static let limit = 32

        func add(_ context: OpaquePointer) {
            // The chain of a hostile server can have any number of errors.
            guard problems.count < Self.limit else {
                // An unrecorded error may be more severe than all recorded ones.
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
    /// The result if OpenSSL runs out of memory.
    static var impossible: ChainVerifier.Result {
        ChainVerifier.Result(
            problems: [ChainVerifier.Problem(code: X509_V_ERR_OUT_OF_MEM, depth: 0, certificate: nil)], chain: [])
    }
}

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

    /// OpenSSL's message for the error.
    var text: String { String(cString: X509_verify_cert_error_string(Int(code))) }

    /// Whether a policy that allows invalid certificates tolerates the error if a pinned key has certified the server's
    /// certificate. It tolerates wrong dates, names and usages, but not wrong signatures.
    var isTolerableWithPinnedKey: Bool {
        switch reason {
        case .expired, .notYetValid, .wrongHost: true
        case .weakKey, .wrongUsage: depth == 0 && code != X509_V_ERR_INVALID_CA
        default: false
        }
    }
}

extension ChainVerifier.Result {
    /// The reasons in order of severity: an earlier error makes the later ones meaningless.
    private static let order: [ServerTrustFailure.Reason] = [
        .badSignature, .unknownRoot, .invalidChain, .revoked, .wrongUsage, .nameConstraints, .weakSignature, .weakKey,
        .noValidRevocationList, .wrongHost, .expired, .notYetValid,
    ]

    /// Returns the result for a certificate whose only relevant error is that it does not name the host.
    static func wrongHost(_ leaf: Certificate) -> ChainVerifier.Result {
        ChainVerifier.Result(
            problems: [ChainVerifier.Problem(code: X509_V_ERR_HOSTNAME_MISMATCH, depth: 0, certificate: leaf)],
            chain: [leaf])
    }

    /// The failure caused by revocation lists, which policies with lists never tolerate; nil if the lists report no
    /// problem.
    var revocationFailure: ServerTrustFailure? {
        ChainVerifier.Result(
            problems: problems.filter { [.revoked, .noValidRevocationList].contains($0.reason) }, chain: chain
        ).failure(host: nil)
    }

    /// Returns the failure, with all errors in its description, or nil if the chain is valid.
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
                "The server's certificate is not for \(host ?? "this host")\(names.isEmpty ? ": it contains no host names" : ", but for \(names)")."
        case .unknownRoot: return "The certificate chain of \(subject) does not end at a trusted authority."
        case .badSignature: return "The signature of the certificate of \(subject) is invalid."
        case .weakKey: return "The key of \(subject) is too short."
        case .weakSignature: return "The certificate of \(subject) is signed with a broken hash."
        case .wrongUsage: return "The certificate of \(subject) is not valid for this use."
        case .nameConstraints:
            return "The name constraints of the authority exclude \(subject)\(host.map { " or \($0)" } ?? "")."
        case .revoked: return "The certificate of \(subject) was revoked\(revocation.map { " \($0)" } ?? "")."
        case .noValidRevocationList:
            return "The policy has no valid revocation list for the certificate of \(subject)."
        default: return "The server's certificate chain is invalid."
        }
    }
}

extension Certificate {
    /// The first four names in the certificate.
    fileprivate var namesInShort: String {
        let names = dnsNames.map(Self.printable) + addresses.map { HostName.text(ofAddress: Array($0)) }
        let shown = names.prefix(4).joined(separator: ", ")
        return names.count > 4 ? "\(shown) and \(names.count - 4) more" : shown
    }

    /// Returns the start of a name in printable ASCII. Names from a server can contain terminal control sequences.
    private static func printable(_ name: String) -> String {
        String(String.UnicodeScalarView(name.unicodeScalars.prefix(100).map { (0x21...0x7e) ~= $0.value ? $0 : "?" }))
    }
}

/// The check of a host against the name constraints of an authority (RFC 5280, section 4.2.1.10).
enum NameConstraints {
    /// Returns OpenSSL's code for the name constraint of an authority that a host violates, or `X509_V_OK`.
    ///
    /// Addresses are not checked here: wildcards cannot match them, so OpenSSL has already compared them.
    static func code(of authority: Certificate, for host: HostName) -> Int32 {
        guard case .name(let name) = host.kind,
            convoy_x509_has_name_constraints(authority.reference.pointer) == 1
        else { return X509_V_OK }
        guard let constraints = convoy_x509_name_constraints(authority.reference.pointer) else {
            return X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX
        }
        defer { NAME_CONSTRAINTS_free(constraints) }
        let host = Array(name.utf8)
        if subtrees(constraints, isExcluded: true).contains(where: { contains($0, host) }) {
            return X509_V_ERR_EXCLUDED_VIOLATION
        }
        let permitted = subtrees(constraints, isExcluded: false)
        return permitted.isEmpty || permitted.contains { contains($0, host) } ? X509_V_OK : X509_V_ERR_PERMITTED_VIOLATION
    }

    /// Returns the subtrees for DNS names.
    private static func subtrees(
        _ constraints: UnsafePointer<NAME_CONSTRAINTS>, isExcluded: Bool
    ) -> [UnsafeBufferPointer<UInt8>] {
        (0..<convoy_name_constraints_count(constraints, isExcluded ? 1 : 0)).compactMap { index in
            var count: Int32 = 0
            let bytes = convoy_name_constraint(constraints, isExcluded ? 1 : 0, index, &count)
            return bytes.map { UnsafeBufferPointer(start: $0, count: Int(count)) }
        }
    }

    /// Returns whether a lowercase host is in a subtree: it is equal to the subtree's name, or a subdomain of it. As in
    /// OpenSSL, a subtree that begins with a dot contains only subdomains, and an empty subtree contains all names.
    private static func contains(_ subtree: UnsafeBufferPointer<UInt8>, _ host: [UInt8]) -> Bool {
        var base = subtree[...]
        // A trailing dot does not change a name.
        if base.last == UInt8(ascii: ".") { base = base.dropLast() }
        guard !base.isEmpty else { return true }
        guard host.count >= base.count else { return false }
        let rest = host.count - base.count
        guard zip(host[rest...], base).allSatisfy({ $0 == ((0x41...0x5A).contains($1) ? $1 | 0x20 : $1) }) else {
            return false
        }
        if base.first == UInt8(ascii: ".") { return rest > 0 }
        return rest == 0 || host[rest - 1] == UInt8(ascii: ".")
    }
}
