import Foundation

/// Decides which servers are trusted. The counterpart of `AFSecurityPolicy`, with its three modes, its flags and its
/// order of evaluation.
///
/// A value: copies are independent. A connection made under one policy is never used under another.
///
/// ```swift
/// var policy = try SecurityPolicy(publicKeyPins: ["sha256/…"], backupPins: ["sha256/…"])
/// policy.certificateAuthorities = .file(privateRoot)
/// let manager = try HTTPRequestOperationManager(baseURL: api, securityPolicy: policy)
/// ```
public struct SecurityPolicy: Sendable, Hashable, Codable {
    /// What is pinned. The counterpart of `AFSSLPinningMode`, with its numbers.
    public enum PinningMode: Int, Sendable, Hashable, Codable, CaseIterable {
        /// Nothing: the server needs a valid chain to one of the `certificateAuthorities`.
        case none = 0
        /// A key: besides that, the chain must have one of the pinned keys.
        case publicKey = 1
        /// A certificate: besides that, a valid chain must lead to one of the pinned certificates, as its only authority.
        case certificate = 2
    }

    /// What is pinned. Pins that are set in the mode `none` are in force all the same: as in the mode `publicKey` if
    /// there are keys, otherwise as in the mode `certificate`. (`AFSecurityPolicy` ignores them.)
    public var pinningMode: PinningMode

    /// The pinned certificates, each once, in their order. In the mode `publicKey` their keys are pinned.
    public var pinnedCertificates: [Certificate] {
        didSet { pinnedCertificates = pinnedCertificates.unique }
    }

    /// Pinned keys, besides those of the pinned certificates. For the mode `publicKey`.
    public var publicKeyPins: Set<PublicKeyPin> = []

    /// Keys that are pinned for the day when the server's must be replaced. They are equal to the others;
    /// ``TrustDecision/usesBackupPin`` is true when one was needed.
    public var backupPins: Set<PublicKeyPin> = []

    /// When the pins expire, so that a program without updates is not locked out for ever; nil for never. After that
    /// the server needs a valid chain and its name, even if `allowInvalidCertificates` is true.
    public var pinsExpire: Date?

    /// Whether a server with an invalid certificate is trusted: self-signed, of an unknown authority, expired.
    ///
    /// With pins it is trusted only if they match: a pinned certificate must still be valid and lead to the server's,
    /// and a pinned key must be the server's or have certified it; and only if it names the host, unless
    /// `validatesDomainName` is false. Without pins every server is trusted, and so `validatesDomainName` must be false
    /// too. A certificate that `revocationLists` revoke is refused in any case. False by default.
    public var allowInvalidCertificates = false

    /// Whether the certificate must name the host. True by default.
    public var validatesDomainName = true

    /// Whether all certificates of the chain (all keys, in the mode `publicKey`) must be pinned, in place of one. False
    /// by default.
    public var validatesCertificateChain = false

    /// Whether the server must staple an OCSP response (RFC 6066, section 8) that says that its certificate is good.
    /// False by default: the client then does not ask for one.
    public var requiresStapledStatus = false

    /// Files of certificate revocation lists (RFC 5280, section 5), in PEM, with several in one, or in DER. If there
    /// are any, every certificate of a chain but the authority at its end needs a valid list of its issuer that does
    /// not revoke it, as with `--crlfile` of the `curl` tool: the server is refused if a list is missing, out of date
    /// or signed by another issuer (``ServerTrustFailure/Reason/noValidRevocationList``). None by default.
    ///
    /// They are read when the first connection needs them, and again when the first of them has expired, or after an
    /// hour. Delta CRLs are not supported, and refused when the file is read.
    public var revocationLists: [URL] = []

    /// How many authorities may stand between a server's certificate and the one at which its chain ends; at most 100.
    /// 20 by default; only attackers send longer chains, to keep a client busy.
    public var maximumChainDepth = Self.defaultChainDepth

    private static let defaultChainDepth = 20

    /// The certificates that a chain may end at. The system's by default.
    ///
    /// Files are read when the first connection needs them, and cached as long as the policy is in use.
    public var certificateAuthorities = CertificateAuthorities.system

    /// Policies for some hosts, in place of this one.
    public private(set) var hostPolicies: [HostPattern: SecurityPolicy] = [:]

    /// A policy with the given pins; without arguments it is equal to ``default``.
    ///
    /// - Parameters:
    ///   - pinningMode: what is pinned.
    ///   - pinnedCertificates: see ``Certificate/certificates(contentsOf:)`` and
    ///     ``Certificate/certificates(inDirectory:)``.
    public init(pinningMode: PinningMode = .none, pinnedCertificates: [Certificate] = []) {
        self.pinningMode = pinningMode
        self.pinnedCertificates = pinnedCertificates.unique
    }

