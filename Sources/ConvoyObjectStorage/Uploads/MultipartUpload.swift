import Foundation

/// A multipart upload of a file that was begun on the server. The value can be stored, so that another process can
/// resume the upload. It contains no secrets.
///
/// A server keeps the parts of an upload, and may charge for them, until the upload is completed or aborted.
public struct MultipartUpload: Codable, Sendable, Hashable {
    /// The maximum size of an object: 5 TiB.
    static let maximumSize: Int64 = 5 << 40
    static let maximumCount: Int64 = 10_000
    static let sizes: ClosedRange<Int64> = (5 << 20)...(5 << 30)

    /// A part stored by the server.
    public struct Part: Codable, Sendable, Hashable {
        /// The number of the part, from 1.
        public let number: Int
        /// The entity tag, with its quotation marks.
        public let entityTag: String
        /// The SHA-256 digest of the part.
        public let sha256: Data
        /// The MD5 digest; nil if OpenSSL does not support it.
        let md5: Data?
    }

    /// The key of the object, without the storage's prefix.
    public let key: String
    /// The server's identifier of the upload.
    public let uploadID: String
    /// The file to upload.
    public internal(set) var source: SourceFile
    /// The size of each part except the last, in bytes.
    public let partSize: Int64
    /// Whether the upload was begun with SHA-256 checksums for its parts.
    let hasChecksums: Bool
    /// The parts stored by the server, by number.
    public internal(set) var parts: [Part] = []

    init(key: String, uploadID: String, source: SourceFile, partSize: Int64, hasChecksums: Bool) {
        self.key = key
        self.uploadID = uploadID
        self.source = source
        self.partSize = partSize
        self.hasChecksums = hasChecksums
    }

    /// Decodes an upload.
    ///
    /// - Throws: ``ObjectStorageError/Code/invalidConfiguration`` if the numbers are not those of an upload begun by
    ///   ``ObjectStorage``, for example because the stored value is damaged; an error of the decoder.
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

    /// The number of parts: at least one.
    public var partCount: Int { Int(clamping: max(1, (source.size + partSize - 1) / partSize)) }

    /// The number of bytes stored by the server.
    public var sentSize: Int64 { parts.reduce(0) { $0 + Int64(range(of: $1.number).count) } }

    /// Returns the byte range of a part.
    func range(of number: Int) -> Range<Int64> {
        let start = min(Int64(number - 1) * partSize, source.size)
        return start..<min(start + partSize, source.size)
    }

    /// The numbers of the parts that have not been sent.
    var missing: [Int] {
        let known = Set(parts.map(\.number))
        return (1...partCount).filter { !known.contains($0) }
    }

    mutating func add(_ part: Part) {
        parts.removeAll { $0.number == part.number }
        parts.insert(part, at: parts.firstIndex { $0.number > part.number } ?? parts.endIndex)
    }

    /// Returns the size of a file's parts: the requested size or, if there would be too many parts, a larger one in
    /// whole MiB.
    static func partSize(for size: Int64, wanted: Int64) throws(ObjectStorageError) -> Int64 {
        guard size <= maximumSize else {
            throw ObjectStorageError(.sourceTooLarge, "The file is larger than 5 TiB, the maximum size of an object.")
        }
        let least = (size + maximumCount - 1) / maximumCount
        let mebibyte: Int64 = 1 << 20
        let whole = (least + mebibyte - 1) / mebibyte * mebibyte
        return min(max(wanted, whole, sizes.lowerBound), sizes.upperBound)
    }
}
