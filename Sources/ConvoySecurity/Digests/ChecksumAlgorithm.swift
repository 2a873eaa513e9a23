import ConvoySupport

/// A hash function for checksums of files, weakest first.
///
/// SHA-256 and SHA-512 prove that a file is the one that its publisher hashed. SHA-1 and MD5 find damage, but no
/// deliberate change: two files with the same digest can be made.
public enum ChecksumAlgorithm: String, Sendable, Hashable, CaseIterable {
    /// MD5 (RFC 1321).
    case md5 = "md5"
    /// SHA-1 (RFC 3174).
    case sha1 = "sha-1"
    /// SHA-256 (RFC 6234).
    case sha256 = "sha-256"
    /// SHA-512 (RFC 6234).
    case sha512 = "sha-512"

    /// The algorithm of this name, in any case, with or without a hyphen or an underscore: `sha-256`, `SHA256` and
    /// `sha_256` are the same. `sha` is SHA-1, as in HTTP (RFC 3230, section 4.1.1), and `SHA2-256` is SHA-256, as in
    /// OpenSSL. Nil for a name that is not known.
    public init?(name: String) {
        guard name.utf8.count <= 16 else { return nil }
        let letters = name.utf8.filter { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: "_") }.map(ASCII.lowercased)
        switch String(decoding: letters, as: UTF8.self) {
        case "md5": self = .md5
        case "sha", "sha1": self = .sha1
        case "sha256", "sha2256": self = .sha256
        case "sha512", "sha2512": self = .sha512
        default: return nil
        }
    }

    /// The algorithm whose digests have this length in bytes; nil for a length that no algorithm has.
    public init?(digestLength: Int) {
        guard let known = Self.allCases.first(where: { $0.digestLength == digestLength }) else { return nil }
        self = known
    }

    /// The length of a digest in bytes.
    public var digestLength: Int {
        switch self {
        case .md5: 16
        case .sha1: 20
        case .sha256: 32
        case .sha512: 64
        }
    }
}

extension ChecksumAlgorithm: Comparable {
    /// Whether the first one is the weaker one.
    public static func < (one: Self, other: Self) -> Bool { one.digestLength < other.digestLength }
}

extension ChecksumAlgorithm: CustomStringConvertible {
    /// The name as in HTTP and Metalink, such as `sha-256`.
    public var description: String { rawValue }
}
