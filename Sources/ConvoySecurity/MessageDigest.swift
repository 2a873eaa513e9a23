import COpenSSL
import ConvoySupport
import Foundation

/// A digest that OpenSSL computes incrementally, by default SHA-256 (FIPS 180-4).
///
/// Not thread-safe.
package final class MessageDigest {
    /// The hash function.
    package let algorithm: ChecksumAlgorithm

    private let context: OpaquePointer?
    private var isUsable: Bool

    /// Creates a digest of no bytes.
    package init(_ algorithm: ChecksumAlgorithm = .sha256) {
        let function =
            switch algorithm {
            case .md5: EVP_md5()
            case .sha1: EVP_sha1()
            case .sha224: EVP_sha224()
            case .sha256: EVP_sha256()
            case .sha384: EVP_sha384()
            case .sha512: EVP_sha512()
            }
        self.algorithm = algorithm
        context = EVP_MD_CTX_new()
        isUsable = context.map { EVP_DigestInit_ex($0, function, nil) == 1 } ?? false
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds bytes to the digest.
    package func update(_ bytes: UnsafeRawBufferPointer) {
        guard isUsable, let base = bytes.baseAddress, bytes.count > 0 else { return }
        isUsable = EVP_DigestUpdate(context, base, bytes.count) == 1
    }

    /// Adds bytes to the digest.
    package func update(_ data: Data) {
        data.withUnsafeBytes { update($0) }
    }

    /// Returns the digest of all bytes so far, with a length of ``ChecksumAlgorithm/digestLength`` bytes, or nil if
    /// OpenSSL fails (out of memory, or a policy that forbids the algorithm, as FIPS 140 forbids MD5). More bytes can
    /// be added afterwards.
    package func value() -> Data? {
        guard isUsable, let copy = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(copy) }
        guard EVP_MD_CTX_copy_ex(copy, context) == 1 else { return nil }
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var length: UInt32 = 0
        guard EVP_DigestFinal_ex(copy, &digest, &length) == 1 else { return nil }
        return Data(digest[..<Int(length)])
    }

    /// Returns the SHA-256 of data in memory, or nil if OpenSSL fails.
    package static func sha256(_ data: Data) -> Data? {
        let digest = MessageDigest()
        digest.update(data)
        return digest.value()
    }
}

extension Data {
    /// The bytes in lowercase hexadecimal digits, as in the output of `sha256sum`.
    package var hexadecimalString: String {
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

/// A hash function for file checksums. The cases are ordered by strength.
///
/// SHA-224 and stronger algorithms verify that a file is the one its publisher hashed. SHA-1 and MD5 detect accidental
/// damage but not deliberate changes, because an attacker can create two files with the same digest.
public enum ChecksumAlgorithm: String, Sendable, Hashable, CaseIterable {
    /// MD5 (RFC 1321).
    case md5 = "md5"
    /// SHA-1 (RFC 3174).
    case sha1 = "sha-1"
    /// SHA-224 (RFC 6234).
    case sha224 = "sha-224"
    /// SHA-256 (RFC 6234).
    case sha256 = "sha-256"
    /// SHA-384 (RFC 6234).
    case sha384 = "sha-384"
    /// SHA-512 (RFC 6234).
    case sha512 = "sha-512"

    /// Creates an algorithm from its name, in any case, with or without a hyphen or an underscore: `sha-256`, `SHA256`
    /// and `sha_256` are equivalent. `sha` is SHA-1, as in HTTP (RFC 3230, section 4.1.1), and `SHA2-256` is SHA-256,
    /// as in OpenSSL. Returns nil for an unknown name.
    public init?(name: String) {
        guard name.utf8.count <= 16 else { return nil }
        let letters = name.utf8.filter { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: "_") }.map(ASCII.lowercased)
        switch String(decoding: letters, as: UTF8.self) {
        case "md5": self = .md5
        case "sha", "sha1": self = .sha1
        case "sha224", "sha2224": self = .sha224
        case "sha256", "sha2256": self = .sha256
        case "sha384", "sha2384": self = .sha384
        case "sha512", "sha2512": self = .sha512
        default: return nil
        }
    }

    /// Creates an algorithm from its digest length, in bytes. Returns nil if no algorithm has this length.
    public init?(digestLength: Int) {
        guard let known = Self.allCases.first(where: { $0.digestLength == digestLength }) else { return nil }
        self = known
    }

    /// The length of a digest, in bytes.
    public var digestLength: Int {
        switch self {
        case .md5: 16
        case .sha1: 20
        case .sha224: 28
        case .sha256: 32
        case .sha384: 48
        case .sha512: 64
        }
    }
}

extension ChecksumAlgorithm: Comparable {
    /// Returns whether the first algorithm is weaker than the second.
    public static func < (one: Self, other: Self) -> Bool { one.digestLength < other.digestLength }
}

extension ChecksumAlgorithm: CustomStringConvertible {
    /// The name as used in HTTP and Metalink, for example `sha-256`.
    public var description: String { rawValue }
}
