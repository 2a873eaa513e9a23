import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// A bucket of S3-compatible object storage, or a prefix in it, that stores data and files.
///
/// ```swift
/// var configuration = ObjectStorage.Configuration(endpoint: endpoint, region: "eu-central-1", bucket: "exports")
/// configuration.prefix = "2026/"
/// let storage = try ObjectStorage(configuration)
/// try await storage.put(fileAt: file, key: "report.pdf")
/// let data = try await storage.get("report.pdf")
/// ```
///
/// Each request is an operation of the `manager`, with its limits, retries, proxies and monitors, but without its
/// cookies, credentials, authenticator and cache. It is signed (AWS Signature Version 4) when it is sent, and again for
/// each retry. Bodies are signed by their SHA-256 digest, which requires reading a file twice.
///
/// If a server rejects the time of a signature, the storage adopts the `Date` of its response; if it names another
/// region, the storage adopts the region. The request is then sent again once. A redirect is followed, with a new
/// signature, only to the endpoint, to the bucket below it, or from one of Amazon's S3 endpoints to another, and never
/// from https to http.
///
/// All members can be used on any thread.
public final class ObjectStorage: Sendable {
    /// The location of the bucket in URLs.
    public enum Addressing: Sendable, Hashable {
        /// The bucket is part of the path: `https://host/bucket/key`.
        case path
        /// The bucket is part of the host: `https://bucket.host/key`. Amazon uses this form. Over TLS, the name of the
        /// bucket must not contain a dot.
        case virtualHost
    }

    /// The field with the digest of a body, from which the server detects damaged bytes, and which it may store.
    public enum ChecksumField: Sendable, Hashable {
        /// No field. Only the signature covers the body.
        case none
        /// `x-amz-checksum-sha256`.
        case sha256
        /// `Content-MD5` (RFC 1864), for servers that do not support the other field.
        case md5
    }

    /// The settings of a storage.
    public struct Configuration: Sendable {
        /// The http or https URL of the service, such as `https://s3.eu-central-1.amazonaws.com`, without the bucket.
        public var endpoint: URL
        /// The region for which requests are signed; often `us-east-1` on servers other than Amazon's.
        public var region: String
        /// The name of the bucket.
        public var bucket: String
        /// The prefix of all keys, such as `exports/`, omitted from results. Empty by default.
        public var prefix = ""
        /// The location of the bucket in URLs. The default is ``ObjectStorage/Addressing/path``.
        public var addressing = Addressing.path
        /// The field for the digest of each body. The default is ``ObjectStorage/ChecksumField/sha256``.
        public var checksum = ChecksumField.sha256
        /// The retry policy; nil for no retries. The default allows three retries, including of POST requests:
        /// completing an upload can be repeated, and an upload that was begun twice leaves only an empty one behind.
        public var retryPolicy: RetryPolicy? = {
            var policy = RetryPolicy()
            policy.idempotentMethods.insert("POST")
            return policy
        }()
        /// The size, in bytes, from which ``ObjectStorage/put(fileAt:key:contentType:metadata:condition:)`` sends a file in
        /// parts. The default is 64 MiB.
        public var multipartThreshold: Int64 = 64 << 20
        /// The size of a part, in bytes, at least 5 MiB. The default is 16 MiB. It is increased for files that would
        /// have more than 10,000 parts.
        public var partSize: Int64 = 16 << 20
        /// The maximum number of concurrent parts. The default is 4.
        public var concurrentParts = 4
        /// The maximum size of an XML document, in bytes. The default is 8 MiB.
        public var maximumAnswerSize = 8 << 20

        /// Creates settings for a bucket.
        public init(endpoint: URL, region: String, bucket: String) {
            self.endpoint = endpoint
            self.region = region
            self.bucket = bucket
        }
    }

    /// The settings.
    public let configuration: Configuration
    /// The manager that creates and runs the operations.
    public let manager: HTTPRequestOperationManager
    let place: StoragePlace

