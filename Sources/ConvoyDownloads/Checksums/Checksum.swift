import ConvoySecurity
import ConvoySupport
import Foundation

/// The expected digest of a file, with its algorithm.
public struct Checksum: Sendable, Hashable {
    /// The hash function.
    public let algorithm: ChecksumAlgorithm
    /// The bytes of the digest, whose number matches the algorithm.
    public let digest: Data

    /// Creates a checksum from the bytes of a digest.
    ///
    /// - Throws: ``ChecksumError/wrongLength(_:digits:)``.
    public init(_ algorithm: ChecksumAlgorithm, digest: Data) throws(ChecksumError) {
        guard digest.count == algorithm.digestLength else {
            throw .wrongLength(algorithm, digits: digest.count * 2)
        }
        self.algorithm = algorithm
        self.digest = digest
    }

    /// Creates a checksum from a digest in hexadecimal digits of either case.
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

    /// Parses a checksum in one of two forms: an algorithm name, `=` or `:`, and hexadecimal digits, as in
    /// `sha-256=9f86…`; or hexadecimal digits only, in which case their number determines the algorithm (32: MD5, 40:
    /// SHA-1, 64: SHA-256, 128: SHA-512). Whitespace around the parts is ignored.
    ///
    /// - Throws: A ``ChecksumError`` that identifies the invalid part.
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

    /// Creates a checksum from the current value of a digest; nil if OpenSSL failed.
    package init?(of digest: MessageDigest) {
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
    /// The checksum in the form that ``init(parsing:)`` accepts, such as `sha-256=9f86…`.
    public var description: String { "\(algorithm)=\(hexadecimal)" }
}

/// The checksums of a file's pieces, all of the same length except the last, as in Metalink (RFC 5854, section 4.1.1).
public struct PieceChecksums: Sendable, Hashable {
    /// The length of each piece except the last, in bytes.
    public let length: Int64
    /// The checksums, in file order.
    public let checksums: [Checksum]

    /// Creates the checksums of pieces; nil if the length is not positive or the checksums are empty.
    public init?(length: Int64, checksums: [Checksum]) {
        guard length > 0, !checksums.isEmpty else { return nil }
        self.length = length
        self.checksums = checksums
    }

    /// Returns the byte range of a piece in a file of a given length; nil if the file has no such piece.
    func range(of index: Int, total: Int64) -> Range<Int64>? {
        let (start, isTooLarge) = length.multipliedReportingOverflow(by: Int64(index))
        guard !isTooLarge, start < total else { return nil }
        return start..<(total - start < length ? total : start + length)
    }

    /// The file lengths, in bytes, that match this number of pieces.
    var lengths: ClosedRange<Int64> {
        let (before, isTooLong) = length.multipliedReportingOverflow(by: Int64(checksums.count) - 1)
        guard !isTooLong, before < .max else { return .max ... .max }
        return before + 1...(before.addingReportingOverflow(length).overflow ? .max : before + length)
    }
}

/// An error that occurs when a checksum or a checksum file is parsed.
public enum ChecksumError: Error, Sendable, Hashable {
    /// The algorithm is unknown or unsupported. MD5, SHA-1, SHA-256 and SHA-512 are supported.
    case unknownAlgorithm(String)
    /// The digest contains characters that are not hexadecimal digits.
    case notHexadecimal(String)
    /// The number of hexadecimal digits does not match the algorithm.
    case wrongLength(ChecksumAlgorithm, digits: Int)
    /// The algorithm is not named, and no supported algorithm has digests with this number of hexadecimal digits.
    case unknownLength(digits: Int)
    /// The checksum file is larger than this limit, in bytes.
    case fileTooLarge(limit: Int)
    /// The file contains no checksum of a supported algorithm, or several digests without file names.
    case noChecksums
}

extension ChecksumError: SelfDescribingError {
    /// A sentence that describes the error.
    public var description: String {
        switch self {
        case .unknownAlgorithm(let name):
            "Unsupported algorithm \(Self.shown(name)): use one of \(Self.known)."
        case .notHexadecimal(let text):
            "Invalid digest \(Self.shown(text)): use hexadecimal digits."
        case .wrongLength(let algorithm, let digits):
            "A \(algorithm) digest has \(algorithm.digestLength * 2) hexadecimal digits, not \(digits)."
        case .unknownLength(let digits):
            "No supported algorithm has digests of \(digits) hexadecimal digits. Use one of \(Self.known)."
        case .fileTooLarge(let limit): "The checksum file is larger than \(limit >> 20) MiB."
        case .noChecksums:
            "The file contains no checksum with a file name, as printed by sha256sum."
        }
    }

    private static let known = ChecksumAlgorithm.allCases.map(\.description).joined(separator: ", ")

    /// Returns the text in quotes, shortened if it is long.
    private static func shown(_ text: String) -> String {
        text.utf8.count > 200 ? "\(String(text.prefix(100)).debugDescription)…" : text.debugDescription
    }
}

/// A decoder for hexadecimal digits (RFC 4648, section 8).
enum HexadecimalDigits {
    /// Returns the bytes; nil if a character is not a hexadecimal digit of either case, or if the number of digits is
    /// odd.
    static func bytes(of digits: some Collection<UInt8>) -> Data? {
        guard digits.count % 2 == 0 else { return nil }
        var data = Data(capacity: digits.count / 2)
        var high: UInt8?
        for digit in digits {
            guard let value = ASCII.hexadecimalValue(digit) else { return nil }
            if let first = high {
                data.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return data
    }
}
