import Foundation

/// A certificate and its private key, by which a client proves who it is (RFC 8446, section 4.4.2). The counterpart of
/// `SecIdentity`.
///
/// An object: two are equal if they are the same one. Nothing is read before a connection needs it; then files are read
/// and the passphrase is asked for on a thread that may block, once. If that fails, the operation fails with
/// `URLError.secureConnectionFailed` and a ``ClientIdentityError``, and the next one tries again.
public final class ClientIdentity: Sendable, Hashable {
    /// Supplies the passphrase of an encrypted key. It runs on a thread of its own and may block, for instance to ask
    /// somebody.
    public typealias Passphrase = @Sendable () throws -> String

    /// Where bytes come from.
    enum Source: Sendable {
        case file(URL)
        case data(Data)

        var name: String {
            if case .file(let url) = self { url.path } else { "" }
        }
    }

    enum Form: Sendable {
        /// The certificate and its chain, and the key, perhaps in the same place.
        case pem(certificate: Source, key: Source)
        case pkcs12(Source)
    }

    let form: Form
    let passphrase: Passphrase?

    /// The identity of files in PEM.
    ///
    /// - Parameters:
    ///   - certificate: the client's certificate, followed by those that lead to the authority. DER is taken too.
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

    /// Reads the certificate and the key, to find out now whether they can be used. Blocks, and may call the closure for
    /// the passphrase.
    ///
    /// - Returns: the certificate, followed by those that lead to the authority.
    /// - Throws: `ClientIdentityError`.
    public func certificates() throws(ClientIdentityError) -> [Certificate] { try load().certificates }
}

extension ClientIdentity: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
