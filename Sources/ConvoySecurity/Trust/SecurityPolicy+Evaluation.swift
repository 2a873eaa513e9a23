import COpenSSL
import ConvoySupport
import Foundation

extension SecurityPolicy {
    /// Evaluates whether to trust a server that presented the given certificates. The counterpart of
    /// `evaluateServerTrust:forDomain:`.
    ///
    /// The order of evaluation is that of AFNetworking. A policy that allows invalid certificates and validates names
    /// but has no pins is refused. Then the chain and the name are verified according to RFC 5280 and RFC 9525. Without
    /// pins the result is final, unless invalid certificates are allowed. With pins, the verified chain must contain
    /// one of them. Additional certificates from the server that are not part of the verified chain are ignored.
    ///
    /// Blocks while reading the revocation lists and the authorities, unless connections have already loaded them.
    ///
    /// - Parameters:
    ///   - trust: The certificates that the server presented.
    ///   - domain: The host of the URL; nil to skip the name check. If a policy in `hostPolicies` matches it, that
    ///     policy is used instead of this policy.
    ///   - date: The time at which the certificates must be valid.
    public func evaluate(_ trust: ServerTrust, forDomain domain: String?, at date: Date = Date()) -> TrustDecision {
        let policy = domain.map { self.policy(forHost: $0) } ?? self
        let store: TrustStore
        do throws(CertificateError) {
            store = try TrustStore.store(of: policy.certificateAuthorities)
        } catch {
            return TrustDecision(failure: .unusable(authorities: error))
        }
        let lists: RevocationLists?
        do throws(CertificateError) {
            lists = try RevocationLists.read(policy.revocationLists)
        } catch {
            return TrustDecision(failure: .unusable(lists: error))
        }
        return policy.evaluate(trust, forDomain: domain, at: date, store: store, lists: lists)
    }

    /// The maximum number of certificates that a server may send. Servers send their chain, and perhaps one or two
    /// alternative paths to a root.
    static let mostCertificates = 64

    /// Evaluates this policy, without `hostPolicies`, using its loaded authorities and revocation lists.
    func evaluate(
        _ trust: ServerTrust, forDomain domain: String?, at date: Date, store: TrustStore, lists: RevocationLists?
    ) -> TrustDecision {
        guard !trust.certificates.isEmpty else {
            return TrustDecision(failure: ServerTrustFailure(.noCertificate, "The server sent no certificate."))
        }
        guard trust.certificates.count <= Self.mostCertificates else {
            return TrustDecision(failure: .tooManyCertificates(trust))
        }
        let pinned = effectivePinningMode
        let arePinsInForce = pinned != .none && !(pinsExpire.map { date >= $0 } ?? false)
        let mode = arePinsInForce ? pinned : .none
        let allowsInvalid = allowInvalidCertificates && (arePinsInForce || pinned == .none)
        let validatesName = domain != nil && (validatesDomainName || pinned != .none && !arePinsInForce)
        if domain != nil, allowsInvalid, validatesDomainName, mode == .none || !hasPins {
            return TrustDecision(failure: .pinsMissing)
        }
        let host = domain.flatMap { HostName($0) }
        if validatesName, host == nil {
            return TrustDecision(
                failure: ServerTrustFailure(
                    .wrongHost, "The host \(domain?.debugDescription ?? "") cannot appear in a certificate."))
        }
        let verifier = ChainVerifier(
            store: store, host: validatesName ? host : nil, date: date, depth: maximumChainDepth, lists: lists)
        let result = verifier.verify(trust.certificates)
        if !result.isValid, !allowsInvalid {
            return TrustDecision(failure: result.failure(host: domain), chain: result.chain)
        }
        if let failure = result.revocationFailure { return TrustDecision(failure: failure, chain: result.chain) }
        switch mode {
        case .none: return TrustDecision(chain: result.chain)
        case .certificate: return matchCertificates(trust, result, verifier, domain)
        case .publicKey: return matchKeys(trust, result, verifier, domain)
        }
    }

    private var hasPins: Bool {
        switch effectivePinningMode {
        case .none: false
        case .certificate: !pinnedCertificates.isEmpty
        case .publicKey: !publicKeyPins.isEmpty || !backupPins.isEmpty || !pinnedCertificates.isEmpty
        }
    }

    // MARK: Certificates

    private func matchCertificates(
        _ trust: ServerTrust, _ result: ChainVerifier.Result, _ verifier: ChainVerifier, _ domain: String?
    ) -> TrustDecision {
        // If the server's own certificate is pinned, it needs no issuer. Omit the other certificates, which OpenSSL
        // would check.
        let own = trust.certificates.prefix(1).filter(pinnedCertificates.contains)
        guard let pins = TrustStore(own.isEmpty ? pinnedCertificates : own) else {
            return TrustDecision(
                failure: .unusable(authorities: .unreadable(file: "the pins", reason: "Out of memory.")))
        }
        let toPin = verifier.with(pins).verify(own.isEmpty ? trust.certificates : own)
        guard toPin.isValid, toPin.chain.contains(where: pinnedCertificates.contains) else {
            let failure =
                !toPin.isValid && !toPin.problems.contains { $0.reason == .unknownRoot }
                ? toPin.failure(host: domain) : nil
            return TrustDecision(failure: failure ?? .notPinned(trust), chain: result.chain)
        }
        let chain = result.isValid ? result.chain : trust.certificates
        if validatesCertificateChain, let other = chain.first(where: { !pinnedCertificates.contains($0) }) {
            return TrustDecision(failure: .chainNotPinned(other), chain: result.chain)
        }
        return TrustDecision(chain: result.isValid ? result.chain : toPin.chain)
    }

