import Foundation

/// A policy that decides which servers are trusted. The counterpart of `AFSecurityPolicy`, with the same three modes,
/// flags and order of evaluation.
///
/// A security policy is a value: copies are independent. A connection made under one policy is never used under
/// another.
///
/// ```swift
/// var policy = try SecurityPolicy(publicKeyPins: ["sha256/…"], backupPins: ["sha256/…"])
/// policy.certificateAuthorities = .file(privateRoot)
/// let manager = try HTTPRequestOperationManager(baseURL: api, securityPolicy: policy)
/// ```
public struct SecurityPolicy: Sendable, Hashable, Codable {
    /// The kind of pin that a policy uses. The counterpart of `AFSSLPinningMode`, with the same raw values.
    public enum PinningMode: Int, Sendable, Hashable, Codable, CaseIterable {
        /// Nothing is pinned. The server needs a valid chain that ends at one of the `certificateAuthorities`.
        case none = 0
        /// Keys are pinned. The chain must be valid and must contain one of the pinned keys.
        case publicKey = 1
        /// Certificates are pinned. The chain must be valid, and must also be valid with the pinned certificates as the
        /// only authorities.
        case certificate = 2
    }

    /// The pinning mode. Pins also apply in the mode `none`: as in the mode `publicKey` if there are pinned keys, and
    /// as in the mode `certificate` otherwise. (`AFSecurityPolicy` ignores them.)
    public var pinningMode: PinningMode

    /// The pinned certificates, in order and without duplicates. In the mode `publicKey`, their keys are pinned.
    public var pinnedCertificates: [Certificate] {
        didSet { pinnedCertificates = pinnedCertificates.unique }
    }

    /// Pinned keys, in addition to those of the pinned certificates. Used in the mode `publicKey`.
    public var publicKeyPins: Set<PublicKeyPin> = []

    /// The keys that are pinned in case the server's key has to be replaced. They are equivalent to the other pins, but
    /// ``TrustDecision/usesBackupPin`` reports whether one of them was needed.
    public var backupPins: Set<PublicKeyPin> = []

    /// The time at which the pins expire, so that a program without updates is not locked out forever; nil for never.
    /// After that time, the server needs a valid chain and a matching name, even if `allowInvalidCertificates` is true.
    public var pinsExpire: Date?

    /// Whether servers with invalid certificates are trusted, for example self-signed, expired, or issued by an unknown
    /// authority. False by default.
    ///
    /// With pins, the server is trusted only if they match. A pinned certificate must still be valid, and the server's
    /// chain must lead to it. A pinned key must be the server's own or have certified it. The certificate must name the
    /// host, unless `validatesDomainName` is false. Without pins, every server is trusted, so `validatesDomainName`
    /// must be false as well. Certificates that are revoked by `revocationLists` are always rejected.
    public var allowInvalidCertificates = false

    /// Whether the certificate must name the host. True by default.
    public var validatesDomainName = true

    /// Whether all certificates in the chain (in the mode `publicKey`, all keys) must be pinned, instead of at least
    /// one. False by default.
    public var validatesCertificateChain = false

    /// Whether the server must staple an OCSP response (RFC 6066, section 8) that confirms that its certificate is
    /// good. False by default; the client then does not request a response.
    public var requiresStapledStatus = false

    /// Files that contain certificate revocation lists (RFC 5280, section 5), in PEM, possibly several per file, or in
    /// DER. Empty by default. If any files are specified, every certificate in a chain except the authority at its end
    /// requires a valid list from its issuer that does not revoke it, as with curl's `--crlfile`. If a list is missing,
    /// expired or signed by another issuer, the server is refused
    /// (``ServerTrustFailure/Reason/noValidRevocationList``).
    ///
    /// The lists are loaded when the first connection needs them, and reloaded when the first list expires or after an
    /// hour. Delta CRLs are not supported and cause an error when the file is loaded.
    public var revocationLists: [URL] = []

    /// The maximum number of authorities between a server's certificate and the one at which its chain ends; at most
    /// 100. The default is 20. Only attackers send longer chains, to keep a client busy.
    public var maximumChainDepth = Self.defaultChainDepth

    private static let defaultChainDepth = 20

    /// The certificates at which a chain may end. By default, those that the system trusts.
    ///
    /// Files are read when the first connection needs them, and cached for as long as the policy is in use.
    public var certificateAuthorities = CertificateAuthorities.system

