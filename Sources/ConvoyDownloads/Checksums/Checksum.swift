import ConvoySecurity
import ConvoySupport
import Foundation

/// A digest that a file is expected to have, and the algorithm that it was made with.
public struct Checksum: Sendable, Hashable {
    /// The hash function.
    public let algorithm: ChecksumAlgorithm
    /// The digest, as long as those of the algorithm are.
    public let digest: Data

    /// A checksum of a digest as bytes.
    ///
    /// - Throws: ``ChecksumError/wrongLength(_:digits:)``.
    public init(_ algorithm: ChecksumAlgorithm, digest: Data) throws(ChecksumError) {
        guard digest.count == algorithm.digestLength else {
            throw .wrongLength(algorithm, digits: digest.count * 2)
        }
        self.algorithm = algorithm
        self.digest = digest
    }

    /// A checksum of a digest in hexadecimal digits of either case.
    ///
    /// - Throws: ``ChecksumError/notHexadecimal(_:)`` or ``ChecksumError/wrongLength(_:digits:)``.
    public init(_ algorithm: ChecksumAlgorithm, hexadecimal: String) throws(ChecksumError) {
        guard let bytes = HexadecimalDigits.bytes(of: hexadecimal.utf8) else {
            if hexadecimal.utf8.allSatisfy(ASCII.isHexadecimal) {
                throw .wrongLength(algorithm, digits: hexadecimal.utf8.count)
            }
            throw .notHexadecimal(hexadecimal)
        }
        try self.init(algorithm, digest: bytes)
    }

    /// A checksum as people write it: the name of the algorithm, `=` or `:`, and hexadecimal digits, as in
    /// `sha-256=9f86…`; or only the digits, whose number tells the algorithm (32: MD5, 40: SHA-1, 64: SHA-256, 128:
    /// SHA-512). Whitespace around the parts is ignored.
    ///
    /// - Throws: a ``ChecksumError`` that says which part is wrong.
    public init(parsing text: String) throws(ChecksumError) {
        let bytes = Array(text.utf8)
        guard let separator = bytes.firstIndex(where: { $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: ":") }) else {
            let digits = Self.trimmed(bytes[...])
            guard digits.utf8.allSatisfy(ASCII.isHexadecimal) else { throw .notHexadecimal(digits) }
            guard digits.utf8.count % 2 == 0, let algorithm = ChecksumAlgorithm(digestLength: digits.utf8.count / 2) else {
                throw .unknownLength(digits: digits.utf8.count)
            }
            try self.init(algorithm, hexadecimal: digits)
            return
        }
        let name = Self.trimmed(bytes[..<separator])
        guard let algorithm = ChecksumAlgorithm(name: name) else { throw .unknownAlgorithm(name) }
        try self.init(algorithm, hexadecimal: Self.trimmed(bytes[(separator + 1)...]))
    }

    /// The checksum of the bytes that a digest has got so far; nil if OpenSSL failed.
    public init?(of digest: MessageDigest) {
        guard let value = digest.value(), value.count == digest.algorithm.digestLength else { return nil }
        algorithm = digest.algorithm
        self.digest = value
    }

    /// The digest in lowercase hexadecimal digits.
    public var hexadecimal: String { digest.hexadecimalString }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> String {
        String(decoding: ASCII.trimmed(bytes), as: UTF8.self)
    }
}

extension Checksum: CustomStringConvertible {
    /// The checksum in the form that ``init(parsing:)`` takes, such as `sha-256=9f86…`.
    public var description: String { "\(algorithm)=\(hexadecimal)" }
}
