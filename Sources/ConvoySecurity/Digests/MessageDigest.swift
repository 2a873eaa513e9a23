import COpenSSL
import Foundation

/// An incremental SHA-256 digest (FIPS 180-4), computed by OpenSSL.
///
/// Not thread-safe.
public final class MessageDigest {
    private let context: OpaquePointer?
    private var isUsable: Bool

    /// A digest of no bytes yet.
    public init() {
        context = EVP_MD_CTX_new()
        isUsable = context.map { EVP_DigestInit_ex($0, EVP_sha256(), nil) == 1 } ?? false
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

    /// The 32-byte digest of all bytes so far, or nil if OpenSSL failed (no memory, or a policy that forbids SHA-256).
    /// The digest can be updated further afterwards.
    public func value() -> Data? {
        guard isUsable, let copy = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(copy) }
        guard EVP_MD_CTX_copy_ex(copy, context) == 1 else { return nil }
        var digest = [UInt8](repeating: 0, count: 32)
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
