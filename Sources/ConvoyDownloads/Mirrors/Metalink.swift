import ConvoySecurity
import Foundation

/// A list of files, with where they are and what they must be (Metalink 4, RFC 5854).
///
/// Metalinks come from servers. Nothing in one is trusted: names are made safe, numbers are checked, nothing is loaded
/// from elsewhere, and a document type is refused. Signatures and torrents (`metaurl`) are ignored.
public struct Metalink: Sendable, Hashable {
    /// The media type of documents.
    public static let mediaType = "application/metalink4+xml"
    /// The largest document that is read, in bytes: 16 MiB.
    public static let maximumLength = 16 << 20
    /// The most files of a document.
    public static let maximumFileCount = 100_000
    /// The most URLs of a file.
    public static let maximumMirrorCount = 1000

    /// The files, at least one, in the order of the document.
    public let files: [File]

    /// Parses a document.
    ///
    /// - Throws: ``MetalinkError``.
    public init(parsing data: Data) throws(MetalinkError) {
        files = try MetalinkParser.files(in: data)
    }

    /// A file that a Metalink describes (RFC 5854, section 4.1.2).
    public struct File: Sendable, Hashable {
        /// The directories and the name under which to save it, each made safe. There is at least one component, and
        /// none leads upwards.
        public let pathComponents: [String]
        /// How many bytes it has; nil if that is not told.
        public let size: Int64?
        /// The digests of the whole file, strongest first, one of each algorithm. Algorithms that are not supported are
        /// left out.
        public let checksums: [Checksum]
        /// The digests of its pieces; nil if there are none of a supported algorithm.
        public let pieces: Pieces?
        /// Where it is, from the best to the worst. Empty if the document has only URLs of other schemes than http and
        /// https.
        public let mirrors: [DownloadMirror]

        /// The name without its directories.
        public var name: String { pathComponents.last ?? SuggestedName.fallback }
    }

    /// The digests of consecutive pieces of a file, all of the same length but for the last one (RFC 5854, section
    /// 4.1.3).
    public struct Pieces: Sendable, Hashable {
        /// The hash function.
        public let algorithm: ChecksumAlgorithm
        /// The length of a piece in bytes, at least 1.
        public let length: Int64
        /// The expected digest of each piece, in order. If the size of the file is known, it has exactly as many pieces.
        public let checksums: [Checksum]
    }
}
