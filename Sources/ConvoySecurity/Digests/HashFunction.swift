import COpenSSL
import Foundation

/// A hash function of HTTP's Digest authentication (RFC 7616, section 6.1), computed by OpenSSL.
enum HashFunction: Sendable, Hashable {
    case md5
    case sha256
    /// SHA-512 with other initial values, cut to 256 bits (FIPS 180-4, section 5.3.6.2).
    case sha512Over256

    /// The hash of bytes as lowercase hexadecimal digits; nil if OpenSSL failed, for instance because a policy forbids
    /// MD5.
    func hexadecimalDigest(of bytes: [UInt8]) -> String? {
        let function =
            switch self {
            case .md5: EVP_md5()
            case .sha256: EVP_sha256()
            case .sha512Over256: EVP_sha512_256()
            }
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard EVP_Digest(bytes, bytes.count, &digest, &count, function, nil) == 1 else { return nil }
        return Data(digest[..<Int(count)]).hexadecimalString
    }

    /// The hash of a text in UTF-8.
    func hexadecimalDigest(of text: String) -> String? { hexadecimalDigest(of: Array(text.utf8)) }
}