    /// A policy that pins keys by their hashes.
    ///
    /// - Parameters:
    ///   - publicKeyPins: texts of the form "sha256/" and base64.
    ///   - backupPins: the pins of keys that are not yet in use.
    ///   - pinsExpire: when the pins expire; nil for never.
    /// - Throws: `SecurityTextError` for a text that is not a pin.
    public init(
        publicKeyPins: [String], backupPins: [String] = [], pinsExpire: Date? = nil
    ) throws(SecurityTextError) {
        self.init(pinningMode: .publicKey)
        for text in publicKeyPins { self.publicKeyPins.insert(try PublicKeyPin(text)) }
        for text in backupPins { self.backupPins.insert(try PublicKeyPin(text)) }
        self.pinsExpire = pinsExpire
    }

    /// Trusts what the system trusts.
    public static let `default` = SecurityPolicy()

    /// All pinned keys, including those of backups and of pinned certificates.
    public var pinnedPublicKeys: Set<PublicKeyPin> {
        publicKeyPins.union(backupPins).union(pinnedCertificates.compactMap(\.publicKeyPin))
    }

    // MARK: Hosts

    /// Sets the policy of some hosts, in place of this one. Where several patterns cover a host, the most specific counts.
    ///
    /// - Parameters:
    ///   - policy: its own policies of hosts are dropped; nil removes that of the pattern.
    ///   - pattern: `api.example.com`, `*.example.com` or `**.example.com`; see ``HostPattern``.
    /// - Throws: `SecurityTextError`.
    public mutating func setPolicy(_ policy: SecurityPolicy?, forHosts pattern: String) throws(SecurityTextError) {
        var policy = policy
        policy?.hostPolicies = [:]
        hostPolicies[try HostPattern(pattern)] = policy
    }

    /// The policy for a host: that of the most specific pattern that covers it, or this one.
    public func policy(forHost host: String) -> SecurityPolicy {
        guard !hostPolicies.isEmpty else { return self }
        let covering = hostPolicies.filter { $0.key.covers(host) }
        return covering.min { HostPattern.isMoreSpecific($0.key, than: $1.key) }?.value ?? self
    }

    /// Whether the policy for a host pins anything; without a host, whether this one does.
    package func isPinning(host: String?) -> Bool { (host.map(policy(forHost:)) ?? self).isPinning }

    /// Whether anything is pinned, so that a server can be trusted only over TLS.
    public var isPinning: Bool { effectivePinningMode != .none }

    /// The mode in force: pins count in the mode `none`, too.
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

    /// Decodes a policy. A missing value has its default.
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
                        debugDescription: "There is more than one policy for \(pattern.debugDescription).")
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

    /// Encodes the policy. The pins are sorted, so that equal policies are encoded alike.
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

// AFNetworking's names in this module, marked unavailable: the compiler suggests the replacement to a ported program
// instead of reporting an unknown name.

/// The policy for server certificates.
@available(*, unavailable, renamed: "SecurityPolicy", message: "A value: set the securityPolicy of a manager.")
public final class AFSecurityPolicy: Sendable {
    /// The policy that trusts the system's authorities.
    @available(*, unavailable, renamed: "SecurityPolicy.default")
    public static func defaultPolicy() -> AFSecurityPolicy { AFSecurityPolicy() }

    /// A policy that pins the certificates of the program's bundle.
    @available(*, unavailable, renamed: "SecurityPolicy.init(pinningMode:pinnedCertificates:)")
    public init(pinningMode: AFSSLPinningMode) {}

    package init() {}
}

/// What a security policy pins.
@available(*, unavailable, renamed: "SecurityPolicy.PinningMode")
public enum AFSSLPinningMode: UInt, Sendable {
    /// Nothing.
    case none
    /// The server's public key.
    case publicKey
    /// The server's certificate.
    case certificate
}

extension SecurityPolicy {
    /// The policy that trusts the system's authorities.
    @available(*, unavailable, renamed: "default")
    public static func defaultPolicy() -> SecurityPolicy { SecurityPolicy() }

    /// Whether the server is trusted.
    @available(*, unavailable, renamed: "evaluate(_:forDomain:)", message: "Its isTrusted.")
    public func evaluateServerTrust(_ trust: ServerTrust, forDomain domain: String?) -> Bool { false }

    /// The certificates of a bundle.
    @available(*, unavailable, renamed: "Certificate.certificates(inDirectory:)")
    public static func certificatesInBundle(_ folder: String) -> [Certificate] { [] }

    /// What is pinned.
    @available(*, unavailable, renamed: "pinningMode")
    public var SSLPinningMode: PinningMode { pinningMode }
}
