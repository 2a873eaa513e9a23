import COpenSSL
import ConvoySupport
import Foundation
import Synchronization

/// The state shared by connections with equal settings: the loaded authorities and client certificate, and a key that
/// prevents libcurl from sharing their connections with others.
package final class TLSContext: Sendable {
    package let settings: TLSSettings
    /// The path of a folder that cannot exist, unique to this context. libcurl compares the path when it looks for a
    /// connection to reuse, and never finds a certificate in the folder.
    package let connectionKey: String

    /// The authorities, client certificate and revocation lists, as loaded from files.
    struct Material: Sendable {
        let stores: [CertificateAuthorities: TrustStore]
        let identity: LoadedIdentity?
        /// The digest of the client certificate.
        let certificateDigest: String?
        /// The revocation lists, keyed by the files they were read from.
        var lists: [[URL]: RevocationLists] = [:]

        /// The interval after which revocation lists are read again, because the files may have been replaced: one
        /// hour, in seconds.
        private static let longestUse: TimeInterval = 3600
        /// The interval after which lists that have expired or cannot be read are read again: one minute, in seconds.
        private static let shortestUse: TimeInterval = 60

        /// Returns the time at which the material must be read again, in seconds since 1970.
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
        /// The callbacks waiting for the current read; nil if no read is in progress.
        var waiters: [Waiter]?
    }
    private let state = Locked(State())
    /// The time at which the material must be read again, in seconds since 1970: 0 before the first read, `.max` for
    /// never.
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

    /// Returns the context for the given settings.
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

    /// Whether connections can be made without reading files first.
    package var isReady: Bool {
        let until = usableUntil.load(ordering: .acquiring)
        return until == .max || until != 0 && time(nil) < until
    }

    var material: Material? { state.withLock { $0.material } }

    /// A string that identifies the client certificate; nil if none is configured. It is the digest of the certificate
    /// if it has been loaded, and the identity of the object before that. Does not read files or request a passphrase.
    package var clientCertificate: String? {
        settings.identity.map { material?.certificateDigest ?? "\(ObjectIdentifier($0))" }
    }

    /// Loads the authorities, the client certificate and the revocation lists, unless they are already loaded, and
    /// calls back on any thread. Revocation lists are reloaded if they may have changed.
    ///
    /// - Parameters:
    ///   - perform: Runs a closure on a thread that may block.
    ///   - waiter: Called with the error, or nil on success.
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
        // A file may be temporarily unreadable while it is being replaced.
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
        do throws(CertificateError) {
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
        do throws(CertificateError) {
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