    // MARK: Keys

    private func matchKeys(
        _ trust: ServerTrust, _ result: ChainVerifier.Result, _ verifier: ChainVerifier, _ domain: String?
    ) -> TrustDecision {
        let pins = pinnedPublicKeys
        var chain = result.chain
        if !result.isValid {
            do throws(ServerTrustFailure) {
                chain = try pathToPinnedKey(trust, result.chain, pins, verifier)
            } catch {
                return TrustDecision(failure: error, chain: result.chain)
            }
            // A pin only identifies a key; it does not specify which hosts may use the key.
            if let host = verifier.host, let leaf = chain.first, !host.isNamed(by: leaf) {
                return TrustDecision(
                    failure: ChainVerifier.Result.wrongHost(leaf).failure(host: domain), chain: result.chain)
            }
        }
        let keys = chain.map(\.publicKeyPin)
        let matching = keys.compactMap { $0 }.filter(pins.contains)
        guard !matching.isEmpty else {
            return TrustDecision(failure: .notPinned(ServerTrust(certificates: chain)), chain: chain)
        }
        if validatesCertificateChain {
            let whole = result.isValid ? chain : trust.certificates
            if let other = whole.first(where: { !($0.publicKeyPin.map(pins.contains) ?? false) }) {
                return TrustDecision(failure: .chainNotPinned(other), chain: chain)
            }
        }
        let present = publicKeyPins.union(pinnedCertificates.compactMap(\.publicKeyPin))
        return TrustDecision(chain: chain, usesBackupPin: !matching.contains(where: present.contains))
    }

    /// Returns the server's certificate if its key is pinned. Otherwise returns the chain of valid signatures from it
    /// to a certificate with a pinned key. Used if the chain is invalid but invalid certificates are allowed. The mere
    /// presence of a pinned certificate is not sufficient, because any server could send one in addition to its own.
    private func pathToPinnedKey(
        _ trust: ServerTrust, _ chain: [Certificate], _ pins: Set<PublicKeyPin>, _ verifier: ChainVerifier
    ) throws(ServerTrustFailure) -> [Certificate] {
        guard let leaf = trust.certificates.first else { throw .notPinned(trust) }
        if let key = leaf.publicKeyPin, pins.contains(key) { return [leaf] }
        // Servers do not send the root, so it is only in the verified chain.
        let anchors =
            (trust.certificates.dropFirst() + chain.dropFirst()).filter { $0.publicKeyPin.map(pins.contains) ?? false }
            + pinnedCertificates.filter { $0 != leaf }
        guard !anchors.isEmpty, let store = TrustStore(anchors) else { throw .notPinned(trust) }
        let result = verifier.with(store).verify(trust.certificates)
        if let failure = result.revocationFailure { throw failure }
        guard result.problems.allSatisfy(\.isTolerableWithPinnedKey), let last = result.chain.last, anchors.contains(last)
        else { throw .notPinned(trust) }
        return result.chain
    }
}

extension ServerTrustFailure {
    static func unusable(authorities error: CertificateError) -> ServerTrustFailure {
        ServerTrustFailure(.unusablePolicy, "The certificate authorities cannot be used: \(error)")
    }

    static func unusable(lists error: CertificateError) -> ServerTrustFailure {
        ServerTrustFailure(.unusablePolicy, "The revocation lists cannot be used: \(error)")
    }

    static func tooManyCertificates(_ trust: ServerTrust) -> ServerTrustFailure {
        ServerTrustFailure(
            .invalidChain,
            "The server sent \(trust.certificates.count) certificates. At most \(SecurityPolicy.mostCertificates) are "
                + "accepted.", certificate: trust.certificates.first)
    }

    static var pinsMissing: ServerTrustFailure {
        ServerTrustFailure(
            .pinsMissing,
            "Invalid certificates are allowed without pins, so the host name cannot be validated. Pin a certificate or "
                + "key, or set validatesDomainName to false.")
    }

    static func notPinned(_ trust: ServerTrust) -> ServerTrustFailure {
        let keys = trust.certificates.prefix(8).map { $0.publicKeyPin?.description ?? "(unreadable)" }
        return ServerTrustFailure(
            .notPinned,
            "No certificate or key in the server's chain is pinned. The keys in the chain, starting with the server's: "
                + keys.joined(separator: ", "), certificate: trust.certificates.first)
    }

    static func chainNotPinned(_ certificate: Certificate) -> ServerTrustFailure {
        ServerTrustFailure(
            .chainNotPinned, "All certificates in the chain must be pinned, but \"\(certificate.subject)\" is not.",
            certificate: certificate)
    }
}
