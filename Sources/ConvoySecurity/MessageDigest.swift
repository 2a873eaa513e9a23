import COpenSSL
import Foundation

/// An incremental digest, SHA-256 (FIPS 180-4) unless another algorithm is asked for, computed by OpenSSL.
///
/// Not thread-safe.
public final class MessageDigest {
    /// The hash function.
    public let algorithm: ChecksumAlgorithm

    private let context: OpaquePointer?
    private var isUsable: Bool

    /// A digest of no bytes yet.
    public init(_ algorithm: ChecksumAlgorithm = .sha256) {
        let function =
            switch algorithm {
            case .md5: EVP_md5()
            case .sha1: EVP_sha1()
            case .sha256: EVP_sha256()
            case .sha512: EVP_sha512()
            }
        self.algorithm = algorithm
        context = EVP_MD_CTX_new()
        isUsable = context.map { EVP_DigestInit_ex($0, function, nil) == 1 } ?? false
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds bytes to the digest.
    public func update(_ bytes: UnsafeRawBufferPointer) {
        guard isUsable, let base = bytes.baseAddress, bytes.count > 0 else { return }
        isUsable = EVP_DigestUpdate(context, base, bytes.count) == 1
    }

    /// Adds bytes to the digest.
    public func update(_ data: Data) {
        data.withUnsafeBytes { update($0) }
    }

    /// The digest of all bytes so far, ``ChecksumAlgorithm/digestLength`` bytes long, or nil if OpenSSL failed (no memory,
    /// or a policy that forbids the algorithm, as FIPS 140 forbids MD5). The digest can be updated further afterwards.
    public func value() -> Data? {
        guard isUsable, let copy = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(copy) }
        guard EVP_MD_CTX_copy_ex(copy, context) == 1 else { return nil }
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var length: UInt32 = 0
        guard EVP_DigestFinal_ex(copy, &digest, &length) == 1 else { return nil }
        return Data(digest[..<Int(length)])
    }

    /// The SHA-256 of data in memory; nil if OpenSSL failed.
    public static func sha256(_ data: Data) -> Data? {
        let digest = MessageDigest()
        digest.update(data)
        return digest.value()
    }
}

extension Data {
    /// The bytes as lowercase hexadecimal digits, as `sha256sum` prints them.
    public var hexadecimalString: String {
        let digits = Array("0123456789abcdef".utf8)
        var text = [UInt8]()
        text.reserveCapacity(count * 2)
        for byte in self {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}
