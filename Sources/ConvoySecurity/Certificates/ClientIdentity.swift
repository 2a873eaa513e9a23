import Foundation

/// A certificate and its private key, which authenticate the client to a server (RFC 8446, section 4.4.2). The
/// counterpart of `SecIdentity`.
///
/// Identities are compared by reference. Nothing is read before a connection needs it; then files are read and the
/// passphrase closure is called once, on a thread that may block. If that fails, the operation fails with
/// `URLError.secureConnectionFailed` and a ``ClientIdentityError``, and the next one tries again.
public final class ClientIdentity: Sendable, Hashable {
    /// Supplies the passphrase of an encrypted key. It runs on a thread of its own and may block, for instance to ask
    /// the user.
    public typealias Passphrase = @Sendable () throws -> String

    /// The source of a certificate or a key.
    enum Source: Sendable {
        case file(URL)
        case data(Data)

        var name: String {
            if case .file(let url) = self { url.path } else { "" }
        }
    }

    enum Form: Sendable {
        /// The certificate with its chain, and the key, which may be in the same place.
        case pem(certificate: Source, key: Source)
        case pkcs12(Source)
    }

    let form: Form
    let passphrase: Passphrase?

    /// The identity of files in PEM.
    ///
    /// - Parameters:
    ///   - certificate: the client's certificate, followed by the intermediate ones. DER is accepted too.
    ///   - key: its private key, in PEM or DER; nil if it is in the same file.
    ///   - passphrase: called if the key is encrypted.
    public init(certificate: URL, key: URL? = nil, passphrase: Passphrase? = nil) {
        form = .pem(certificate: .file(certificate), key: .file(key ?? certificate))
        self.passphrase = passphrase
    }

    /// The identity of texts in PEM.
    public init(certificatePEM: Data, keyPEM: Data? = nil, passphrase: Passphrase? = nil) {
        form = .pem(certificate: .data(certificatePEM), key: .data(keyPEM ?? certificatePEM))
        self.passphrase = passphrase
    }

    /// The identity of a file in PKCS#12 (".p12", ".pfx"; RFC 7292).
    public init(pkcs12 file: URL, passphrase: Passphrase? = nil) {
        form = .pkcs12(.file(file))
        self.passphrase = passphrase
    }

    /// The identity of bytes in PKCS#12.
    public init(pkcs12Data: Data, passphrase: Passphrase? = nil) {
        form = .pkcs12(.data(pkcs12Data))
        self.passphrase = passphrase
    }

    public static func == (left: ClientIdentity, right: ClientIdentity) -> Bool { left === right }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// Reads the certificate and the key, to check them before the first connection. Blocks, and may call the closure
    /// for the passphrase.
    ///
    /// - Returns: the certificate, followed by the intermediate ones.
    /// - Throws: `ClientIdentityError`.
    public func certificates() throws(ClientIdentityError) -> [Certificate] { try load().certificates }
}

extension ClientIdentity: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension ClientIdentity {
    /// The files that the identity is read from; nil if the certificate or the key was given as bytes. The key is nil
    /// if it is in the same file.
    package var files: (certificate: URL, key: URL?, isPKCS12: Bool)? {
        switch form {
        case .pem(.file(let certificate), .file(let key)): (certificate, key == certificate ? nil : key, false)
        case .pkcs12(.file(let file)): (file, nil, true)
        default: nil
        }
    }
}

/// Why a client's certificate or key cannot be used. Paths are empty for bytes in memory.
public enum ClientIdentityError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The certificates cannot be read.
    case certificate(CertificateError)
    /// The file of the key, or the PKCS#12 file, cannot be read, and the reason.
    case unreadable(file: String, reason: String)
    /// There is no private key.
    case noKey(file: String)
    /// The key or file is encrypted, and the passphrase is wrong or missing.
    case wrongPassphrase(file: String)
    /// The closure that supplies the passphrase threw this error.
    case noPassphrase(reason: String)
    /// The key is damaged, or of a type that OpenSSL does not support.
    case damagedKey(file: String)
    /// The file is not PKCS#12, is damaged, or uses a cipher that OpenSSL does not have, such as RC2.
    case notPKCS12(file: String)
    /// The key is not that of the certificate.
    case keyOfAnotherCertificate

    public var description: String {
        switch self {
        case .certificate(let error): "\(error)"
        case .unreadable(let file, let reason): "\(file) cannot be read: \(reason)"
        case .noKey(let file): "There is no private key\(Self.place(file))."
        case .wrongPassphrase(let file): "The key\(Self.place(file)) is encrypted, and the passphrase is wrong or missing."
        case .noPassphrase(let reason): "There is no passphrase for the key: \(reason)"
        case .damagedKey(let file): "The private key\(Self.place(file)) cannot be read."
        case .notPKCS12(let file):
            "The bytes\(Self.place(file)) are not PKCS#12, are damaged, or use a cipher that OpenSSL does not have."
        case .keyOfAnotherCertificate: "The private key is not that of the certificate."
        }
    }

    private static func place(_ file: String) -> String { file.isEmpty ? "" : " in \(file)" }
}

extension ClientIdentityError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
