import ConvoySupport
import Foundation
import Synchronization

/// TLS settings: trust, client certificate, versions and cipher suites. Only requests with equal settings share
/// connections.
package struct TLSSettings: Sendable, Hashable {
    package var policy = SecurityPolicy.default
    package var proxyPolicy = SecurityPolicy.default
    package var identity: ClientIdentity?
    package var minimumVersion = TLSVersion.tls12
    package var maximumVersion: TLSVersion?
    package var cipherSuites: [String] = []

    package init() {}

    /// The versions allowed by both the limits and the cipher suites (TLS 1.3 has its own suites); nil if no version
    /// remains.
    var versions: ClosedRange<TLSVersion>? {
        let hasOld = cipherSuites.isEmpty || !oldCipherSuites.isEmpty
        let hasNew = cipherSuites.isEmpty || !newCipherSuites.isEmpty
        let lowest = max(minimumVersion, hasOld ? .tls12 : .tls13)
        let highest = min(maximumVersion ?? .tls13, hasNew ? .tls13 : .tls12)
        return lowest <= highest ? lowest...highest : nil
    }

    var oldCipherSuites: [String] { cipherSuites.filter { !$0.hasPrefix("TLS_") } }
    var newCipherSuites: [String] { cipherSuites.filter { $0.hasPrefix("TLS_") } }
}

/// Copy-on-write TLS settings. All copies share one ``TLSContext``.
package struct TLSConfiguration: Sendable, Hashable {
    private final class Storage: Sendable {
        let settings: TLSSettings
        let isPinning: Bool
        /// The retained context as a bit pattern; 0 before first use.
        private let published = Atomic<UInt>(0)

        private let anonymous = Locked<Storage?>(nil)

        let trustsDefault: Bool
        /// Cached digests of policies, by host; at most 256.
        private let digests = Locked<[String: String]>([:])

        func policyDigest(forHost host: String) -> String {
            if let known = digests.withLock({ $0[host] }) { return known }
            let policy = settings.policy.policy(forHost: host)
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            // A policy that cannot be encoded, for example one with a NaN date, is identified by its hash value, which
            // is valid within this process.
            let text = (try? encoder.encode(policy)) ?? Data("\(policy.hashValue)".utf8)
            let digest = MessageDigest.sha256(text)?.hexadecimalString ?? text.base64EncodedString()
            digests.withLock { digests in
                if digests.count >= 256 { digests = [:] }
                digests[host] = digest
            }
            return digest
        }

        init(_ settings: TLSSettings) {
            self.settings = settings
            trustsDefault = settings.policy == .default
            isPinning = settings.policy.isPinning || settings.policy.hostPolicies.values.contains(where: \.isPinning)
        }

        deinit {
            UnsafeRawPointer(bitPattern: published.load(ordering: .acquiring))
                .map { Unmanaged<TLSContext>.fromOpaque($0).release() }
        }

        /// The storage for the same settings without the client certificate.
        var withoutIdentity: Storage {
            anonymous.withLock { anonymous in
                if let anonymous { return anonymous }
                var settings = settings
                settings.identity = nil
                let storage = Storage(settings)
                anonymous = storage
                return storage
            }
        }

        /// The context. Reading it takes no lock, because every request needs the context.
        var context: TLSContext {
            if let context = UnsafeRawPointer(bitPattern: published.load(ordering: .acquiring)) {
                return Unmanaged<TLSContext>.fromOpaque(context).takeUnretainedValue()
            }
            let own = Unmanaged.passRetained(TLSContext.shared(for: settings))
            let number = UInt(bitPattern: own.toOpaque())
            let (isFirst, other) = published.compareExchange(expected: 0, desired: number, ordering: .acquiringAndReleasing)
            if isFirst { return own.takeUnretainedValue() }
            own.release()
            return UnsafeRawPointer(bitPattern: other).map { Unmanaged<TLSContext>.fromOpaque($0).takeUnretainedValue() }
                ?? TLSContext.shared(for: settings)
        }
    }

    private var storage: Storage

    private static let standard = Storage(TLSSettings())

    /// Creates the default configuration.
    package init() { storage = Self.standard }

    package var settings: TLSSettings {
        get { storage.settings }
        set { storage = Storage(newValue) }
    }

    /// The configuration without the client certificate.
    package var withoutIdentity: TLSConfiguration {
        guard storage.settings.identity != nil else { return self }
        var copy = self
        copy.storage = storage.withoutIdentity
        return copy
    }

    /// Returns a digest that identifies the policy for a host, or nil for the default policy.
    ///
    /// - Parameter host: Called only if there are host-specific policies.
    package func policyDigest(_ host: () -> String) -> String? {
        if storage.trustsDefault { return nil }
        return storage.policyDigest(forHost: storage.settings.policy.hostPolicies.isEmpty ? "" : host())
    }

    /// Whether any policy has pins. If so, a server can be trusted only over TLS.
    package var isPinning: Bool { storage.isPinning }

    /// The context shared by connections with equal settings.
    package var context: TLSContext { storage.context }

    package static func == (left: TLSConfiguration, right: TLSConfiguration) -> Bool {
        left.storage === right.storage || left.context === right.context
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(context)) }
}

/// A TLS version. Older versions are insecure (RFC 8996) and are never offered.
public enum TLSVersion: Int, Sendable, Hashable, Codable, CaseIterable, Comparable {
    /// TLS 1.2 (RFC 5246).
    case tls12 = 0x0303
    /// TLS 1.3 (RFC 8446).
    case tls13 = 0x0304

    /// Returns whether the left version is older than the right one.
    public static func < (left: TLSVersion, right: TLSVersion) -> Bool { left.rawValue < right.rawValue }
}
