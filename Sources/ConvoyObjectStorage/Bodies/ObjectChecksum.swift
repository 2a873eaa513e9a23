import ConvoySecurity
import Foundation
import FoundationNetworking

/// A checksum of a complete object that the server has stored with it (`x-amz-checksum-…`).
public struct ObjectChecksum: Sendable, Hashable {
    /// An algorithm of such checksums.
    public enum Algorithm: String, Sendable, Hashable, CaseIterable {
        case sha256, sha1, crc64nvme, crc32c, crc32
    }

    /// The algorithm.
    public let algorithm: Algorithm
    /// The checksum: a digest, or a number with its most significant byte first.
    public let value: Data

    /// Creates a checksum.
    public init(_ algorithm: Algorithm, value: Data) {
        self.algorithm = algorithm
        self.value = value
    }

    /// Returns the checksums in a response. Excludes those of multipart objects that are computed from the checksums of
    /// the parts rather than from the bytes.
    static func all(in response: HTTPURLResponse) -> [ObjectChecksum] {
        let type = response.value(forHTTPHeaderField: "x-amz-checksum-type")?.uppercased()
        guard type != "COMPOSITE" else { return [] }
        // Some servers omit the type. The entity tag of a multipart object ends with the number of parts.
        let isMultipart = response.value(forHTTPHeaderField: "ETag")?.contains("-") == true
        return Algorithm.allCases.compactMap { algorithm in
            let text = response.value(forHTTPHeaderField: "x-amz-checksum-\(algorithm.rawValue)")
            guard let text, !text.contains("-"), let value = Data(base64Encoded: text),
                !isMultipart || type == "FULL_OBJECT" || algorithm == .crc64nvme
            else { return nil }
            return ObjectChecksum(algorithm, value: value)
        }
    }

    /// Returns whether bytes have this checksum; nil if OpenSSL does not support the algorithm.
    func matches(_ data: Data) -> Bool? {
        let check = RunningCheck(algorithm)
        data.withUnsafeBytes { check.update($0) }
        return check.value.map { $0 == value }
    }

    /// Returns whether the bytes of a file have this checksum; nil if OpenSSL does not support the algorithm. Blocks.
    ///
    /// - Throws: ``ObjectStorageError/Code/unreadableSource``, ``ObjectStorageError/Code/sourceChanged``.
    package func matches(fileAt path: String) throws(ObjectStorageError) -> Bool? {
        let (check, file) = (RunningCheck(algorithm), try SourceFile(URL(fileURLWithPath: path, isDirectory: false)))
        try file.read(0..<file.size) { check.update($0) }
        return check.value.map { $0 == value }
    }

    /// A computation of a checksum.
    private final class RunningCheck {
        private var cyclic: CyclicChecksum?
        private var digest: MessageDigest?

        init(_ algorithm: Algorithm) {
            switch algorithm {
            case .sha256: digest = MessageDigest(.sha256)
            case .sha1: digest = MessageDigest(.sha1)
            case .crc64nvme: cyclic = CyclicChecksum(.crc64nvme)
            case .crc32c: cyclic = CyclicChecksum(.crc32c)
            case .crc32: cyclic = CyclicChecksum(.crc32)
            }
        }

        func update(_ bytes: UnsafeRawBufferPointer) {
            cyclic?.update(bytes)
            digest?.update(bytes)
        }

        var value: Data? { cyclic?.value ?? digest?.value() }
    }
}
