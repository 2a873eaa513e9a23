import ConvoySupport
import Foundation

/// The reason why a request to object storage failed: the error returned by the server, or the problem that prevented
/// the request.
///
/// Transfer failures are `URLError`s, and cancellation is `URLError.cancelled`, as for all requests.
public struct ObjectStorageError: Error, Sendable, Hashable {
    /// The kind of an error: the server's code, such as `NoSuchKey`, or a code of this library, which begins with a
    /// lowercase letter.
    public struct Code: RawRepresentable, Sendable, Hashable {
        /// The code as a string.
        public let rawValue: String

        /// Creates a code from a string.
        public init(rawValue: String) { self.rawValue = rawValue }
    }

    /// The kind of the error.
    public let code: Code
    /// A sentence from the server or this library, without secrets.
    public let message: String
    /// The status of the response; nil without a response.
    public internal(set) var statusCode: Int?
    /// The server's identifier of the request, for support; nil if it sent none.
    public internal(set) var requestID: String?
    /// The name of the bucket.
    public internal(set) var bucket: String?
    /// The key of the object, without the storage's prefix; nil for a request that is not about an object.
    public internal(set) var key: String?
    /// Whether the response has supplied the correct region or time, so that a second request may succeed.
    var isCorrected = false

    /// Creates an error of this library.
    init(_ code: Code, _ message: String, key: String? = nil) {
        self.code = code
        self.message = message
        self.key = key
    }

    static let noDigest = ObjectStorageError(.noDigest, "OpenSSL failed to compute the digest.")

    /// Returns the error with the bucket and key that it concerns.
    func about(bucket: String, key: String?) -> ObjectStorageError {
        var error = self
        error.bucket = self.bucket ?? bucket
        error.key = self.key ?? key
        return error
    }
}

extension ObjectStorageError.Code {
    // MARK: Server codes

    /// The object does not exist.
    public static let noSuchKey = Self(rawValue: "NoSuchKey")
    /// The bucket does not exist.
    public static let noSuchBucket = Self(rawValue: "NoSuchBucket")
    /// The multipart upload does not exist: it was completed or aborted.
    public static let noSuchUpload = Self(rawValue: "NoSuchUpload")
    /// The credentials do not allow the request.
    public static let accessDenied = Self(rawValue: "AccessDenied")
    /// The signature is wrong, because the secret key is wrong.
    public static let signatureDoesNotMatch = Self(rawValue: "SignatureDoesNotMatch")
    /// The clocks of this machine and the server differ too much.
    public static let requestTimeTooSkewed = Self(rawValue: "RequestTimeTooSkewed")
    /// The server is overloaded.
    public static let slowDown = Self(rawValue: "SlowDown")
    /// The server failed.
    public static let internalError = Self(rawValue: "InternalError")
    /// The server timed out waiting for the body.
    public static let requestTimeout = Self(rawValue: "RequestTimeout")
    /// The condition of the request was not met.
    public static let preconditionFailed = Self(rawValue: "PreconditionFailed")
    /// The response has an error status but no code.
    public static let unexplained = Self(rawValue: "unexplained")

    // MARK: Codes of this library

    /// The endpoint, the region or the bucket is invalid.
    public static let invalidConfiguration = Self(rawValue: "invalidConfiguration")
    /// The key is invalid: it is empty, longer than 1,024 bytes, or has a segment `.` or `..`, which URLs cannot
    /// express.
    public static let invalidKey = Self(rawValue: "invalidKey")
    /// The metadata or the content type cannot be sent.
    public static let invalidMetadata = Self(rawValue: "invalidMetadata")
    /// No credentials are available.
    public static let noCredentials = Self(rawValue: "noCredentials")
    /// A file cannot be read.
    public static let unreadableSource = Self(rawValue: "unreadableSource")
    /// A file has changed since the upload began.
    public static let sourceChanged = Self(rawValue: "sourceChanged")
    /// A file is too large for an object.
    public static let sourceTooLarge = Self(rawValue: "sourceTooLarge")
    /// The server's checksum or entity tag does not match the bytes sent, or the received bytes do not match the
    /// server's checksum.
    public static let checksumMismatch = Self(rawValue: "checksumMismatch")
    /// The response lacks required contents, or is too large.
    public static let malformedAnswer = Self(rawValue: "malformedAnswer")
    /// A redirect outside the storage was not followed.
    public static let redirectRefused = Self(rawValue: "redirectRefused")
    /// OpenSSL failed.
    public static let noDigest = Self(rawValue: "noDigest")
}

extension ObjectStorageError: SelfDescribingError {
    /// The code, the message, and the key and bucket that the error concerns, on one line.
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
