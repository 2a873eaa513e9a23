import ConvoyDownloads
import ConvoySupport
import Foundation

/// Why an upload has failed, where it is not the transfer itself, which fails with a `URLError` or the error of its status.
public struct UploadError: Error, Hashable, Sendable {
    /// What has gone wrong.
    public enum Reason: Hashable, Sendable {
        /// There is no file, data or sequence to send.
        case noSource
        /// The request is none that uploads: it has a body of its own, or no URL of http or https.
        case unsuitableRequest
        /// The source cannot be read: why, as a sentence.
        case unreadableSource(String)
        /// The source is no longer the one that the upload was begun with, or has changed while it was sent.
        case sourceChanged
        /// The source has another length, in bytes, than was said; `actual` is nil where it ended too late.
        case unexpectedLength(expected: Int64, actual: Int64?)
        /// Another upload is sending the same file to the same URL.
        case inUse
        /// The journal cannot be written or read: why, as a sentence. See ``UploadOperation/journal``.
        case unusableJournal(String)
        /// The server does not have the upload any more: the status of its answer.
        case gone(status: Int)
        /// The upload's URL had secrets in its query, which a journal does not keep.
        case missingSecrets
        /// The server lacks a part of the protocol: its name.
        case unsupported(String)
        /// The server speaks none of the known versions of tus: those that it names.
        case unsupportedVersion([String])
        /// The server takes no upload of this size: its limit, in bytes, if it says one.
        case tooLarge(limit: Int64?)
        /// The answer is none of the protocol's, or contradicts an earlier one: why, as a sentence.
        case invalidAnswer(String)
        /// The server claims another number of bytes than it can have.
        case invalidOffset(Int64, allowed: ClosedRange<Int64>)
        /// The server asks for bytes that are not kept any more; see ``UploadOperation/windowSize``.
        case bytesNotKept(Int64)
        /// The server has lost bytes, or has refused them, again and again.
        case noProgress
        /// The upload was paused while a request was sent that must not be sent twice: it may have arrived.
        case mayHaveArrived
        /// The source has another checksum than was said.
        case checksumMismatch(expected: Checksum, actual: Checksum)
        /// The bytes were damaged on the way, again and again, as the server has found by their checksum.
        case damaged
    }

    /// What has gone wrong.
    public let reason: Reason
    /// The URL of the request; nil where the error does not come from an operation.
    public let url: URL?

    init(_ reason: Reason, _ url: URL? = nil) { (self.reason, self.url) = (reason, url) }
}

extension UploadError: URLNaming {
    package func naming(_ url: URL) -> UploadError { self.url == nil ? UploadError(reason, url) : self }
}

extension UploadError: SelfDescribingError {
    /// What has happened, in a sentence, and the URL without its secrets.
    public var description: String {
        guard let url else { return sentence }
        return "\(sentence) (\(Redaction.url(url.absoluteString)))"
    }

    /// What has happened, without the URL.
    package var sentence: String {
        switch reason {
        case .noSource: "The upload has nothing to send."
        case .unsuitableRequest: "The request of an upload has a URL of http or https, and no body of its own."
        case .unreadableSource(let reason): "The source cannot be read. \(reason)"
        case .sourceChanged: "The source has changed since the upload was begun."
        case .unexpectedLength(let expected, let actual):
            "The source should have \(expected) bytes, and has \(actual.map { "\($0)" } ?? "more")."
        case .inUse: "Another upload is sending the same source to the same URL."
        case .unusableJournal(let reason): "The upload's journal cannot be used. \(reason)"
        case .gone(let status): "The server does not have the upload any more (status \(status))."
        case .missingSecrets: "The upload's URL had secrets, which its journal does not keep."
        case .unsupported(let what): "The server does not support this: \(what)."
        case .unsupportedVersion(let versions):
            "The server speaks tus \(versions.isEmpty ? "in another version" : versions.joined(separator: ", ")), and not 1.0.0."
        case .tooLarge(let limit):
            "The server takes no upload of this size\(limit.map { ": at most \($0) bytes" } ?? "")."
        case .invalidAnswer(let reason): "The server's answer is not valid. \(reason)"
        case .invalidOffset(let offset, let allowed):
            "The server says that it has \(offset) bytes, and can have \(allowed.lowerBound) to \(allowed.upperBound)."
        case .bytesNotKept(let offset): "The server asks for the bytes from \(offset) on, which are not kept any more."
        case .noProgress: "The server has not kept what was sent, again and again."
        case .mayHaveArrived: "The upload may have arrived, and its request must not be sent a second time."
        case .checksumMismatch(let expected, let actual):
            "The source has the checksum \(actual), and should have \(expected)."
        case .damaged: "The bytes were damaged on the way, again and again."
        }
    }
}