    /// The policies for specific hosts, used instead of this policy.
    public private(set) var hostPolicies: [HostPattern: SecurityPolicy] = [:]

    /// Creates a policy with the given pins. Without arguments, it is equal to ``default``.
    ///
    /// - Parameters:
    ///   - pinningMode: The pinning mode.
    ///   - pinnedCertificates: See ``Certificate/certificates(contentsOf:)`` and
    ///     ``Certificate/certificates(inDirectory:)``.
    public init(pinningMode: PinningMode = .none, pinnedCertificates: [Certificate] = []) {
        self.pinningMode = pinningMode
        self.pinnedCertificates = pinnedCertificates.unique
    }

    /// Creates a policy that pins keys by their hashes.
    ///
    /// - Parameters:
    ///   - publicKeyPins: Strings of the form "sha256/" followed by Base64.
    ///   - backupPins: The pins of keys that are not in use yet.
    ///   - pinsExpire: The time at which the pins expire; nil for never.
    /// - Throws: `SecurityTextError` if a string is not a pin.
    public init(
        publicKeyPins: [String], backupPins: [String] = [], pinsExpire: Date? = nil
    ) throws(SecurityTextError) {
        self.init(pinningMode: .publicKey)
        for text in publicKeyPins { self.publicKeyPins.insert(try PublicKeyPin(text)) }
        for text in backupPins { self.backupPins.insert(try PublicKeyPin(text)) }
        self.pinsExpire = pinsExpire
    }

    /// Creates a policy that pins keys, such as those of certificates.
    ///
    /// ```swift
    /// let pins = try Certificate.certificates(contentsOf: file).map(\.publicKeyPin)
    /// let policy = try SecurityPolicy(publicKeyPins: pins)
    /// ```
    ///
    /// - Parameters:
    ///   - publicKeyPins: The pins, as returned by ``Certificate/publicKeyPin``.
    ///   - backupPins: The pins of keys that are not in use yet.
    ///   - pinsExpire: The time at which the pins expire; nil for never.
    /// - Throws: `SecurityTextError.unreadableKey` if a pin is nil.
    public init(
        publicKeyPins: [PublicKeyPin?], backupPins: [PublicKeyPin?] = [], pinsExpire: Date? = nil
    ) throws(SecurityTextError) {
        self.init(pinningMode: .publicKey)
        for pin in publicKeyPins { self.publicKeyPins.insert(try Self.readable(pin)) }
        for pin in backupPins { self.backupPins.insert(try Self.readable(pin)) }
        self.pinsExpire = pinsExpire
    }

    /// Returns a pin. A policy without the pin would trust other servers than its author expects.
    private static func readable(_ pin: PublicKeyPin?) throws(SecurityTextError) -> PublicKeyPin {
        guard let pin else { throw .unreadableKey }
        return pin
    }

    /// The policy that trusts the same servers as the system.
    public static let `default` = SecurityPolicy()

    /// All pinned keys, including those of backup pins and pinned certificates.
    package var pinnedPublicKeys: Set<PublicKeyPin> {
        publicKeyPins.union(backupPins).union(pinnedCertificates.compactMap(\.publicKeyPin))
    }

    // MARK: Hosts

    /// Sets the policy to use for some hosts instead of this policy. If several patterns match a host, the most
    /// specific one is used.
    ///
    /// - Parameters:
    ///   - policy: The policy. Its own host policies are dropped. If nil, removes the policy for the pattern.
    ///   - pattern: `api.example.com`, `*.example.com` or `**.example.com`; see ``HostPattern``.
    /// - Throws: `SecurityTextError`.
    public mutating func setPolicy(_ policy: SecurityPolicy?, forHosts pattern: String) throws(SecurityTextError) {
        var policy = policy
        policy?.hostPolicies = [:]
        hostPolicies[try HostPattern(pattern)] = policy
    }

    /// Returns the policy for a host: that of the most specific matching pattern, or this policy.
    public func policy(forHost host: String) -> SecurityPolicy {
        guard !hostPolicies.isEmpty else { return self }
        let covering = hostPolicies.filter { $0.key.covers(host) }
        return covering.min { HostPattern.isMoreSpecific($0.key, than: $1.key) }?.value ?? self
    }

    /// Returns whether the policy for a host has pins; if the host is nil, whether this policy has pins.
    package func isPinning(host: String?) -> Bool { (host.map(policy(forHost:)) ?? self).isPinning }

