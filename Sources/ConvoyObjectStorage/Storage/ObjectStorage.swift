import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// A bucket of an object storage that speaks S3, or a prefix in it, as a place for data and files.
///
/// ```swift
/// var configuration = ObjectStorage.Configuration(endpoint: endpoint, region: "eu-central-1", bucket: "exports")
/// configuration.prefix = "2026/"
/// let storage = try ObjectStorage(configuration)
/// try await storage.put(fileAt: file, key: "report.pdf")
/// let data = try await storage.get("report.pdf")
/// ```
///
/// Each request is an operation of the `manager`, with its limits, retries, proxies and monitors, and without its cookies,
/// credentials, authenticator and cache. It is signed (AWS Signature Version 4) when it is sent, and again with each retry.
/// Bodies are signed by their SHA-256, for which a file is read twice.
///
/// A server that refuses the time of a signature sets the clock of the storage, by the `Date` of its response, and one that
/// names another region sets the region; the request is then sent once more. A redirect is followed, with a new signature,
/// only to the endpoint, to the bucket under it, or, from one of Amazon's S3 endpoints, to another one; never from https
/// to http.
///
/// All members can be used from any thread.
public final class ObjectStorage: Sendable {
    /// How the bucket is named in URLs.
    public enum Addressing: Sendable, Hashable {
        /// In the path: `https://host/bucket/key`.
        case path
        /// In the host: `https://bucket.host/key`. Amazon's form; over TLS, the bucket's name must then have no dot.
        case virtualHost
    }

    /// The field in which the digest of a body is sent, so that the server refuses damaged bytes, and may keep it.
    public enum ChecksumField: Sendable, Hashable {
        /// None: only the signature covers the body.
        case none
        /// `x-amz-checksum-sha256`.
        case sha256
        /// `Content-MD5` (RFC 1864), for servers that do not know the other.
        case md5
    }

    /// The settings of a storage.
    public struct Configuration: Sendable {
        /// The http or https URL of the service, such as `https://s3.eu-central-1.amazonaws.com`, without the bucket.
        public var endpoint: URL
        /// The region for which requests are signed; servers other than Amazon's often have `us-east-1`.
        public var region: String
        /// The bucket.
        public var bucket: String
        /// What all keys begin with, such as `exports/`; it is left out of results. Empty by default.
        public var prefix = ""
        /// How the bucket is named in URLs. ``ObjectStorage/Addressing/path`` by default.
        public var addressing = Addressing.path
        /// How a digest of each body is sent. ``ObjectStorage/ChecksumField/sha256`` by default.
        public var checksum = ChecksumField.sha256
        /// Retries of requests; nil for none. That of three retries by default, for POST too: the completion of an upload
        /// can be repeated, and an upload that was begun twice leaves an empty one.
        public var retryPolicy: RetryPolicy? = {
            var policy = RetryPolicy()
            policy.idempotentMethods.insert("POST")
            return policy
        }()
        /// The size in bytes from which ``ObjectStorage/put(fileAt:key:contentType:metadata:)`` sends a file in parts. 64 MiB
        /// by default.
        public var multipartThreshold: Int64 = 64 << 20
        /// The size of a part in bytes: 16 MiB by default, and at least 5 MiB. Larger for a file that would have more
        /// than 10,000 parts.
        public var partSize: Int64 = 16 << 20
        /// How many parts are sent at a time. 4 by default.
        public var concurrentParts = 4
        /// The largest XML document that is accepted, in bytes. 8 MiB by default.
        public var maximumAnswerSize = 8 << 20

        /// Settings for a bucket.
        public init(endpoint: URL, region: String, bucket: String) {
            (self.endpoint, self.region, self.bucket) = (endpoint, region, bucket)
        }
    }

    /// The settings.
    public let configuration: Configuration
    /// Makes and runs the operations.
    public let manager: HTTPRequestOperationManager
    let place: StoragePlace

    /// A storage.
    ///
    /// - Parameters:
    ///   - configuration: the place, and the settings of its requests.
    ///   - credentials: asked each time that a request is signed. The environment's by default.
    ///   - manager: one of its own by default, with the `completionQueue` of a library's queue.
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

    /// The URL of an object, without a signature.
    ///
    /// - Throws: ``ObjectStorageError/Code/invalidKey``.
    public func url(for key: String) throws(ObjectStorageError) -> URL {
        try place.url(place.endpoint.address(of: try whole(key), in: place.region), query: "")
    }

    /// A URL that carries a signature, with which the object can be fetched, or stored with PUT, without credentials. It is a
    /// secret until it expires. Calls the credential provider, on this thread.
    ///
    /// A `DownloadOperation` for it continues a download that was begun with an earlier URL of the same object.
    ///
    /// - Parameters:
    ///   - key: the object's.
    ///   - method: the one that the URL is for; GET also allows HEAD at most servers.
    ///   - seconds: how long it is valid: from 1 to 604,800, which is a week.
    /// - Throws: an ``ObjectStorageError``, or the error of the provider.
    public func presignedURL(
        for key: String, method: HTTPMethod = .get, expiresIn seconds: Int = 3600
    ) throws -> URL {
        guard 1...604_800 ~= seconds else {
            throw ObjectStorageError(.invalidConfiguration, "A URL is valid for 1 to 604,800 seconds.", key: key)
        }
        let region = place.region
        let address = place.endpoint.address(of: try whole(key), in: region)
        guard let parsed = HTTPAddress(address) else {
            throw ObjectStorageError(.invalidKey, "The key makes no URL.", key: key)
        }
        let signature = SignatureV4(
            credentials: try place.credentials.credentials(), region: region, date: place.memory.now)
        let query = try signature.presignedQuery(
            method: method.rawValue, path: String(parsed.afterAuthority), query: "",
            headers: [("host", parsed.target.authority)], seconds: seconds)
        return try place.url(address, query: query)
    }

    /// The key with the prefix.
    func whole(_ key: String) throws(ObjectStorageError) -> String {
        let whole = configuration.prefix + key
        let segments = PathText.components(of: whole)
        guard !key.isEmpty, whole.utf8.count <= 1024, !segments.contains("."), !segments.contains("..") else {
            throw ObjectStorageError(
                .invalidKey, "A key has 1 to 1,024 bytes, and no segment that is a dot or two.", key: key)
        }
        return whole
    }
}

extension ObjectStorage: CustomStringConvertible, CustomReflectable {
    /// The endpoint, the bucket and the prefix.
    public var description: String {
        "ObjectStorage(\(place.endpoint.target) \(place.endpoint.bucket)/\(configuration.prefix))"
    }

    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// What all requests to a storage share.
struct StoragePlace: Sendable {
    let endpoint: StorageEndpoint
    let credentials: ObjectStorageCredentialProvider
    let answerLimit: Int
    let memory = StorageMemory()

    /// The region of the bucket, as far as it is known.
    var region: String { memory.region ?? endpoint.region }

    /// - Parameter query: encoded.
    func url(_ address: String, query: String) throws(ObjectStorageError) -> URL {
        guard let url = URL(string: query.isEmpty ? address : "\(address)?\(query)") else {
            throw ObjectStorageError(.invalidKey, "The key makes no URL.")
        }
        return url
    }
}
