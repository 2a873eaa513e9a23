import ConvoyDownloads
import ConvoySupport
import Foundation

/// A failure specific to uploads. If a transfer fails, the error is a `URLError` or the error for the response's
/// status.
public struct UploadError: Error, Hashable, Sendable {
    /// The cause of the failure.
    public enum Reason: Hashable, Sendable {
        /// The upload has no file, data or sequence to send.
        case noSource
        /// The request is not suitable for an upload: it has a body, or its URL is not http or https.
        case unsuitableRequest
        /// A name in ``UploadOperation/metadata`` cannot be sent.
        case invalidMetadata(name: String)
        /// The source cannot be read. The value is the reason, as a sentence.
        case unreadableSource(String)
        /// The source has changed since the upload began.
        case sourceChanged
        /// The length of the source, in bytes, differs from the specified length; `actual` is nil if the source is
        /// longer.
        case unexpectedLength(expected: Int64, actual: Int64?)
        /// Another upload is sending the same file to the same URL.
        case inUse
        /// The journal cannot be written or read. The value is the reason, as a sentence. See
        /// ``UploadOperation/journal``.
        case unusableJournal(String)
        /// The server no longer has the upload. The value is the status of its response.
        case gone(status: Int)
        /// The upload's URL had secrets in its query, which the journal does not store.
        case missingSecrets
        /// The server does not support a feature of the protocol.
        case unsupported(String)
        /// The server does not support tus 1.0.0. The value is the list of versions that it supports.
        case unsupportedVersion([String])
        /// The server does not accept an upload of this size. The limit, in bytes, is nil if the server does not
        /// specify it.
        case tooLarge(limit: Int64?)
        /// The response violates the protocol or contradicts an earlier one. The value is the reason, as a sentence.
        case invalidAnswer(String)
        /// The server reports a number of bytes that is impossible.
        case invalidOffset(Int64, allowed: ClosedRange<Int64>)
        /// The server needs bytes that are no longer available; see ``UploadOperation/windowSize``.
        case bytesNotKept(Int64)
        /// The server has repeatedly lost or rejected bytes.
        case noProgress
        /// A request that must not be sent twice was interrupted, by a pause or in an earlier process. It may have
        /// arrived.
        case mayHaveArrived
        /// The source does not match its checksum.
        case checksumMismatch(expected: Checksum, actual: Checksum)
        /// The bytes were repeatedly damaged in transit, as detected by the server with their checksum.
        case damaged
    }

    /// The cause of the failure.
    public let reason: Reason
    /// The URL of the request; nil if the error does not come from an operation.
    public let url: URL?

    init(_ reason: Reason, _ url: URL? = nil) {
        self.reason = reason
        self.url = url
    }
}

extension UploadError: URLNaming {
    package func naming(_ url: URL) -> UploadError { self.url == nil ? UploadError(reason, url) : self }
}

extension UploadError: SelfDescribingError {
    /// A sentence that describes the failure, and the URL without its secrets.
    public var description: String {
        guard let url else { return sentence }
        return "\(sentence) (\(Redaction.url(url.absoluteString)))"
    }

    /// A sentence that describes the failure, without the URL.
    package var sentence: String {
        switch reason {
        case .noSource: "The upload has no file, data or sequence to send."
        case .unsuitableRequest: "An upload request must have an http or https URL and no body."
        case .invalidMetadata(let name):
            "Invalid metadata name \(name.debugDescription): use printable ASCII characters other than commas."
        case .unreadableSource(let reason): "The source cannot be read. \(reason)"
        case .sourceChanged: "The source has changed since the upload began."
        case .unexpectedLength(let expected, let actual):
            "The source has \(actual.map { "\($0)" } ?? "more") bytes instead of the expected \(expected)."
        case .inUse: "Another upload is sending the same source to the same URL."
        case .unusableJournal(let reason): "The journal of the upload cannot be used. \(reason)"
        case .gone(let status): "The server no longer has the upload (status \(status))."
        case .missingSecrets:
            "The URL of the upload contained secrets, which the journal does not store. Start a new upload."
        case .unsupported(let what): "The server does not support \(what)."
        case .unsupportedVersion(let versions):
            "The server supports tus \(versions.isEmpty ? "in another version" : versions.joined(separator: ", ")), but "
                + "not 1.0.0."
        case .tooLarge(let limit):
            "The server does not accept an upload of this size\(limit.map { ": at most \($0) bytes" } ?? "")."
        case .invalidAnswer(let reason): "The server's response is invalid. \(reason)"
        case .invalidOffset(let offset, let allowed):
            "The server reported \(offset) bytes, but only \(allowed.lowerBound) to \(allowed.upperBound) are possible."
        case .bytesNotKept(let offset): "The server requires the bytes from offset \(offset), which are no longer available."
        case .noProgress: "The server has repeatedly lost or rejected the bytes sent."
        case .mayHaveArrived: "The upload may have reached the server, and its request must not be sent twice."
        case .checksumMismatch(let expected, let actual):
            "The checksum of the source is \(actual), but \(expected) was expected."
        case .damaged: "The bytes were repeatedly damaged in transit."
        }
    }
}
