import COpenSSL
import ConvoySupport
import Foundation

/// A certificate and its private key, which authenticate the client to a server (RFC 8446, section 4.4.2). The
/// counterpart of `SecIdentity`.
///
/// Identities are compared by reference. Nothing is read until a connection needs the identity. Then the files are read
/// and the passphrase closure is called once, on a thread that may block. If that fails, the operation fails with
/// `URLError.secureConnectionFailed` and a ``CertificateError``, and the next operation retries.
public final class ClientIdentity: Sendable, Hashable {
    /// A closure that supplies the passphrase of an encrypted key. It is called on a dedicated thread and may block,
    /// for example to prompt the user.
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
        /// The certificate with its chain, and the key, which may have the same source.
        case pem(certificate: Source, key: Source)
        case pkcs12(Source)
    }

    let form: Form
    let passphrase: Passphrase?

    /// Creates an identity from PEM files.
    ///
    /// - Parameters:
    ///   - certificate: The client's certificate, followed by the intermediate certificates. DER is also accepted.
    ///   - key: The private key, in PEM or DER; nil if it is in the same file.
    ///   - passphrase: Called if the key is encrypted.
    public init(certificate: URL, key: URL? = nil, passphrase: Passphrase? = nil) {
        form = .pem(certificate: .file(certificate), key: .file(key ?? certificate))
        self.passphrase = passphrase
    }

    /// Creates an identity from PEM data.
    public init(certificatePEM: Data, keyPEM: Data? = nil, passphrase: Passphrase? = nil) {
        form = .pem(certificate: .data(certificatePEM), key: .data(keyPEM ?? certificatePEM))
        self.passphrase = passphrase
    }

    /// Creates an identity from a PKCS#12 file (".p12", ".pfx"; RFC 7292).
    public init(pkcs12 file: URL, passphrase: Passphrase? = nil) {
        form = .pkcs12(.file(file))
        self.passphrase = passphrase
    }

    /// Creates an identity from PKCS#12 data.
    public init(pkcs12Data: Data, passphrase: Passphrase? = nil) {
        form = .pkcs12(.data(pkcs12Data))
        self.passphrase = passphrase
    }

    public static func == (left: ClientIdentity, right: ClientIdentity) -> Bool { left === right }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// Loads the certificate and the key, for example to validate them before the first connection. Blocks, and may
    /// call the passphrase closure.
    ///
    /// - Returns: The certificate, followed by the intermediate certificates.
    /// - Throws: `CertificateError`.
    public func certificates() throws(CertificateError) -> [Certificate] { try load().certificates }
}

extension ClientIdentity: OpaqueReflectable {}

extension ClientIdentity {
    /// The files that contain the identity; nil if the certificate or the key was given as data. The key is nil if it
    /// is in the same file.
    package var files: (certificate: URL, key: URL?, isPKCS12: Bool)? {
        switch form {
        case .pem(.file(let certificate), .file(let key)): (certificate, key == certificate ? nil : key, false)
        case .pkcs12(.file(let file)): (file, nil, true)
        default: nil
        }
    }
}

/// A client's certificate and key, loaded into OpenSSL.
final class LoadedIdentity: @unchecked Sendable {
    /// The client's certificate, followed by the intermediate certificates.
    let certificates: [Certificate]
    /// The private key, an `EVP_PKEY`.
    let key: OpaquePointer

    /// Takes ownership of the caller's reference to the key.
    init(certificates: [Certificate], owning key: OpaquePointer) {
        self.certificates = certificates
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    /// Sets the certificate and key for connections of a context. Returns false if OpenSSL rejects them, for example
    /// because the key is too short.
    func use(in sslContext: OpaquePointer) -> Bool {
        guard let first = certificates.first, let others = convoy_x509_stack_new() else { return false }
        defer { convoy_x509_stack_free(others) }
        for certificate in certificates.dropFirst() {
            guard convoy_x509_stack_append(others, certificate.reference.pointer) == 1 else { return false }
        }
        return SSL_CTX_use_cert_and_key(sslContext, first.reference.pointer, key, others, 1) == 1
    }
}

extension ClientIdentity {
    /// Loads the certificate and key. Blocks.
    func load() throws(CertificateError) -> LoadedIdentity {
        defer { ERR_clear_error() }
        switch form {
        case .pem(let certificate, let key): return try loadPEM(certificate, key)
        case .pkcs12(let source): return try loadPKCS12(source)
        }
    }

    private static func read(_ source: Source) throws(CertificateError) -> Data {
        switch source {
        case .data(let data): return data
        case .file(let file):
            do throws(FileContents.Failure) {
                return try FileReading.data(of: file)
            } catch {
                throw .unreadable(file: file.path, reason: error.reason)
            }
        }
    }

