import ConvoyDatabase
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// A private HTTP cache (RFC 9111), which stores responses to GET and answers later requests with them if the origin
/// and the request allow it.
///
/// A configuration with a cache consults it for every request and redirect, on the network thread, without blocking it.
/// The methods of a cache can be called on any thread, and any number of configurations can share a cache.
///
/// A cache with a directory stores responses there, and the recently used ones in memory as well. Several processes can
/// share the directory: each detects changes by the others within a second. Bodies are stored as received, with their
/// content coding. Only the owner can read the directory, and its file names reveal nothing about the requests.
public final class HTTPCache: Sendable {
    let storage: CacheStorage
    private let handler = Locked<CacheResponseHandler?>(nil)
    private let hasHandler = Atomic<Bool>(false)

    /// Creates a cache in memory, whose contents are lost with this object.
    ///
    /// - Parameter memoryCapacity: The maximum size of heads and bodies, in bytes. A body larger than a quarter of it
    ///   is not stored.
    public convenience init(memoryCapacity: Int = 32 << 20) {
        self.init(memoryCapacity: memoryCapacity, clock: .system)
    }

    /// Opens a cache in a directory, with its stored responses.
    ///
    /// Blocks. An index that is damaged, or that another user could have written, is replaced by an empty one.
    ///
    /// - Parameters:
    ///   - directory: The directory, created with mode 0700 if it does not exist; its parent must exist. An existing
    ///     directory must belong to this user and not be writable by others, who could answer the program's requests.
    ///   - diskCapacity: The maximum size of heads and bodies, in bytes. A body larger than an eighth of it is not
    ///     stored.
    ///   - memoryCapacity: The maximum size of heads and small bodies in memory, in bytes.
    /// - Throws: `HTTPCacheError`, if the directory cannot be used.
    public convenience init(
        directory: URL, diskCapacity: Int64 = 256 << 20, memoryCapacity: Int = 16 << 20
    ) throws(HTTPCacheError) {
        try self.init(
            directory: directory, diskCapacity: diskCapacity, memoryCapacity: memoryCapacity, clock: .system)
    }

    init(memoryCapacity: Int, clock: CacheClock) {
        storage = CacheStorage(memoryCapacity: memoryCapacity, disk: nil, clock: clock)
    }

    init(
        directory: URL, diskCapacity: Int64, memoryCapacity: Int, clock: CacheClock
    ) throws(HTTPCacheError) {
        let files = CacheDirectory(path: directory.path)
        do throws(PrivateFile.Failure) {
            try files.create()
        } catch {
            switch error {
            case .system(let error): throw .cannotOpen(directory.path, reason: error.text)
            case .unsafe(.notDirectory): throw .cannotOpen(directory.path, reason: error.reason)
            case .unsafe(let flaw): throw .isUnsafe(directory.path, reason: flaw.reason)
            }
        }
        do throws(DatabaseError) {
            let disk = try DiskStore(files, capacity: diskCapacity)
            storage = CacheStorage(memoryCapacity: memoryCapacity, disk: disk, clock: clock)
        } catch {
            switch error.code {
            case .foreign, .newer: throw .isForeign(error.path)
            case .unsafe: throw .isUnsafe(error.path, reason: error.text)
            default: throw .cannotOpen(error.path, reason: error.text)
            }
        }
    }

    /// The handler that decides what is stored; nil stores what RFC 9111 allows. The handler is called for new
    /// responses, not for stored ones that the origin has confirmed. See `CacheResponseHandler` for the threads on
    /// which it runs.
    public var responseHandler: CacheResponseHandler? {
        get { handler.withLock { $0 } }
        set {
            handler.withLock { $0 = newValue }
            hasHandler.store(newValue != nil, ordering: .releasing)
        }
    }

    // MARK: Statistics

    /// The estimated memory usage, in bytes.
    public var currentMemoryUsage: Int { storage.memoryUsage }

    /// The size of heads and bodies in the directory, in bytes; 0 without one. Blocks until pending changes are
    /// written.
    public var currentDiskUsage: Int64 {
        guard let disk = storage.disk else { return 0 }
        return disk.queue.sync {
            disk.write()
            return disk.usage
        }
    }

    /// The number of requests answered by stored responses without contacting the origin.
    public var hits: Int { storage.counts.hits.load(ordering: .relaxed) }

