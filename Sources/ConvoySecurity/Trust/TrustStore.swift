import COpenSSL
import ConvoySupport
import Foundation
import Synchronization

/// Certificate authorities, loaded into OpenSSL. They are immutable after loading, so any thread can search them.
final class TrustStore: @unchecked Sendable {
    let pointer: OpaquePointer

    private init(pointer: OpaquePointer) { self.pointer = pointer }

    deinit { X509_STORE_free(pointer) }

    /// Creates a store that contains certificates. Returns nil if OpenSSL runs out of memory.
    convenience init?(_ certificates: [Certificate]) {
        guard let store = X509_STORE_new() else { return nil }
        self.init(pointer: store)
        guard add(certificates) else { return nil }
    }

    private func add(_ certificates: [Certificate]) -> Bool {
        certificates.allSatisfy { X509_STORE_add_cert(pointer, $0.reference.pointer) == 1 }
    }

    /// Returns the store for the given authorities, which is shared by all users of equal authorities. Blocks while
    /// reading files.
    static func store(of authorities: CertificateAuthorities) throws(CertificateError) -> TrustStore {
        if let store = known.withLock({ $0[authorities]?.store }) { return store }
        let store = try read(authorities)
        return known.withLock { known in
            if let other = known[authorities]?.store { return other }
            known = known.filter { $0.value.store != nil }
            // Reading the system's authorities takes several milliseconds, so they stay in memory.
            known[authorities] = authorities == .system ? .kept(store) : .used(Weak(store))
            return store
        }
    }

    private struct Weak {
        weak var store: TrustStore?
        init(_ store: TrustStore) { self.store = store }
    }
    private enum Known {
        case kept(TrustStore)
        case used(Weak)

        var store: TrustStore? {
            switch self {
            case .kept(let store): store
            case .used(let weak): weak.store
            }
        }
    }
    private static let known = Locked<[CertificateAuthorities: Known]>([:])

    private static func read(_ authorities: CertificateAuthorities) throws(CertificateError) -> TrustStore {
        switch authorities {
        case .system: return try system(and: [])
        case .systemAnd(let certificates): return try system(and: certificates)
        case .file(let file): return try made(of: Certificate.certificates(contentsOf: file), named: file.path)
        case .directory(let folder): return try made(of: Certificate.certificates(inDirectory: folder), named: folder.path)
        case .certificates(let certificates): return try made(of: certificates, named: "")
        }
    }

    private static func made(of certificates: [Certificate], named file: String) throws(CertificateError) -> TrustStore {
        guard !certificates.isEmpty else { throw .noCertificate(in: file) }
        guard let store = TrustStore(certificates) else { throw .unreadable(file: file, reason: "Out of memory.") }
        return store
    }

    /// The paths of the system bundle in common distributions.
    private static let bundles = [
        "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    ]

    private static func system(and certificates: [Certificate]) throws(CertificateError) -> TrustStore {
        guard let store = X509_STORE_new().map({ TrustStore(pointer: $0) }), store.add(certificates) else {
            throw .unreadable(file: "the certificates", reason: "Out of memory.")
        }
        let named = ProcessInfo.processInfo.environment["SSL_CERT_FILE"] ?? ""
        let file = named.isEmpty ? bundles.first { access($0, R_OK) == 0 } : named
        defer { ERR_clear_error() }
        if let file {
            guard X509_STORE_load_file(store.pointer, file) == 1 else {
                throw access(file, R_OK) == 0
                    ? .noCertificate(in: file) : .unreadable(file: file, reason: SystemError(code: errno).text)
            }
        } else {
            X509_STORE_set_default_paths(store.pointer)
        }
        return store
    }
}

/// The certificates at which a trusted chain may end.
public enum CertificateAuthorities: Sendable, Hashable, Codable {
    /// The certificates that the system trusts: the file specified by the environment variable `SSL_CERT_FILE`, or the
    /// system's bundle, as with curl.
    case system
    /// Only the certificates in a PEM or DER file.
    case file(URL)
    /// Only the certificates in a folder's files with the extension `.cer`, `.crt`, `.der` or `.pem`.
    case directory(URL)
    /// Only the given certificates.
    case certificates([Certificate])
    /// The system's certificates and the given certificates.
    case systemAnd([Certificate])
}