    private func askForPassphrase() throws(CertificateError) -> String? {
        do {
            return try passphrase?()
        } catch {
            throw .noPassphrase(reason: error.localizedDescription)
        }
    }

    // MARK: PEM

    private func loadPEM(_ certificate: Source, _ key: Source) throws(CertificateError) -> LoadedIdentity {
        let certificates = try Certificate.certificates(in: Self.read(certificate), named: certificate.name)
        let privateKey = try loadKey(Self.read(key), key.name)
        guard let first = certificates.first, X509_check_private_key(first.reference.pointer, privateKey) == 1 else {
            EVP_PKEY_free(privateKey)
            throw .keyOfAnotherCertificate
        }
        return LoadedIdentity(certificates: certificates, owning: privateKey)
    }

    private func loadKey(_ data: Data, _ file: String) throws(CertificateError) -> OpaquePointer {
        let blocks = PEM.blocks(in: data)
        guard let block = blocks.first(where: { $0.label.hasSuffix("PRIVATE KEY") }) else {
            guard blocks.isEmpty, data.first == PEM.sequenceTag else { throw .noKey(file: file) }
            guard let key = Self.key(inDER: data) else { throw .damagedKey(file: file) }
            return key
        }
        let isEncrypted = block.label == "ENCRYPTED PRIVATE KEY" || block.text.contains("Proc-Type: 4,ENCRYPTED")
        var secret = isEncrypted ? try askForPassphrase() : ""
        guard secret != nil else { throw .wrongPassphrase(file: file) }
        defer { secret = nil }
        guard let key = Self.key(inPEM: data, passphrase: secret ?? "") else {
            throw isEncrypted ? .wrongPassphrase(file: file) : .damagedKey(file: file)
        }
        return key
    }

    private static func key(inPEM data: Data, passphrase: String) -> OpaquePointer? {
        data.withUnsafeBytes { bytes in
            guard let count = Int32(exactly: bytes.count), let input = convoy_bio_reading(bytes.baseAddress, count)
            else { return nil }
            defer { BIO_free(input) }
            return passphrase.withCString { text in
                PEM_read_bio_PrivateKey(
                    input, nil,
                    { buffer, size, _, context in
                        // OpenSSL calls the callback for an empty passphrase as well. Without a callback, OpenSSL would
                        // prompt on the terminal.
                        guard let buffer, let context else { return -1 }
                        let text = context.assumingMemoryBound(to: CChar.self)
                        let count = strlen(text)
                        guard count < Int(size) else { return -1 }
                        memcpy(buffer, text, count)
                        return Int32(count)
                    }, UnsafeMutableRawPointer(mutating: text))
            }
        }
    }

    private static func key(inDER data: Data) -> OpaquePointer? {
        data.withUnsafeBytes { bytes in
            var position = bytes.bindMemory(to: UInt8.self).baseAddress
            return d2i_AutoPrivateKey(nil, &position, bytes.count)
        }
    }

    // MARK: PKCS#12

    private func loadPKCS12(_ source: Source) throws(CertificateError) -> LoadedIdentity {
        let data = try Self.read(source)
        let parsed = data.withUnsafeBytes { bytes -> OpaquePointer? in
            var position = bytes.bindMemory(to: UInt8.self).baseAddress
            return d2i_PKCS12(nil, &position, bytes.count)
        }
        guard let parsed else { throw .notPKCS12(file: source.name) }
        defer { PKCS12_free(parsed) }
        // Reject files without a MAC, because anyone could have modified them.
        guard PKCS12_mac_present(parsed) == 1 else { throw .notPKCS12(file: source.name) }
        // Both representations of an empty passphrase are in use.
        let isOpen = PKCS12_verify_mac(parsed, nil, 0) == 1 || PKCS12_verify_mac(parsed, "", 0) == 1
        let secret = isOpen ? nil : try askForPassphrase()
        var key: OpaquePointer?
        var certificate: OpaquePointer?
        var others: OpaquePointer?
        guard PKCS12_parse(parsed, secret ?? "", &key, &certificate, &others) == 1 else {
            // If the passphrase is correct, the failure has a different cause, for example a cipher that OpenSSL 3 has
            // dropped, like RC2.
            let isRight = isOpen || PKCS12_verify_mac(parsed, secret ?? "", -1) == 1
            throw isRight ? .notPKCS12(file: source.name) : .wrongPassphrase(file: source.name)
        }
        defer { convoy_x509_stack_free(others) }
        guard let key else {
            X509_free(certificate)
            throw .noKey(file: source.name)
        }
        guard let certificate else {
            EVP_PKEY_free(key)
            throw .noCertificate(in: source.name)
        }
        let first = Certificate(X509Reference(owning: certificate))
        return LoadedIdentity(certificates: [first] + Certificate.certificates(inStack: others), owning: key)
    }
}
