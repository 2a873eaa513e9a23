import COpenSSL
import Foundation

extension SecurityPolicy {
    /// Whether a server is trusted that presented these certificates. The counterpart of
    /// `evaluateServerTrust:forDomain:`.
    ///
    /// In AFNetworking's order: a policy that allows invalid certificates and validates names without pins is refused;
    /// the chain and the name are verified, by the rules of RFC 5280 and RFC 9525; without pins that decides, unless
    /// invalid certificates are allowed; with pins the chain that was verified must have them. A certificate that the
    /// server only sent along, without which the chain is as valid, does not count.
    ///
    /// Blocks while the authorities are read from files, unless connections with the same ones have read them.
    ///
    /// - Parameters:
    ///   - trust: what the server presented.
    ///   - domain: the host of the URL; nil to leave out the check of the name. A policy of `hostPolicies` that covers it
    ///     decides in place of this one.
    ///   - date: at which time.
    public func evaluate(_ trust: ServerTrust, forDomain domain: String?, at date: Date = Date()) -> TrustDecision {
        let policy = domain.map { self.policy(forHost: $0) } ?? self
        do throws(CertificateError) {
            return policy.evaluate(
                trust, forDomain: domain, at: date, store: try TrustStore.store(of: policy.certificateAuthorities))
        } catch {
            return TrustDecision(failure: .unusable(error))
        }
    }

    /// The same for the policy that counts for the host, with its authorities.
    func evaluate(_ trust: ServerTrust, forDomain domain: String?, at date: Date, store: TrustStore) -> TrustDecision {
        guard !trust.certificates.isEmpty else {
            return TrustDecision(failure: ServerTrustFailure(.noCertificate, "The server sent no certificate."))
        }
        let arePinsInForce = pinningMode != .none && !(pinsExpire.map { date >= $0 } ?? false)
        let mode = arePinsInForce ? pinningMode : .none
        let allowsInvalid = allowInvalidCertificates && (arePinsInForce || pinningMode == .none)
        let validatesName = domain != nil && (validatesDomainName || pinningMode != .none && !arePinsInForce)
        if domain != nil, allowsInvalid, validatesDomainName, mode == .none || !hasPins {
            return TrustDecision(failure: .pinsMissing)
        }
        let host = domain.flatMap(HostName.init)
        if validatesName, host == nil {
            return TrustDecision(
                failure: ServerTrustFailure(
                    .wrongHost, "No certificate can name the host \(domain?.debugDescription ?? "")."))
        }
        let verifier = ChainVerifier(store: store, host: validatesName ? host : nil, date: date)
        let result = verifier.verify(trust.certificates)
        if mode == .none {
            if result.isValid || allowsInvalid { return TrustDecision(chain: result.chain) }
            return TrustDecision(failure: result.failure(host: domain), chain: result.chain)
        }
        if !result.isValid, !allowsInvalid {
            return TrustDecision(failure: result.failure(host: domain), chain: result.chain)
        }
        return mode == .certificate
            ? matchCertificates(trust, result, verifier, domain) : matchKeys(trust, result, verifier)
    }

    private var hasPins: Bool {
        switch pinningMode {
        case .none: false
        case .certificate: !pinnedCertificates.isEmpty
        case .publicKey: !publicKeyPins.isEmpty || !backupPins.isEmpty || !pinnedCertificates.isEmpty
        }
    }

    // MARK: Certificates

    private func matchCertificates(
        _ trust: ServerTrust, _ result: ChainVerifier.Result, _ verifier: ChainVerifier, _ domain: String?
    ) -> TrustDecision {
        // A pinned certificate of the server's own needs nobody above it. OpenSSL would look at these all the same.
        let own = trust.certificates.prefix(1).filter(pinnedCertificates.contains)
        guard let pins = TrustStore(own.isEmpty ? pinnedCertificates : own) else {
            return TrustDecision(failure: .unusable(.unreadable(file: "the pins", reason: "There is no memory.")))
        }
        let toPin = ChainVerifier(store: pins, host: verifier.host, date: verifier.date)
            .verify(own.isEmpty ? trust.certificates : own)
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
        _ trust: ServerTrust, _ result: ChainVerifier.Result, _ verifier: ChainVerifier
    ) -> TrustDecision {
        let pins = pinnedPublicKeys
        let chain: [Certificate]
        if result.isValid {
            chain = result.chain
        } else if let path = pathToPinnedKey(trust, result.chain, pins, verifier) {
            chain = path
        } else {
            return TrustDecision(failure: .notPinned(trust), chain: result.chain)
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

    /// Where the chain is invalid, and that is allowed: the server's certificate, if its key is pinned, or the way from it
    /// to a certificate with a pinned key, by signatures that are right. Anybody can send a pinned certificate along.
    private func pathToPinnedKey(
        _ trust: ServerTrust, _ chain: [Certificate], _ pins: Set<PublicKeyPin>, _ verifier: ChainVerifier
    ) -> [Certificate]? {
        guard let leaf = trust.certificates.first else { return nil }
        if let key = leaf.publicKeyPin, pins.contains(key) { return [leaf] }
        // The root is in the chain only, as servers do not send it.
        let anchors =
            (trust.certificates.dropFirst() + chain.dropFirst()).filter { $0.publicKeyPin.map(pins.contains) ?? false }
            + pinnedCertificates.filter { $0 != leaf }
        guard !anchors.isEmpty, let store = TrustStore(anchors) else { return nil }
        let result = ChainVerifier(store: store, host: nil, date: verifier.date).verify(trust.certificates)
        guard result.problems.allSatisfy(\.isTolerableWithPinnedKey), let last = result.chain.last, anchors.contains(last)
        else { return nil }
        return result.chain
    }
}

extension ServerTrustFailure {
    static func unusable(_ error: CertificateError) -> ServerTrustFailure {
        ServerTrustFailure(.unusablePolicy, "The certificate authorities cannot be used: \(error)")
    }

    static var pinsMissing: ServerTrustFailure {
        ServerTrustFailure(
            .pinsMissing,
            "Invalid certificates are allowed and nothing is pinned, so that the host's name cannot be validated: pin "
                + "something, or set validatesDomainName to false.")
    }

    static func notPinned(_ trust: ServerTrust) -> ServerTrustFailure {
        let keys = trust.certificates.prefix(8).map { $0.publicKeyPin?.description ?? "(unreadable)" }
        return ServerTrustFailure(
            .notPinned,
            "Nothing that the server's chain has is pinned. Its keys, beginning with the server's: "
                + keys.joined(separator: ", "), certificate: trust.certificates.first)
    }

    static func chainNotPinned(_ certificate: Certificate) -> ServerTrustFailure {
        ServerTrustFailure(
            .chainNotPinned, "All of the chain has to be pinned, and \"\(certificate.subject)\" is not.",
            certificate: certificate)
    }
}