    /// Whether anything is pinned. If so, a server can be trusted only over TLS.
    public var isPinning: Bool { effectivePinningMode != .none }

    /// The effective mode: pins also apply in the mode `none`.
    package var effectivePinningMode: PinningMode {
        if pinningMode != .none { return pinningMode }
        if !publicKeyPins.isEmpty || !backupPins.isEmpty { return .publicKey }
        return pinnedCertificates.isEmpty ? .none : .certificate
    }
}

extension SecurityPolicy {
    private enum CodingKeys: String, CodingKey {
        case pinningMode, pinnedCertificates, publicKeyPins, backupPins, pinsExpire, allowInvalidCertificates,
            validatesDomainName, validatesCertificateChain, requiresStapledStatus, revocationLists, maximumChainDepth,
            certificateAuthorities, hostPolicies
    }

    /// Decodes a policy. Missing values have their defaults.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            pinningMode: try container.decodeIfPresent(PinningMode.self, forKey: .pinningMode) ?? .none,
            pinnedCertificates: try container.decodeIfPresent([Certificate].self, forKey: .pinnedCertificates) ?? [])
        publicKeyPins = try container.decodeIfPresent(Set<PublicKeyPin>.self, forKey: .publicKeyPins) ?? []
        backupPins = try container.decodeIfPresent(Set<PublicKeyPin>.self, forKey: .backupPins) ?? []
        pinsExpire = try container.decodeIfPresent(Date.self, forKey: .pinsExpire)
        allowInvalidCertificates = try container.decodeIfPresent(Bool.self, forKey: .allowInvalidCertificates) ?? false
        validatesDomainName = try container.decodeIfPresent(Bool.self, forKey: .validatesDomainName) ?? true
        validatesCertificateChain = try container.decodeIfPresent(Bool.self, forKey: .validatesCertificateChain) ?? false
        requiresStapledStatus = try container.decodeIfPresent(Bool.self, forKey: .requiresStapledStatus) ?? false
        revocationLists = try container.decodeIfPresent([URL].self, forKey: .revocationLists) ?? []
        maximumChainDepth =
            try container.decodeIfPresent(Int.self, forKey: .maximumChainDepth) ?? Self.defaultChainDepth
        certificateAuthorities =
            try container.decodeIfPresent(CertificateAuthorities.self, forKey: .certificateAuthorities) ?? .system
        let policies = try container.decodeIfPresent([String: SecurityPolicy].self, forKey: .hostPolicies) ?? [:]
        for (pattern, policy) in policies {
            do {
                guard hostPolicies[try HostPattern(pattern)] == nil else {
                    throw DecodingError.dataCorruptedError(
                        forKey: .hostPolicies, in: container,
                        debugDescription: "The pattern \(pattern.debugDescription) has more than one policy. Keep only one.")
                }
                try setPolicy(policy, forHosts: pattern)
            } catch let error as DecodingError {
                throw error
            } catch {
                throw DecodingError.dataCorruptedError(
                    forKey: .hostPolicies, in: container, debugDescription: "\(error)")
            }
        }
    }

    /// Encodes the policy. The pins are sorted, so that equal policies have the same encoding.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(pinningMode, forKey: .pinningMode)
        try container.encode(pinnedCertificates, forKey: .pinnedCertificates)
        try container.encode(publicKeyPins.sorted { $0.description < $1.description }, forKey: .publicKeyPins)
        try container.encode(backupPins.sorted { $0.description < $1.description }, forKey: .backupPins)
        try container.encodeIfPresent(pinsExpire, forKey: .pinsExpire)
        try container.encode(allowInvalidCertificates, forKey: .allowInvalidCertificates)
        try container.encode(validatesDomainName, forKey: .validatesDomainName)
        try container.encode(validatesCertificateChain, forKey: .validatesCertificateChain)
        try container.encode(requiresStapledStatus, forKey: .requiresStapledStatus)
        if !revocationLists.isEmpty { try container.encode(revocationLists, forKey: .revocationLists) }
        if maximumChainDepth != Self.defaultChainDepth {
            try container.encode(maximumChainDepth, forKey: .maximumChainDepth)
        }
        try container.encode(certificateAuthorities, forKey: .certificateAuthorities)
        let policies = hostPolicies.map { ($0.key.description, $0.value) }
        try container.encode(Dictionary(policies) { first, _ in first }, forKey: .hostPolicies)
    }
}
