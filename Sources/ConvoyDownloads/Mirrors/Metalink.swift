import ConvoySecurity
import ConvoySupport
import Foundation

/// A list of files with their mirrors, sizes and checksums (Metalink 4, RFC 5854).
///
/// Metalinks come from servers and are not trusted: names are made safe, numbers are validated, nothing is loaded from
/// elsewhere, and a document type is rejected. Signatures and torrents (`metaurl`) are ignored.
public struct Metalink: Sendable, Hashable {
    /// The media type of Metalink documents.
    public static let mediaType = "application/metalink4+xml"
    /// The maximum size of a document, in bytes: 16 MiB.
    package static let maximumLength = 16 << 20
    /// The maximum number of files in a document.
    package static let maximumFileCount = 100_000
    /// The maximum number of URLs of a file.
    package static let maximumMirrorCount = 1000

    /// The files, at least one, in document order.
    public let files: [File]

    /// Parses a document.
    ///
    /// - Throws: ``MetalinkError``.
    public init(parsing data: Data) throws(MetalinkError) {
        files = try MetalinkParser.files(in: data)
    }

    /// A file that a Metalink describes (RFC 5854, section 4.1.2).
    public struct File: Sendable, Hashable {
        /// The directories and the name under which to save the file, all made safe. The path has at least one
        /// component, and none leads to a parent directory.
        public let pathComponents: [String]
        /// The size in bytes; nil if not specified.
        public let size: Int64?
        /// The digests of the complete file, strongest first, one per algorithm. Unsupported algorithms are omitted.
        public let checksums: [Checksum]
        /// The digests of the file's pieces; nil without a supported algorithm.
        public let pieces: Pieces?
        /// The URLs of the file, from best to worst; empty if none of them is http or https.
        public let mirrors: [DownloadMirror]

        /// The file name without directories.
        public var name: String { pathComponents.last ?? SuggestedName.fallback }
    }

    /// The digests of a file's consecutive pieces, all of the same length except the last (RFC 5854, section 4.1.3).
    public struct Pieces: Sendable, Hashable {
        /// The hash function of the digest.
        public let algorithm: ChecksumAlgorithm
        /// The length of a piece, in bytes; at least 1.
        public let length: Int64
        /// The expected digest of each piece, in order. Their number matches the size of the file, if that is known.
        public let checksums: [Checksum]
    }
}

/// A reason for rejecting a Metalink document. Line numbers start at 1.
public enum MetalinkError: Error, Sendable, Hashable {
    /// The document is larger than this limit, in bytes.
    case tooLarge(limit: Int)
    /// The document is not well-formed XML, or its nesting or text exceeds what any Metalink needs.
    case malformed(reason: String, line: Int)
    /// The document has a document type, which could declare entities. No Metalink needs one.
    case documentType(line: Int)
    /// The document is XML, but not a Metalink.
    case notMetalink
    /// The document lists no files.
    case noFiles
    /// A parent has too many elements of a kind.
    case tooMany(element: String, limit: Int, line: Int)
    /// An element lacks a required attribute.
    case missingAttribute(element: String, attribute: String, line: Int)
    /// The text or an attribute of an element is invalid, such as a negative size.
    case invalidValue(element: String, value: String, line: Int)
    /// The name of a file is not relative, or leads outside the directory (RFC 5854, section 4.1.2.1).
    case unsafeName(String, line: Int)
    /// Two elements contradict each other: two sizes, two digests of one algorithm, or two files with the same name.
    case repeated(element: String, line: Int)
    /// The number of piece digests does not match the size of the file and the length of a piece.
    case wrongPieceCount(found: Int, expected: Int64, line: Int)
}

extension MetalinkError: SelfDescribingError {
    /// A sentence that describes the error.
    public var description: String {
        switch self {
        case .tooLarge(let limit): "The Metalink is larger than \(limit >> 20) MiB."
        case .malformed(let reason, let line): "The Metalink is malformed on line \(line): \(reason)"
        case .documentType(let line):
            "Remove the document type on line \(line) of the Metalink: it could declare entities."
        case .notMetalink: "The document is XML, but not a Metalink (RFC 5854)."
        case .noFiles: "The Metalink lists no files."
        case .tooMany(let element, let limit, let line):
            "Line \(line) of the Metalink exceeds the limit of \(limit) \(element) elements."
        case .missingAttribute(let element, let attribute, let line):
            "The \(element) element on line \(line) of the Metalink lacks the attribute \(attribute)."
        case .invalidValue(let element, let value, let line):
            "Invalid \(element) \(Redaction.url(value).debugDescription) on line \(line) of the Metalink."
        case .unsafeName(let name, let line):
            "The file name \(name.debugDescription) on line \(line) of the Metalink may lead outside the directory."
        case .repeated(let element, let line):
            "The \(element) element on line \(line) of the Metalink contradicts an earlier one."
        case .wrongPieceCount(let found, let expected, let line):
            "The Metalink has digests of \(found) pieces on line \(line), but the file has \(expected) pieces."
        }
    }
}
