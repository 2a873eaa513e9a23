import COpenSSL
import Foundation

/// A key pair, stored in encoded form so that all threads can share it. Each use creates an OpenSSL object from it.
struct CertificateKey: Sendable {
    /// The private key in PEM, as plain PKCS#8.
    let pem: String
    /// The SubjectPublicKeyInfo in DER.
    let publicKeyInfo: [UInt8]
    /// The key identifier: the SHA-1 of the public key's bytes (RFC 5280 section 4.2.1.2).
    let identifier: [UInt8]
    private let kind: TestCertificate.Profile.Key

    /// Generates a new key pair.
    init(_ kind: TestCertificate.Profile.Key) throws(TestCertificateError) {
        let key = try Self.generate(kind)
        defer { EVP_PKEY_free(key) }
        guard let pem = OpenSSLCalls.text({ convoy_maker_write_key($0, key, nil, 0) == 1 }) else {
            throw OpenSSLCalls.failure("PEM_write_bio_PKCS8PrivateKey")
        }
        guard let info = OpenSSLCalls.bytes({ i2d_PUBKEY(key, $0) }) else { throw OpenSSLCalls.failure("i2d_PUBKEY") }
        self.pem = pem
        self.kind = kind
        publicKeyInfo = info
        identifier = OpenSSLCalls.digest(EVP_sha1(), DER.keyBytes(inPublicKeyInfo: info) ?? info)
    }

    private static func generate(_ kind: TestCertificate.Profile.Key) throws(TestCertificateError) -> OpaquePointer {
        let name: String
        switch kind {
        case .ec, .ec384: name = "EC"
        case .rsa: name = "RSA"
        case .ed25519: name = "ED25519"
        }
        guard let context = EVP_PKEY_CTX_new_from_name(nil, name, nil) else {
            throw OpenSSLCalls.failure("EVP_PKEY_CTX_new_from_name")
        }
        defer { EVP_PKEY_CTX_free(context) }
        var isReady = EVP_PKEY_keygen_init(context) == 1
        switch kind {
        case .ec: isReady = isReady && EVP_PKEY_CTX_set_group_name(context, "P-256") == 1
        case .ec384: isReady = isReady && EVP_PKEY_CTX_set_group_name(context, "P-384") == 1
        case .rsa(let bits):
            isReady = isReady && EVP_PKEY_CTX_set_rsa_keygen_bits(context, Int32(clamping: bits)) == 1
        case .ed25519: break
        }
        var key: OpaquePointer?
        guard isReady, EVP_PKEY_generate(context, &key) == 1, let key else {
            throw OpenSSLCalls.failure("EVP_PKEY_generate")
        }
        return key
    }

    /// Calls the closure with the OpenSSL object, which is valid only during the call.
    func withObject<Result>(
        _ body: (OpaquePointer) throws(TestCertificateError) -> Result
    ) throws(TestCertificateError) -> Result {
        let bytes = Array(pem.utf8)
        guard let bio = convoy_bio_reading(bytes, Int32(bytes.count)) else {
            throw OpenSSLCalls.failure("BIO_new_mem_buf")
        }
        defer { BIO_free_all(bio) }
        guard let key = convoy_maker_read_key(bio) else { throw OpenSSLCalls.failure("PEM_read_bio_PrivateKey") }
        defer { EVP_PKEY_free(key) }
        return try body(key)
    }

    /// Returns the AlgorithmIdentifier for signatures made with this key and a digest. Ed25519 ignores the digest.
    func signatureAlgorithm(_ digest: TestCertificate.Profile.Digest) throws(TestCertificateError) -> [UInt8] {
        let identifier: String?
        var hasParameters = false
        switch kind {
        case .ec, .ec384:
            switch digest {
            case .sha256: identifier = "1.2.840.10045.4.3.2"
            case .sha384: identifier = "1.2.840.10045.4.3.3"
            case .sha1: identifier = "1.2.840.10045.4.1"
            case .md5: identifier = nil
            }
        case .rsa:
            hasParameters = true
            switch digest {
            case .sha256: identifier = "1.2.840.113549.1.1.11"
            case .sha384: identifier = "1.2.840.113549.1.1.12"
            case .sha1: identifier = "1.2.840.113549.1.1.5"
            case .md5: identifier = "1.2.840.113549.1.1.4"
            }
        case .ed25519: identifier = "1.3.101.112"
        }
        guard let identifier, let encoded = DER.objectIdentifier(identifier) else {
            throw .unsupportedDigest("EC keys cannot sign with MD5; use an issuer with an RSA key")
        }
        return hasParameters ? DER.sequence(encoded, DER.null) : DER.sequence(encoded)
    }

