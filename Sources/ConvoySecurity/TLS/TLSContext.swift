import COpenSSL
import ConvoySupport
import Foundation
import Synchronization

/// What the connections of equal settings share: the authorities and the client's certificate, once they are read, and a
/// name that tells their connections from those of others.
package final class TLSContext: Sendable {
    package let settings: TLSSettings
    /// A folder that cannot exist, of this context's own. libcurl compares it where it looks for a connection that can be
    /// used again, and never finds a certificate there.
    package let connectionKey: String

    /// What was read.
    struct Material: Sendable {
        let stores: [CertificateAuthorities: TrustStore]
        let identity: LoadedIdentity?
        /// The digest of the client's certificate.
        let certificateDigest: String?
    }

    package typealias Waiter = @Sendable (TLSConfigurationError?) -> Void

    private struct State {
        var material: Material?
        /// Who waits for it; nil if it is not being read.
        var waiters: [Waiter]?
    }
    private let state = Locked(State())
    private let isRead = Atomic<Bool>(false)

    private init(_ settings: TLSSettings) {
        self.settings = settings
        let number = Self.count.add(1, ordering: .relaxed).newValue
        connectionKey = "/dev/null/convoy/\(number)"
    }

    private static let count = Atomic<Int>(0)

    private struct WeakContext {
        weak var context: TLSContext?
    }
    private static let known = Locked<[TLSSettings: WeakContext]>([:])

    /// The context of these settings.
    static func shared(for settings: TLSSettings) -> TLSContext {
        known.withLock { known in
            if let context = known[settings]?.context { return context }
            known = known.filter { $0.value.context != nil }
            let context = TLSContext(settings)
            known[settings] = WeakContext(context: context)
            return context
        }
    }

    // MARK: Reading

    /// Whether connections can be made at once.
    package var isReady: Bool { isRead.load(ordering: .acquiring) }

    var material: Material? { state.withLock { $0.material } }

    /// What tells the client's certificate from others, nil if there is none: its digest, once it is read. Before that it is
    /// what tells the object from others. Nothing is read here, and nobody is asked for a passphrase.
    package var clientCertificate: String? {
        settings.identity.map { material?.certificateDigest ?? "\(ObjectIdentifier($0))" }
    }

    /// Reads the authorities and the client's certificate, unless that was done, and calls back on any thread.
    ///
    /// - Parameters:
    ///   - perform: runs what may block on a thread where it may.
    ///   - waiter: called with what is wrong, or with nil.
    package func prepare(on perform: (@escaping @Sendable () -> Void) -> Void, _ waiter: @escaping Waiter) {
        enum Next { case read, wait, ready }
        let next: Next = state.withLock { state in
            if state.material != nil { return .ready }
            guard state.waiters != nil else {
                state.waiters = [waiter]
                return .read
            }
            state.waiters?.append(waiter)
            return .wait
        }
        switch next {
        case .ready: waiter(nil)
        case .wait: break
        case .read: perform { self.readMaterial() }
        }
    }

    private func readMaterial() {
        var material: Material?
        var failure: TLSConfigurationError?
        do throws(TLSConfigurationError) {
            material = try makeMaterial()
        } catch {
            failure = error
        }
        let waiters = state.withLock { state in
            state.material = material
            defer { state.waiters = nil }
            return state.waiters ?? []
        }
        if failure == nil { isRead.store(true, ordering: .releasing) }
        for waiter in waiters { waiter(failure) }
    }

    private func makeMaterial() throws(TLSConfigurationError) -> Material {
        try TLSParameters.check(settings)
        var stores: [CertificateAuthorities: TrustStore] = [:]
        do throws(CertificateError) {
            for policy in [settings.policy, settings.proxyPolicy] {
                for policy in [policy] + policy.hostPolicies.values {
                    stores[policy.certificateAuthorities] = try TrustStore.store(of: policy.certificateAuthorities)
                }
            }
        } catch {
            throw .authorities(error)
        }
        let identity: LoadedIdentity?
        do throws(ClientIdentityError) {
            identity = try settings.identity?.load()
        } catch {
            throw .identity(error)
        }
        if let identity { try TLSParameters.check(identity) }
        let digest = identity?.certificates.first.map { certificate in
            let der = certificate.derData
            return MessageDigest.sha256(der)?.hexadecimalString ?? der.base64EncodedString()
        }
        return Material(stores: stores, identity: identity, certificateDigest: digest)
    }
}

extension TLSContext: Equatable {
    package static func == (left: TLSContext, right: TLSContext) -> Bool { left === right }
}