    /// The number of requests without a usable response.
    public var misses: Int { storage.counts.misses.load(ordering: .relaxed) }

    /// The number of times that the origin has confirmed a stored response.
    public var validations: Int { storage.counts.validations.load(ordering: .relaxed) }

    /// The number of stored responses.
    public var stores: Int { storage.counts.stores.load(ordering: .relaxed) }

    // MARK: Removing

    /// Removes all responses. The responses to running requests are not stored.
    public func removeAll() { storage.removeAll() }

    /// Removes the stored responses for a URL, whatever request fields they vary by.
    public func remove(for url: URL) { storage.invalidate([CacheAddress.normalized(url.absoluteString)]) }

    /// Removes the responses that arrived, or were last confirmed, at or after a time. Unless the time is in the
    /// future, the responses to running requests are not stored.
    public func removeStored(since date: Date) {
        let milliseconds = date.timeIntervalSince1970 * 1000
        storage.removeStored(since: Int64(exactly: max(-1e15, min(milliseconds, 1e15)).rounded(.down)) ?? 0)
    }

    // MARK: The disk

    /// Waits until all changes are written to the directory, including for other processes that are writing, up to
    /// about ten seconds. Blocks; has no effect without a directory.
    ///
    /// - Throws: `HTTPCacheError.cannotWrite` if a change could not be written.
    public func flush() throws(HTTPCacheError) {
        guard let disk = storage.disk else { return }
        disk.bodies.sync {}
        while !disk.queue.sync(execute: { disk.write() }) {}
        if let failure { throw failure }
    }

    /// The failure of the last access to the directory; nil if it succeeded or the cache has no directory. While the
    /// disk fails, nothing is stored and requests go to the network.
    public var failure: HTTPCacheError? {
        storage.disk?.failure.map {
            $0.code == .unsafe ? .isUnsafe($0.path, reason: $0.text) : .cannotWrite($0.path, reason: $0.text)
        }
    }
}

extension HTTPCache {
    /// Begins an exchange. Never blocks.
    ///
    /// - Parameter handler: The handler that decides what is stored; nil for the cache's own `responseHandler`.
    package func exchange(for request: CacheRequest, handler: CacheResponseHandler? = nil) -> CacheExchange {
        CacheExchange(storage, request, handler ?? (hasHandler.load(ordering: .acquiring) ? responseHandler : nil))
    }
}

extension HTTPCache: OpaqueReflectable {}

extension HTTPCache {
    /// The largest body, in bytes, that `cachedResponse(for:)` returns, because a `CachedURLResponse` holds it in
    /// memory.
    public static let cachedResponseLimit = 1 << 20

    /// Returns the stored response for a request, even a stale one.
    ///
    /// The bytes are those that were stored: if the response has a `Content-Encoding`, they are encoded. If the
    /// response varies by fields, only those that the request has are compared, because the fields added on sending are
    /// not known here. Only responses to requests without credentials are found: a request with a secret field, such as
    /// `Authorization`, `Cookie` or `X-Api-Key`, gets nil.
    ///
    /// - Returns: The response; nil if nothing is stored, or if the body has more than `cachedResponseLimit` bytes or
    ///   cannot be read.
    public func cachedResponse(for request: URLRequest) async -> CachedURLResponse? {
        guard let request = CacheRequest(request, policy: .storedOnly) else { return nil }
        let stored = await withCheckedContinuation { continuation in
            CacheExchange(storage, request, nil).lookUpLeniently { continuation.resume(returning: $0) }
        }
        guard let stored, stored.length <= Self.cachedResponseLimit else { return nil }
        let result = await withCheckedContinuation { continuation in
            stored.read(at: 0, count: stored.length) { continuation.resume(returning: $0) }
        }
        guard case .success(let bytes) = result, let url = URL(string: request.address),
            let response = HTTPURLResponse(url, stored.head.statusCode, stored.head.allFields)
        else { return nil }
        return CachedURLResponse(
            response: response, data: Data(bytes), userInfo: stored.userInfo.isEmpty ? nil : stored.userInfo,
            storagePolicy: .allowed)
    }

