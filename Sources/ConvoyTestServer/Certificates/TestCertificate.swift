import COpenSSL
import ConvoySupport
import Foundation

/// A certificate with its private key, created in memory for a test, either valid or with any defect.
///
/// ```swift
/// let root = try TestCertificate.root()
/// let certificate = try root.issue(.server("localhost", "127.0.0.1"))
/// let server = try TestServer(tls: TestServer.TLS(certificate))
/// ```
///
/// Immutable; can be used from any thread. The keys are insecure and only for tests.
public final class TestCertificate: Sendable {
    /// The contents of the certificate.
    public let profile: Profile
    /// The certificate in DER.
    public let derData: Data
    /// The certificate whose key signed this certificate; nil if it is self-signed.
    public let issuer: TestCertificate?
    /// The serial number, the most significant byte first.
    public let serialNumber: [UInt8]
    /// The name of the subject, in DER.
    let subject: [UInt8]
    let key: CertificateKey

    private init(_ profile: Profile, key: CertificateKey, issuer: TestCertificate?) throws(TestCertificateError) {
        let encoder = try CertificateEncoder(profile, key)
        let issuerKey = issuer?.key ?? key
        let content = try encoder.content(issuer: issuer?.subject ?? encoder.subject, issuerKey: issuerKey)
        derData = Data(try issuerKey.signed(content, profile.digest))
        serialNumber = encoder.serialNumber
        subject = encoder.subject
        self.profile = profile
        self.key = key
        self.issuer = issuer
    }

    /// Creates a new authority, signed by its own key.
    ///
    /// - Throws: `TestCertificateError` if the profile contains a string that cannot be encoded, or OpenSSL rejects the
    ///   key.
    public static func root(
        _ profile: Profile = .authority("Convoy Test Root")
    ) throws(TestCertificateError) -> TestCertificate {
        try TestCertificate(profile, key: CertificateKey(profile.key), issuer: nil)
    }

    /// Creates a self-signed certificate with a new key; by default, for a local server.
    ///
    /// - Throws: `TestCertificateError` if the profile contains a string that cannot be encoded, or OpenSSL rejects the
    ///   key.
    public static func selfSigned(
        _ profile: Profile = .server("localhost", "127.0.0.1")
    ) throws(TestCertificateError) -> TestCertificate {
        try TestCertificate(profile, key: CertificateKey(profile.key), issuer: nil)
    }

    /// Creates a new certificate, signed with the key of this certificate, which need not be an authority.
    ///
    /// - Parameters:
    ///   - profile: The contents of the new certificate.
    ///   - owner: The certificate whose key is certified, for cross-signing; nil for a new key.
    /// - Throws: `TestCertificateError` if the profile contains a string that cannot be encoded, or OpenSSL rejects the
    ///   key.
    public func issue(
        _ profile: Profile, forKeyOf owner: TestCertificate? = nil
    ) throws(TestCertificateError) -> TestCertificate {
        let key = if let owner { owner.key } else { try CertificateKey(profile.key) }
        return try TestCertificate(profile, key: key, issuer: self)
    }

    /// Creates a new certificate with the same key and issuer, like a renewal. Pins of the key still match it.
    ///
    /// - Parameter profile: The contents, whose kind of key is ignored; nil for the contents of this certificate.
    /// - Throws: `TestCertificateError`.
    public func reissued(_ profile: Profile? = nil) throws(TestCertificateError) -> TestCertificate {
        try TestCertificate(profile ?? self.profile, key: key, issuer: issuer)
    }

    /// Creates a certificate with the same contents and issuer but a new key. Pins of the old key do not match it.
    ///
    /// - Throws: `TestCertificateError`.
    public func replacingKey() throws(TestCertificateError) -> TestCertificate {
        try TestCertificate(profile, key: CertificateKey(profile.key), issuer: issuer)
    }

    /// The authority at the end of the chain; the certificate itself if it is self-signed.
    public var root: TestCertificate {
        var last = self
        while let issuer = last.issuer { last = issuer }
        return last
    }

    /// This certificate and the authorities between it and the root, in the order in which TLS servers send them: each
    /// is followed by its issuer. The root is included only if it is this certificate.
    public var chain: [TestCertificate] {
        var list = [self]
        var next = issuer
        while let certificate = next, let issuer = certificate.issuer {
            list.append(certificate)
            next = issuer
        }
        return list
    }
}

extension TestCertificate {
    /// The certificate in PEM format, without its key.
    public var pem: String { OpenSSLCalls.pem("CERTIFICATE", derData) }

    /// `chain` in PEM, as servers read it from a file.
    public var chainPEM: String { chain.map(\.pem).joined() }

    /// The private key in PEM, as PKCS#8 without a passphrase.
    public var privateKeyPEM: String { key.pem }

    /// The SubjectPublicKeyInfo in DER.
    package var publicKeyInfo: Data { Data(key.publicKeyInfo) }

