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
        /// By their files.
        var lists: [[URL]: RevocationLists] = [:]

        /// In seconds: revocation lists are read again after an hour, as others may have been put into their place.
        private static let longestUse: TimeInterval = 3600
        /// And those that have expired, or cannot be read, after a minute.
        private static let shortestUse: TimeInterval = 60

        /// Until when it can be used without reading it again, in seconds of the system's clock.
        func usableUntil(now: Date, wasReadNow: Bool) -> Int64 {
            guard !lists.isEmpty else { return .max }
            let end = lists.values.compactMap(\.nextUpdate).min() ?? .distantFuture
            let use = wasReadNow && end > now ? Self.longestUse : Self.shortestUse
            let until = now.addingTimeInterval(use)
            return Int64((end > now ? min(end, until) : until).timeIntervalSince1970)
        }

        var areListsCurrent: Bool {
            let now = Date()
            return lists.values.allSatisfy { $0.nextUpdate.map { $0 > now } ?? true }
        }
    }

    package typealias Waiter = @Sendable (TLSConfigurationError?) -> Void

    private struct State {
        var material: Material?
        /// Who waits for it; nil if it is not being read.
        var waiters: [Waiter]?
    }
    private let state = Locked(State())
    /// Until when what was read can be used, in seconds of the system's clock: 0 before it was read, and `.max` for ever.
    private let usableUntil = Atomic<Int64>(0)

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
    package var isReady: Bool {
        let until = usableUntil.load(ordering: .acquiring)
        return until == .max || until != 0 && time(nil) < until
    }

    var material: Material? { state.withLock { $0.material } }

    /// What tells the client's certificate from others, nil if there is none: its digest, once it is read. Before that it is
    /// what tells the object from others. Nothing is read here, and nobody is asked for a passphrase.
    package var clientCertificate: String? {
        settings.identity.map { material?.certificateDigest ?? "\(ObjectIdentifier($0))" }
    }

    /// Reads the authorities, the client's certificate and the revocation lists, unless that was done, and calls back on any
    /// thread. Revocation lists are read again when they may have changed.
    ///
    /// - Parameters:
    ///   - perform: runs what may block on a thread where it may.
    ///   - waiter: called with what is wrong, or with nil.
    package func prepare(on perform: (@escaping @Sendable () -> Void) -> Void, _ waiter: @escaping Waiter) {
        enum Next { case read, wait, ready }
        let next: Next = state.withLock { state in
            if isReady { return .ready }
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
        var material = self.material
        var failure: TLSConfigurationError?
        let now = Date()
        do throws(TLSConfigurationError) {
            if material == nil { material = try makeMaterial() }
            material?.lists = try readLists()
        } catch {
            failure = error
        }
        let wasReadNow = failure == nil
        // A file that is being replaced can be unreadable for a moment.
        if let material, !material.lists.isEmpty, material.areListsCurrent { failure = nil }
        let until = failure == nil ? material?.usableUntil(now: now, wasReadNow: wasReadNow) ?? 0 : 0
        let waiters = state.withLock { state in
            if failure == nil { state.material = material }
            usableUntil.store(until, ordering: .releasing)
            defer { state.waiters = nil }
            return state.waiters ?? []
        }
        for waiter in waiters { waiter(failure) }
    }

    private var policies: [SecurityPolicy] {
        [settings.policy, settings.proxyPolicy].flatMap { [$0] + $0.hostPolicies.values }
    }

    private func readLists() throws(TLSConfigurationError) -> [[URL]: RevocationLists] {
        var lists: [[URL]: RevocationLists] = [:]
        do throws(RevocationListError) {
            for policy in policies { lists[policy.revocationLists] = try RevocationLists.read(policy.revocationLists) }
        } catch {
            throw .revocationLists(error)
        }
        return lists
    }

    private func makeMaterial() throws(TLSConfigurationError) -> Material {
        try TLSParameters.check(settings)
        var stores: [CertificateAuthorities: TrustStore] = [:]
        do throws(CertificateError) {
            for policy in policies {
                stores[policy.certificateAuthorities] = try TrustStore.store(of: policy.certificateAuthorities)
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