    /// Creates a storage.
    ///
    /// - Parameters:
    ///   - configuration: The bucket, and the settings of its requests.
    ///   - credentials: The provider that is called whenever a request is signed; by default, the environment's.
    ///   - manager: The manager of the operations. By default a new one, whose `completionQueue` is
    ///     a queue of the library.
    /// - Throws: ``ObjectStorageError/Code/invalidConfiguration``.
    public init(
        _ configuration: Configuration, credentials: ObjectStorageCredentialProvider = .environment,
        manager: HTTPRequestOperationManager? = nil
    ) throws(ObjectStorageError) {
        self.configuration = configuration
        self.manager =
            manager ?? HTTPRequestOperationManager(completionQueue: DispatchQueue(label: "Convoy.ObjectStorage"))
        place = StoragePlace(
            endpoint: try StorageEndpoint(configuration), credentials: credentials,
            answerLimit: configuration.maximumAnswerSize)
    }

    // MARK: URLs

    /// Returns the URL of an object, without a signature.
    ///
    /// - Throws: ``ObjectStorageError/Code/invalidKey``.
    public func url(for key: String) throws(ObjectStorageError) -> URL {
        try place.url(place.endpoint.address(of: try whole(key), in: place.region), query: "")
    }

    /// Returns a signed URL, with which the object can be fetched, or stored with PUT, without credentials. It is a
    /// secret until it expires. Calls the credential provider on this thread.
    ///
    /// A `DownloadOperation` for it can resume a download that was started with an earlier URL of the same object.
    ///
    /// - Parameters:
    ///   - key: The key of the object.
    ///   - method: The method for which the URL is valid; on most servers, GET also allows HEAD.
    ///   - seconds: The validity, from 1 to 604,800 seconds (a week).
    /// - Throws: An ``ObjectStorageError``, or the error of the provider.
    public func presignedURL(
        for key: String, method: HTTPMethod = .get, expiresIn seconds: Int = 3600
    ) throws -> URL {
        guard 1...604_800 ~= seconds else {
            throw ObjectStorageError(
                .invalidConfiguration,
                "A presigned URL can be valid for 1 to 604,800 seconds, not \(seconds).", key: key)
        }
        let region = place.region
        let address = place.endpoint.address(of: try whole(key), in: region)
        guard let parsed = HTTPAddress(address) else {
            throw ObjectStorageError(.invalidKey, "The key cannot be represented in a URL.", key: key)
        }
        let signature = SignatureV4(
            credentials: try place.credentials.credentials(), region: region, date: place.memory.now)
        let query = try signature.presignedQuery(
            method: method.rawValue, path: String(parsed.afterAuthority), query: "",
            headers: [("host", parsed.target.authority)], seconds: seconds)
        return try place.url(address, query: query)
    }

    /// Returns the key with the prefix.
    func whole(_ key: String) throws(ObjectStorageError) -> String {
        let whole = configuration.prefix + key
        let segments = PathText.components(of: whole)
        guard !key.isEmpty, whole.utf8.count <= 1024, !segments.contains("."), !segments.contains("..") else {
            throw ObjectStorageError(
                .invalidKey, "A key must have 1 to 1,024 bytes and no segment \".\" or \"..\".", key: key)
        }
        return whole
    }
}

extension ObjectStorage: CustomStringConvertible, OpaqueReflectable {
    /// The endpoint, the bucket and the prefix.
    public var description: String {
        "ObjectStorage(\(place.endpoint.target) \(place.endpoint.bucket)/\(configuration.prefix))"
    }
}

/// The state shared by all requests to a storage.
struct StoragePlace: Sendable {
    let endpoint: StorageEndpoint
    let credentials: ObjectStorageCredentialProvider
    let answerLimit: Int
    let memory = StorageMemory()

    /// The region of the bucket: the configured one, until the server has named another.
    var region: String { memory.region ?? endpoint.region }

    /// - Parameter query: The encoded query.
    func url(_ address: String, query: String) throws(ObjectStorageError) -> URL {
        guard let url = URL(string: query.isEmpty ? address : "\(address)?\(query)") else {
            throw ObjectStorageError(.invalidKey, "The key cannot be represented in a URL.")
        }
        return url
    }
}
