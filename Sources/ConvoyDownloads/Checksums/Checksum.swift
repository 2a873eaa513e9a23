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

/// The checksums of a file's pieces of equal length, as Metalink has them (RFC 5854, section 4.1.1).
public struct PieceChecksums: Sendable, Hashable {
    /// The length of each piece but the last, in bytes.
    public let length: Int64
    /// The checksums in order.
    public let checksums: [Checksum]

    /// The checksums of pieces; nil if the length is not positive, or there are none.
    public init?(length: Int64, checksums: [Checksum]) {
        guard length > 0, !checksums.isEmpty else { return nil }
        (self.length, self.checksums) = (length, checksums)
    }

    /// The positions of a piece in a file of a length; nil if the file has no such piece.
    func range(of index: Int, total: Int64) -> Range<Int64>? {
        let (start, isTooLarge) = length.multipliedReportingOverflow(by: Int64(index))
        guard !isTooLarge, start < total else { return nil }
        return start..<(total - start < length ? total : start + length)
    }

    /// The lengths, in bytes, of the files that they can be those of.
    var lengths: ClosedRange<Int64> {
        let (before, isTooLong) = length.multipliedReportingOverflow(by: Int64(checksums.count) - 1)
        guard !isTooLong, before < .max else { return .max ... .max }
        return before + 1...(before.addingReportingOverflow(length).overflow ? .max : before + length)
    }
}

/// Why text is not a checksum, or a file has none.
public enum ChecksumError: Error, Sendable, Hashable {
    /// The name is none of an algorithm that is supported (MD5, SHA-1, SHA-256, SHA-512).
    case unknownAlgorithm(String)
    /// There is something else than hexadecimal digits.
    case notHexadecimal(String)
    /// A digest of this algorithm has another number of hexadecimal digits.
    case wrongLength(ChecksumAlgorithm, digits: Int)
    /// There is no name, and no supported algorithm has digests with this number of hexadecimal digits.
    case unknownLength(digits: Int)
    /// A file of checksums has more bytes than this.
    case fileTooLarge(limit: Int)
    /// No line of a file has a checksum of a supported algorithm, or there are only digests without names, and more than
    /// one.
    case noChecksums
}

extension ChecksumError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .unknownAlgorithm(let name):
            "\(Self.shown(name)) is none of the supported algorithms: \(Self.known)."
        case .notHexadecimal(let text):
            "\(Self.shown(text)) is not a digest in hexadecimal digits."
        case .wrongLength(let algorithm, let digits):
            "A \(algorithm) digest has \(algorithm.digestLength * 2) hexadecimal digits, not \(digits)."
        case .unknownLength(let digits):
            "No supported algorithm has digests of \(digits) hexadecimal digits. Supported are: \(Self.known)."
        case .fileTooLarge(let limit): "The file of checksums is larger than \(limit >> 20) MiB."
        case .noChecksums:
            "The file has no line with a checksum and a file name, such as those that sha256sum prints."
        }
    }

    private static let known = ChecksumAlgorithm.allCases.map(\.description).joined(separator: ", ")

    /// The text in quotes, cut if it is long.
    private static func shown(_ text: String) -> String {
        text.utf8.count > 200 ? "\(String(text.prefix(100)).debugDescription)…" : text.debugDescription
    }
}

extension ChecksumError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}

/// Bytes written as hexadecimal digits (RFC 4648, section 8).
enum HexadecimalDigits {
    /// The bytes; nil if a character is no digit of either case, or if their number is odd.
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