    /// Stores a response as if it had just arrived. RFC 9111 decides whether it may be stored, and how long it is
    /// fresh; only strings in its `userInfo` are kept. A response to a request with a secret field is not stored,
    /// because the stored response would answer requests of other identities.
    ///
    /// - Returns: Whether the response was stored.
    @discardableResult
    public func store(_ response: CachedURLResponse, for request: URLRequest) async -> Bool {
        guard response.storagePolicy != .notAllowed, let head = response.response as? HTTPURLResponse,
            let request = CacheRequest(request, policy: .reload)
        else { return false }
        let fields: Fields = head.allHeaderFields.compactMap { name, value in
            guard let name = name as? String, let value = value as? String else { return nil }
            return (name, value)
        }
        let userInfo = (response.userInfo ?? [:]).reduce(into: [String: String]()) { texts, pair in
            if let key = pair.key as? String, let value = pair.value as? String { texts[key] = value }
        }
        let handler: CacheResponseHandler = { candidate in
            var candidate = candidate
            candidate.userInfo = userInfo
            return candidate
        }
        let exchange = CacheExchange(storage, request, userInfo.isEmpty ? nil : handler)
        guard case .store(let writer) = exchange.receive(CachedHead(statusCode: head.statusCode, fields: fields))
        else { return false }
        response.data.withUnsafeBytes { writer.write($0) }
        guard let writer = writer as? CacheWriter else { return false }
        return await withCheckedContinuation { continuation in writer.complete { continuation.resume(returning: $0) } }
    }

    /// Removes the stored responses for the URL of a request, whatever fields they vary by.
    public func remove(for request: URLRequest) {
        if let url = request.url { remove(for: url) }
    }
}

extension CacheCandidate {
    /// The response as Foundation's type, as in AFNetworking's block; nil if the body has more than `dataLimit` bytes.
    /// Reading the body may block. The bytes are as received: with the content coding that the fields name.
    public var cachedURLResponse: CachedURLResponse? {
        guard let url, let data, let response = HTTPURLResponse(url, statusCode, fields) else { return nil }
        return CachedURLResponse(
            response: response, data: data, userInfo: userInfo.isEmpty ? nil : userInfo, storagePolicy: .allowed)
    }
}

extension HTTPURLResponse {
    fileprivate convenience init?(_ url: URL, _ statusCode: Int, _ fields: [(name: String, value: String)]) {
        self.init(
            url: url, statusCode: statusCode, httpVersion: "HTTP/1.1",
            headerFields: Dictionary(fields.map { ($0.name, $0.value) }) { "\($0), \($1)" })
    }
}

extension CacheRequest {
    /// - Returns: Nil for a request without a URL, and for one with credentials.
    init?(_ request: URLRequest, policy: CachePolicy) {
        guard let address = request.url?.absoluteString,
            request.allHTTPHeaderFields?.keys.contains(where: SecretClassifier.standard.contains) != true
        else { return nil }
        self.init(
            method: request.httpMethod ?? "GET", address: address,
            fields: (request.allHTTPHeaderFields ?? [:]).map { ($0.key, $0.value) }, policy: policy, partition: "",
            hasBody: request.httpBody != nil || request.httpBodyStream != nil)
    }
}

/// The cache's interface for the transport.
extension HTTPCache: ResponseCache {
    package func begin(_ request: CacheRequest) -> any ResponseCacheExchange { exchange(for: request) }

    package var salt: String { storage.salt }
}

/// The errors of an `HTTPCache` that cannot use its directory.
public enum HTTPCacheError: Error, Sendable, Hashable {
    /// The directory, or the index in it, cannot be created or opened. The values are its path and the reason.
    case cannotOpen(String, reason: String)
    /// The database at this path belongs to another program, or to a newer version of this library. It was not changed.
    case isForeign(String)
    /// A write failed. The response was not stored; the cache stays usable. The values are the path of the cache and
    /// the reason.
    case cannotWrite(String, reason: String)
    /// Another user owns the directory or can change its contents, so the cache refuses it. The values are its path and
    /// the reason.
    case isUnsafe(String, reason: String)
}

extension HTTPCacheError: CustomStringConvertible {
    /// A sentence that describes the error.
    public var description: String {
        switch self {
        case .cannotOpen(let path, let reason): "The cache cannot be opened at \(path): \(reason)"
        case .isForeign(let path):
            "The file \(path) belongs to another program or to a newer version, and was left "
                + "unchanged."
        case .isUnsafe(let path, let reason): "The cache at \(path) is not used because it cannot be trusted: \(reason)"
        case .cannotWrite(let path, let reason): "The cache cannot be written at \(path): \(reason)"
        }
    }
}
