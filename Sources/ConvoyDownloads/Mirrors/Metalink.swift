import ConvoySecurity
import ConvoySupport
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
        /// How many bytes it has; nil if the document does not say.
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

/// Why a document cannot be used as a Metalink. Lines are counted from 1.
public enum MetalinkError: Error, Sendable, Hashable {
    /// It has more bytes than this.
    case tooLarge(limit: Int)
    /// It is not well-formed XML, or too deep or too long in a place where no Metalink is.
    case malformed(reason: String, line: Int)
    /// It has a document type, which could declare entities. No Metalink needs one.
    case documentType(line: Int)
    /// It is XML, but not a Metalink.
    case notMetalink
    /// It lists no file.
    case noFiles
    /// It has more of an element than this, in one place.
    case tooMany(element: String, limit: Int, line: Int)
    /// An element lacks an attribute that it must have.
    case missingAttribute(element: String, attribute: String, line: Int)
    /// The text or an attribute of an element is none that it can have, such as a negative size.
    case invalidValue(element: String, value: String, line: Int)
    /// The name of a file is not relative, or leads out of the directory (RFC 5854, section 4.1.2.1).
    case unsafeName(String, line: Int)
    /// Two elements contradict each other: two sizes, two digests of one algorithm, two files of the same name.
    case repeated(element: String, line: Int)
    /// The digests of pieces are not as many as the size and the length of a piece require.
    case wrongPieceCount(found: Int, expected: Int64, line: Int)
}

extension MetalinkError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .tooLarge(let limit): "The Metalink is larger than \(limit >> 20) MiB."
        case .malformed(let reason, let line): "The Metalink is malformed in line \(line): \(reason)"
        case .documentType(let line):
            "The Metalink has a document type in line \(line). That is refused, as it could declare entities."
        case .notMetalink: "The document is XML, but not a Metalink (RFC 5854)."
        case .noFiles: "The Metalink lists no file."
        case .tooMany(let element, let limit, let line):
            "The Metalink has more than \(limit) \(element) elements in one place, in line \(line)."
        case .missingAttribute(let element, let attribute, let line):
            "A \(element) element of the Metalink has no attribute \(attribute), in line \(line)."
        case .invalidValue(let element, let value, let line):
            "\(Redaction.url(value).debugDescription) is not a valid \(element) of a Metalink, in line \(line)."
        case .unsafeName(let name, let line):
            "The Metalink names a file \(name.debugDescription), which may lead out of its directory, in line \(line)."
        case .repeated(let element, let line):
            "A \(element) element of the Metalink contradicts an earlier one, in line \(line)."
        case .wrongPieceCount(let found, let expected, let line):
            "The Metalink has digests of \(found) pieces, but the file has \(expected), in line \(line)."
        }
    }
}

extension MetalinkError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
