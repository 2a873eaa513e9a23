import ConvoySupport
import Foundation

/// Why a request to object storage failed: what the server answered, or what made the request impossible.
///
/// Failures of the transfer itself are `URLError`s, and cancellation is `URLError.cancelled`, as for all requests.
public struct ObjectStorageError: Error, Sendable, Hashable {
    /// The kind of an error: the server's code, such as `NoSuchKey`, or one of this library, which begins with a small
    /// letter.
    public struct Code: RawRepresentable, Sendable, Hashable {
        /// The text of the code.
        public let rawValue: String

        /// A code by its text.
        public init(rawValue: String) { self.rawValue = rawValue }
    }

    /// The kind of the error.
    public let code: Code
    /// A sentence, of the server or of this library, without secrets.
    public let message: String
    /// The status of the response; nil if there was none.
    public internal(set) var statusCode: Int?
    /// The server's name for the request, by which its operator finds it; nil if it gave none.
    public internal(set) var requestID: String?
    /// The bucket.
    public internal(set) var bucket: String?
    /// The key of the object, without the storage's prefix; nil for a request about no object.
    public internal(set) var key: String?
    /// Whether the storage has learned something from the response that makes a second request promising.
    var isCorrected = false

    /// An error of this library.
    init(_ code: Code, _ message: String, key: String? = nil) {
        (self.code, self.message, self.key) = (code, message, key)
    }

    static let noDigest = ObjectStorageError(.noDigest, "OpenSSL has computed no digest.")

    /// The same error with the names of what it is about.
    func about(bucket: String, key: String?) -> ObjectStorageError {
        var error = self
        error.bucket = self.bucket ?? bucket
        error.key = self.key ?? key
        return error
    }
}

extension ObjectStorageError.Code {
    // MARK: Of servers

    /// There is no such object.
    public static let noSuchKey = Self(rawValue: "NoSuchKey")
    /// There is no such bucket.
    public static let noSuchBucket = Self(rawValue: "NoSuchBucket")
    /// There is no such multipart upload: it was completed or aborted.
    public static let noSuchUpload = Self(rawValue: "NoSuchUpload")
    /// The credentials do not allow it.
    public static let accessDenied = Self(rawValue: "AccessDenied")
    /// The signature is not that of the server: the secret key is wrong.
    public static let signatureDoesNotMatch = Self(rawValue: "SignatureDoesNotMatch")
    /// The clock of this machine and that of the server differ too much.
    public static let requestTimeTooSkewed = Self(rawValue: "RequestTimeTooSkewed")
    /// The server is overloaded.
    public static let slowDown = Self(rawValue: "SlowDown")
    /// The server has failed.
    public static let internalError = Self(rawValue: "InternalError")
    /// The server has waited too long for the body.
    public static let requestTimeout = Self(rawValue: "RequestTimeout")
    /// The condition of the request does not hold.
    public static let preconditionFailed = Self(rawValue: "PreconditionFailed")
    /// A response with an error status and no code.
    public static let unexplained = Self(rawValue: "unexplained")

    // MARK: Of this library

    /// The endpoint, the region or the bucket cannot be used.
    public static let invalidConfiguration = Self(rawValue: "invalidConfiguration")
    /// The key cannot be used: it is empty, longer than 1,024 bytes, or has a segment `.` or `..`, which URLs cannot
    /// express.
    public static let invalidKey = Self(rawValue: "invalidKey")
    /// The metadata or the content type cannot be sent.
    public static let invalidMetadata = Self(rawValue: "invalidMetadata")
    /// There are no credentials.
    public static let noCredentials = Self(rawValue: "noCredentials")
    /// A file cannot be read.
    public static let unreadableSource = Self(rawValue: "unreadableSource")
    /// A file is not the one that the upload was begun with, or has changed since.
    public static let sourceChanged = Self(rawValue: "sourceChanged")
    /// A file is too large for an object.
    public static let sourceTooLarge = Self(rawValue: "sourceTooLarge")
    /// The server's checksum or entity tag is not that of the bytes that were sent, or the bytes that have arrived are not
    /// those of the server's checksum.
    public static let checksumMismatch = Self(rawValue: "checksumMismatch")
    /// The response is not what the request must have, or is larger than it may be.
    public static let malformedAnswer = Self(rawValue: "malformedAnswer")
    /// A redirect leads to a host that is not part of the storage, and was not followed.
    public static let redirectRefused = Self(rawValue: "redirectRefused")
    /// OpenSSL failed.
    public static let noDigest = Self(rawValue: "noDigest")
}

extension ObjectStorageError: SelfDescribingError {
    /// A line with the code, the message, and what the error is about.
    public var description: String {
        var line = "\(code.rawValue): \(message)"
        let facts = [
            key.map { "key: \($0.debugDescription)" }, bucket.map { "bucket: \($0)" },
            statusCode.map { "status: \($0)" }, requestID.map { "request: \($0)" },
        ].compactMap { $0 }
        if !facts.isEmpty { line += " (\(facts.joined(separator: ", ")))" }
        return line
    }
}
