import Foundation

/// An upload of a file in parts that the server has begun: a value that can be stored, so that another process can resume
/// it after the first one has ended. It holds no secrets.
///
/// A server keeps the parts of an upload, and may charge for them, until it is completed or aborted.
public struct MultipartUpload: Codable, Sendable, Hashable {
    /// The largest object: 5 TiB.
    static let maximumSize: Int64 = 5 << 40
    static let maximumCount: Int64 = 10_000
    static let sizes: ClosedRange<Int64> = (5 << 20)...(5 << 30)

    /// A part that the server has.
    public struct Part: Codable, Sendable, Hashable {
        /// From 1.
        public let number: Int
        /// The entity tag, with its quotation marks.
        public let entityTag: String
        /// The SHA-256 of the part's bytes.
        public let sha256: Data
        /// The MD5; nil where OpenSSL computes none.
        let md5: Data?
    }

    /// The key of the object, without the storage's prefix.
    public let key: String
    /// The server's name for the upload.
    public let uploadID: String
    /// The file.
    public let source: SourceFile
    /// The size of each part but the last, in bytes.
    public let partSize: Int64
    /// Whether the server was told that each part has its SHA-256.
    let hasChecksums: Bool
    /// The parts that the server has, by number.
    public internal(set) var parts: [Part] = []

    init(key: String, uploadID: String, source: SourceFile, partSize: Int64, hasChecksums: Bool) {
        (self.key, self.uploadID, self.source) = (key, uploadID, source)
        (self.partSize, self.hasChecksums) = (partSize, hasChecksums)
    }

    /// - Throws: ``ObjectStorageError/Code/invalidConfiguration`` if the numbers, which may come from a damaged store, are none of
    ///   an upload that ``ObjectStorage`` has begun; an error of the decoder.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        key = try values.decode(String.self, forKey: .key)
        uploadID = try values.decode(String.self, forKey: .uploadID)
        source = try values.decode(SourceFile.self, forKey: .source)
        partSize = try values.decode(Int64.self, forKey: .partSize)
        hasChecksums = try values.decode(Bool.self, forKey: .hasChecksums)
        parts = try values.decode([Part].self, forKey: .parts)
        guard 1...Self.sizes.upperBound ~= partSize, 0...Self.maximumSize ~= source.size,
            (source.size - 1) / partSize < Self.maximumCount,
            parts.allSatisfy({ 1...partCount ~= $0.number }), Set(parts.map(\.number)).count == parts.count
        else { throw ObjectStorageError(.invalidConfiguration, "The stored upload is damaged.", key: key) }
    }

    /// How many parts the file has: at least one.
    public var partCount: Int { Int(clamping: max(1, (source.size + partSize - 1) / partSize)) }

    /// How many bytes the server has.
    public var sentSize: Int64 { parts.reduce(0) { $0 + Int64(range(of: $1.number).count) } }

    /// The bytes of a part.
    func range(of number: Int) -> Range<Int64> {
        let start = min(Int64(number - 1) * partSize, source.size)
        return start..<min(start + partSize, source.size)
    }

    /// The numbers of the parts that the server lacks.
    var missing: [Int] {
        let known = Set(parts.map(\.number))
        return (1...partCount).filter { !known.contains($0) }
    }

    mutating func add(_ part: Part) {
        parts.removeAll { $0.number == part.number }
        parts.insert(part, at: parts.firstIndex { $0.number > part.number } ?? parts.endIndex)
    }

    /// The size of the parts of a file: the wanted one, or a larger one in whole MiB, with which there are not too many.
    static func partSize(for size: Int64, wanted: Int64) throws(ObjectStorageError) -> Int64 {
        guard size <= maximumSize else {
            throw ObjectStorageError(.sourceTooLarge, "An object has at most 5 TiB.")
        }
        let least = (size + maximumCount - 1) / maximumCount
        let mebibyte: Int64 = 1 << 20
        let whole = (least + mebibyte - 1) / mebibyte * mebibyte
        return min(max(wanted, whole, sizes.lowerBound), sizes.upperBound)
    }
}
