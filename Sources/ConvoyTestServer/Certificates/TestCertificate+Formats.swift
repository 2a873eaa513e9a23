import COpenSSL
import Foundation

extension TestCertificate {
    /// The certificate in PEM.
    public var pem: String { OpenSSLCalls.pem("CERTIFICATE", derData) }

    /// `chain` in PEM, as servers read it from a file.
    public var chainPEM: String { chain.map(\.pem).joined() }

    /// The private key in PEM, as PKCS#8 without a passphrase.
    public var privateKeyPEM: String { key.pem }

    /// The SubjectPublicKeyInfo in DER.
    public var publicKeyInfo: Data { Data(key.publicKeyInfo) }

    /// "sha256/" and the SHA-256 of `publicKeyInfo` in base64: the form in which keys are pinned (RFC 7469).
    public var publicKeyPin: String {
        "sha256/" + Data(OpenSSLCalls.digest(EVP_sha256(), key.publicKeyInfo)).base64EncodedString()
    }

    /// "sha256/" and the SHA-256 of `derData` in base64, for pins of the whole certificate.
    public var certificatePin: String {
        "sha256/" + Data(OpenSSLCalls.digest(EVP_sha256(), Array(derData))).base64EncodedString()
    }

    /// The private key in PEM, as PKCS#8 encrypted with AES-256.
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

    /// The private key and `chain` as PKCS#12, encrypted with AES-256.
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

    /// Writes NAME.pem with `chain`, and NAME.key with the private key, which only this user can read. Existing files
    /// are replaced.
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
        // Made anew, as an existing file may be one that others can read.
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

    /// Calls the closure with OpenSSL's object, which it must not keep without a reference of its own.
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
