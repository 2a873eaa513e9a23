import ConvoySupport
import Foundation

/// Why a download has failed for a reason of its own. Failures of the network are `URLError`s; a file that cannot be
/// written is `URLError.cannotWriteToFile`, with the system's error underlying.
public struct DownloadError: Error, Equatable, Sendable {
    /// What has gone wrong.
    public enum Reason: Equatable, Sendable {
        /// The operation has no destination.
        case noDestination
        /// The place of the file is no path of a file, or the name of a directory.
        case unusableDestination(URL)
        /// There is no URL that the file could come from.
        case noSource
        /// There is a file already, and ``ExistingFilePolicy/fail`` keeps it. Nothing was sent.
        case fileExists(URL)
        /// Another download, in this process or another one, is writing the file.
        case inUse(URL)
        /// The bytes are not those of the checksum. The file was not put in its place, and nothing of it was kept.
        case checksumMismatch(expected: Checksum, actual: Checksum)
        /// Pieces of the file have other checksums than they should, and no source has better ones. Nothing of it was kept.
        case piecesMismatch
        /// The file does not fit where it is to be: its length and the free space, in bytes.
        case notEnoughSpace(needed: Int64, available: Int64, URL)
        /// The file has another length than was said, in bytes; nil where the server did not tell.
        case unexpectedLength(expected: Int64, actual: Int64?)
        /// The server sends another media type than that of the stored bytes: a page that asks for a login, for instance. The
        /// stored bytes are kept. With ``DownloadOperation/acceptsUnrelatedContent``, or after
        /// ``DownloadOperation/removePartialFile(of:)``, the download restarts from the beginning.
        case changedType(expected: String, actual: String)
        /// The server's file is shorter than the stored bytes, in bytes, so they cannot be part of it. They are kept, as for
        /// ``changedType(expected:actual:)``.
        case changedLength(stored: Int64, actual: Int64)
        /// The server has answered with a status that has no file, 204 or 205.
        case noContent(status: Int)
        /// The server has begun to send another file again and again, or the whole file contradicts what is known of it: the same
        /// entity tag with another length, for instance. The next download begins anew.
        case keepsChanging
        /// The request is none that downloads: it has another method than GET, a body, or a range of its own.
        case unsuitableRequest
    }

    /// What has gone wrong.
    public let reason: Reason
    /// The URL that was to be downloaded; nil where the error does not come from an operation.
    public let url: URL?

    init(_ reason: Reason, _ url: URL? = nil) { (self.reason, self.url) = (reason, url) }
}

// The errors as they are thrown; the operation adds its URL.
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
    /// What has happened, in a sentence, and the URL without its secrets.
    public var description: String {
        guard let url else { return sentence }
        return "\(sentence) (\(Redaction.url(url.absoluteString)))"
    }

    /// What has happened, without the URL.
    package var sentence: String {
        switch reason {
        case .noDestination: "The download has no destination."
        case .noSource: "There is no URL of http or https for the file."
        case .unusableDestination(let url): "No file can be written at \(Self.shown(url))."
        case .fileExists(let url): "The file \(Self.shown(url)) exists already."
        case .inUse(let url): "Another download is writing the file \(Self.shown(url))."
        case .checksumMismatch(let expected, let actual):
            "The file has the checksum \(actual), and should have \(expected)."
        case .piecesMismatch: "Pieces of the file have other checksums than they should."
        case .notEnoughSpace(let needed, let available, let url):
            "The file \(Self.shown(url)) needs \(needed) bytes, and \(available) are free."
        case .unexpectedLength(let expected, let actual):
            "The file should have \(expected) bytes, and has \(actual.map { "\($0)" } ?? "another number")."
        case .changedType(let expected, let actual):
            "The server sends \(actual), but the stored bytes are \(expected). They were kept."
        case .changedLength(let stored, let actual):
            "The server's file has \(actual) bytes, fewer than the \(stored) bytes stored, which were kept."
        case .noContent(let status): "The server has answered with the status \(status), and without a file."
        case .keepsChanging: "The file has changed on the server while it was fetched, or the server contradicts itself."
        case .unsuitableRequest: "A download is a GET without a body and without a range of its own."
        }
    }

    private static func shown(_ url: URL) -> String { url.isFileURL ? url.path : Redaction.url(url.absoluteString) }
}