    /// The key pin (RFC 7469): "sha256/" followed by the SHA-256 of `publicKeyInfo` in base64.
    public var publicKeyPin: String {
        "sha256/" + Data(OpenSSLCalls.digest(EVP_sha256(), key.publicKeyInfo)).base64EncodedString()
    }

    /// The pin of the complete certificate: "sha256/" followed by the SHA-256 of `derData` in base64.
    package var certificatePin: String {
        "sha256/" + Data(OpenSSLCalls.digest(EVP_sha256(), Array(derData))).base64EncodedString()
    }

    /// Returns the private key in PEM, as PKCS#8 encrypted with AES-256.
    ///
    /// - Throws: `TestCertificateError.openSSL`.
    public func privateKeyPEM(passphrase: String) throws(TestCertificateError) -> String {
        try key.withObject { key throws(TestCertificateError) in
            let text = OpenSSLCalls.text {
                convoy_maker_write_key($0, key, passphrase, Int32(clamping: passphrase.utf8.count)) == 1
            }
            guard let text else { throw OpenSSLCalls.failure("PEM_write_bio_PKCS8PrivateKey") }
            return text
        }
    }

    /// Returns the private key and `chain` as PKCS#12, encrypted with AES-256.
    ///
    /// - Throws: `TestCertificateError.openSSL`.
    public func pkcs12(passphrase: String) throws(TestCertificateError) -> Data {
        try key.withObject { key throws(TestCertificateError) in
            try withObject { certificate throws(TestCertificateError) in
                guard let rest = convoy_x509_stack_new() else { throw OpenSSLCalls.failure("sk_X509_new_null") }
                defer { convoy_x509_stack_free(rest) }
                for other in chain.dropFirst() {
                    try other.withObject { object throws(TestCertificateError) in
                        guard convoy_x509_stack_append(rest, object) == 1 else {
                            throw OpenSSLCalls.failure("sk_X509_push")
                        }
                    }
                }
                let name = profile.commonName.isEmpty ? nil : profile.commonName
                guard let store = PKCS12_create(passphrase, name, key, certificate, rest, 0, 0, 0, 0, 0) else {
                    throw OpenSSLCalls.failure("PKCS12_create")
                }
                defer { PKCS12_free(store) }
                guard let bytes = OpenSSLCalls.bytes({ i2d_PKCS12(store, $0) }) else {
                    throw OpenSSLCalls.failure("i2d_PKCS12")
                }
                return Data(bytes)
            }
        }
    }

    /// Writes NAME.pem with `chain`, and NAME.key with the private key, readable only by the current user. Existing
    /// files are replaced.
    ///
    /// - Returns: The URLs of the two files.
    /// - Throws: `TestCertificateError.file`.
    @discardableResult
    public func write(
        to directory: URL, name: String
    ) throws(TestCertificateError) -> (certificate: URL, key: URL) {
        let certificate = directory.appendingPathComponent("\(name).pem")
        let key = directory.appendingPathComponent("\(name).key")
        try Self.write(chainPEM, to: certificate.path, mode: 0o644)
        try Self.write(privateKeyPEM, to: key.path, mode: 0o600)
        return (certificate, key)
    }

    private static func write(_ text: String, to path: String, mode: mode_t) throws(TestCertificateError) {
        // Create a new file, because other users may be able to read the existing one.
        unlink(path)
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw .file(path: path, code: errno) }
        defer { close(descriptor) }
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno != EINTR { throw .file(path: path, code: errno) }
            rest = rest.dropFirst(max(0, count))
        }
    }

    /// Calls the closure with the OpenSSL object, which is valid only during the call.
    func withObject<Result>(
        _ body: (OpaquePointer) throws(TestCertificateError) -> Result
    ) throws(TestCertificateError) -> Result {
        let bytes = Array(derData)
        let object = bytes.withUnsafeBufferPointer { buffer in
            var position = buffer.baseAddress
            return d2i_X509(nil, &position, buffer.count)
        }
        guard let object else { throw OpenSSLCalls.failure("d2i_X509") }
        defer { X509_free(object) }
        return try body(object)
    }
}

/// An error that prevents a certificate from being created or written.
public enum TestCertificateError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A string in the profile is not a valid IP address or network such as "10.0.0.0/8".
    case invalidAddress(String)
    /// A string in the profile is not an object identifier in dotted digits.
    case invalidObjectIdentifier(String)
    /// The issuer's key cannot sign with this digest, such as MD5 with an EC key.
    case unsupportedDigest(String)
    /// An OpenSSL function failed. The associated values are its name and the reason.
    case openSSL(call: String, reason: String)
    /// A file could not be written. The associated values are its path and the `errno`.
    case file(path: String, code: Int32)

    public var description: String {
        switch self {
        case .invalidAddress(let text): "\"\(text)\" is not a valid IP address or network"
        case .invalidObjectIdentifier(let text): "\"\(text)\" is not a valid object identifier"
        case .unsupportedDigest(let text): text
        case .openSSL(let call, let reason): "\(call) failed: \(reason)"
        case .file(let path, let code): "\(path) could not be written: \(SystemError(code: code).text)"
        }
    }
}
