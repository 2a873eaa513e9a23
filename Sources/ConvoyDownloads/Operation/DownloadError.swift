import ConvoySupport
import Foundation

/// A failure specific to downloads. Network failures are `URLError`s. If a file cannot be written, the error is
/// `URLError.cannotWriteToFile`, with the system's error as its underlying error.
public struct DownloadError: Error, Equatable, Sendable {
    /// The cause of the failure.
    public enum Reason: Equatable, Sendable {
        /// The operation has no destination.
        case noDestination
        /// The destination is not a file path, or is a directory.
        case unusableDestination(URL)
        /// No URL is available for the file.
        case noSource
        /// The file exists, and ``ExistingFilePolicy/fail`` keeps it. No request was sent.
        case fileExists(URL)
        /// Another download is writing the file, in this process or a different one.
        case inUse(URL)
        /// The file does not match its checksum. It was not moved to its destination, and its bytes were discarded.
        case checksumMismatch(expected: Checksum, actual: Checksum)
        /// Pieces of the file do not match their checksums, and no source has correct ones. The bytes were discarded.
        case piecesMismatch
        /// There is not enough space for the file. The values are its length and the available space, in bytes.
        case notEnoughSpace(needed: Int64, available: Int64, URL)
        /// The length of the file, in bytes, differs from the expected length; the actual length is nil if the server
        /// did not report it.
        case unexpectedLength(expected: Int64, actual: Int64?)
        /// The server sends a media type that differs from the media type of the stored bytes, for example because of a
        /// login page. The stored bytes are kept. With ``DownloadOperation/acceptsUnrelatedContent``, or after
        /// ``DownloadOperation/removePartialFile(of:)``, the download starts over.
        case changedType(expected: String, actual: String)
        /// The server's file is shorter than the stored bytes, so they cannot be part of it. Both lengths are in bytes.
        /// The stored bytes are kept, as for ``changedType(expected:actual:)``.
        case changedLength(stored: Int64, actual: Int64)
        /// The server has responded with a status that has no body, 204 or 205.
        case noContent(status: Int)
        /// The server repeatedly starts to send a different file, or the file contradicts earlier responses: for
        /// example, the same entity tag with a different length. The next download starts over.
        case keepsChanging
        /// The request is not suitable for a download: its method is not GET, or it has a body or a `Range` field.
        case unsuitableRequest
    }

    /// The cause of the failure.
    public let reason: Reason
    /// The URL of the download; nil if the error does not come from an operation.
    public let url: URL?

    init(_ reason: Reason, _ url: URL? = nil) {
        self.reason = reason
        self.url = url
    }
}

// These errors are thrown without a URL; the operation adds it.
extension DownloadError {
    static let noDestination = DownloadError(.noDestination)
    static let noSource = DownloadError(.noSource)
    static let piecesMismatch = DownloadError(.piecesMismatch)
    static let keepsChanging = DownloadError(.keepsChanging)
    static let unsuitableRequest = DownloadError(.unsuitableRequest)
    package static func unusableDestination(_ url: URL) -> DownloadError { DownloadError(.unusableDestination(url)) }
    package static func fileExists(_ url: URL) -> DownloadError { DownloadError(.fileExists(url)) }
    static func inUse(_ url: URL) -> DownloadError { DownloadError(.inUse(url)) }
    static func checksumMismatch(expected: Checksum, actual: Checksum) -> DownloadError {
        DownloadError(.checksumMismatch(expected: expected, actual: actual))
    }
    static func notEnoughSpace(needed: Int64, available: Int64, _ url: URL) -> DownloadError {
        DownloadError(.notEnoughSpace(needed: needed, available: available, url))
    }
    static func unexpectedLength(expected: Int64, actual: Int64?) -> DownloadError {
        DownloadError(.unexpectedLength(expected: expected, actual: actual))
    }
    static func changedType(expected: String, actual: String) -> DownloadError {
        DownloadError(.changedType(expected: expected, actual: actual))
    }
    static func changedLength(stored: Int64, actual: Int64) -> DownloadError {
        DownloadError(.changedLength(stored: stored, actual: actual))
    }
    static func noContent(status: Int) -> DownloadError { DownloadError(.noContent(status: status)) }
}

extension DownloadError: URLNaming {
    package func naming(_ url: URL) -> DownloadError { self.url == nil ? DownloadError(reason, url) : self }
}

extension DownloadError: SelfDescribingError {
    /// A sentence that describes the failure, and the URL without its secrets.
    public var description: String {
        guard let url else { return sentence }
        return "\(sentence) (\(Redaction.url(url.absoluteString)))"
    }

    /// A sentence that describes the failure, without the URL.
    package var sentence: String {
        switch reason {
        case .noDestination: "The download has no destination. Set one before it starts."
        case .noSource: "The Metalink has no http or https URL for the file."
        case .unusableDestination(let url):
            "Cannot write a file at \(Self.shown(url)). Choose a file URL that is not a directory."
        case .fileExists(let url): "The file \(Self.shown(url)) already exists."
        case .inUse(let url): "Another download is writing the file \(Self.shown(url))."
        case .checksumMismatch(let expected, let actual):
            "The checksum of the file is \(actual), but \(expected) was expected."
        case .piecesMismatch: "Pieces of the file do not match their checksums."
        case .notEnoughSpace(let needed, let available, let url):
            "The file \(Self.shown(url)) needs \(needed) bytes, but the disk has only \(available) bytes available."
        case .unexpectedLength(let expected, let actual):
            "The file has \(actual.map { "\($0)" } ?? "another number of") bytes, but \(expected) were expected."
        case .changedType(let expected, let actual):
            "The server now sends \(actual), but the stored bytes are \(expected). The stored bytes were kept."
        case .changedLength(let stored, let actual):
            "The server's file has \(actual) bytes, fewer than the \(stored) stored bytes. The stored bytes were kept."
        case .noContent(let status): "The server responded with status \(status), which has no body."
        case .keepsChanging:
            "The file keeps changing on the server, or the server sends inconsistent responses."
        case .unsuitableRequest: "A download must be a GET request without a body or a Range field."
        }
    }

    private static func shown(_ url: URL) -> String { url.isFileURL ? url.path : Redaction.url(url.absoluteString) }
}