    /// Signs `content`. Returns a DER sequence of the content, the algorithm, the signature and `more`.
    func signed(
        _ content: [UInt8], _ digest: TestCertificate.Profile.Digest, more: [UInt8] = []
    ) throws(TestCertificateError) -> [UInt8] {
        let algorithm = try signatureAlgorithm(digest)
        let signature = try withObject { key throws(TestCertificateError) in
            guard let context = EVP_MD_CTX_new() else { throw OpenSSLCalls.failure("EVP_MD_CTX_new") }
            defer { EVP_MD_CTX_free(context) }
            let kind = self.kind == .ed25519 ? nil : digest.object
            guard EVP_DigestSignInit(context, nil, kind, nil, key) == 1 else {
                throw OpenSSLCalls.failure("EVP_DigestSignInit")
            }
            var count = 0
            guard EVP_DigestSign(context, nil, &count, content, content.count) == 1 else {
                throw OpenSSLCalls.failure("EVP_DigestSign")
            }
            var bytes = [UInt8](repeating: 0, count: count)
            guard EVP_DigestSign(context, &bytes, &count, content, content.count) == 1 else {
                throw OpenSSLCalls.failure("EVP_DigestSign")
            }
            return Array(bytes[..<count])
        }
        return DER.sequence(content, algorithm, DER.bitString(signature), more)
    }
}

extension TestCertificate.Profile.Digest {
    fileprivate var object: OpaquePointer? {
        switch self {
        case .sha256: EVP_sha256()
        case .sha384: EVP_sha384()
        case .sha1: EVP_sha1()
        case .md5: EVP_md5()
        }
    }
}

/// Error reporting and buffers for OpenSSL calls.
enum OpenSSLCalls {
    /// Returns the reason for the last failure on this thread. Clears the thread's error queue, so that later OpenSSL
    /// calls do not report an old error.
    static func takeReason() -> String? {
        let code = ERR_peek_last_error()
        ERR_clear_error()
        guard code != 0, let text = ERR_reason_error_string(code) else { return nil }
        return String(cString: text)
    }

    /// Creates an error with the reason for this thread's last failure.
    static func failure(_ call: String) -> TestCertificateError {
        .openSSL(call: call, reason: takeReason() ?? "no reason given")
    }

    /// Returns the bytes that an `i2d_` function writes; nil if it fails.
    static func bytes(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8]? {
        let count = Int(encode(nil))
        guard count > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        let written = bytes.withUnsafeMutableBufferPointer { buffer in
            var position = buffer.baseAddress
            return encode(&position)
        }
        return written == Int32(count) ? bytes : nil
    }

    /// Returns the string that a function writes to a memory BIO; nil if the function fails.
    static func text(_ write: (OpaquePointer) -> Bool) -> String? {
        guard let bio = convoy_bio_writing() else { return nil }
        defer { BIO_free_all(bio) }
        guard write(bio) else { return nil }
        var start: UnsafePointer<UInt8>?
        let count = convoy_bio_bytes(bio, &start)
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    /// Returns the digest of the bytes; empty if OpenSSL does not support the kind of digest.
    static func digest(_ kind: OpaquePointer?, _ bytes: [UInt8]) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard EVP_Digest(bytes, bytes.count, &result, &count, kind, nil) == 1 else {
            ERR_clear_error()
            return []
        }
        return Array(result[..<Int(count)])
    }

    /// Returns the data in PEM, between "-----BEGIN LABEL-----" and "-----END LABEL-----".
    static func pem(_ label: String, _ data: Data) -> String {
        let text = data.base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        return "-----BEGIN \(label)-----\n\(text)\n-----END \(label)-----\n"
    }
}
