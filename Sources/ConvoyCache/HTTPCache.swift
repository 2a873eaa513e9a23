import ConvoyDatabase
import ConvoySupport
import Foundation
import Synchronization

/// A private HTTP cache (RFC 9111): keeps responses to GET, and answers later requests with them, as far as the origin
/// and the request allow it.
///
/// Given to a configuration, it is asked about every request, and every redirect, on the network thread; it never
/// blocks there. Its methods can be called from any thread, and one cache can serve any number of configurations.
///
/// A cache with a directory keeps responses there, and keeps those used last in memory as well. Several processes can
/// share the directory: what one has changed, another sees within a second. Bodies are stored as they came, with their
/// content coding. The directory is readable by its owner only, and the files in it have names that tell nothing.
public final class HTTPCache: Sendable {
    let storage: CacheStorage
    private let handler = Locked<CacheResponseHandler?>(nil)
    private let hasHandler = Atomic<Bool>(false)

    /// A cache in memory, which is forgotten with its object.
    ///
    /// - Parameter memoryCapacity: in bytes, of heads and bodies. A body of more than a quarter of it is not stored.
    public convenience init(memoryCapacity: Int = 32 << 20) {
        self.init(memoryCapacity: memoryCapacity, clock: .system)
    }

    /// A cache in a directory, with what is in it.
    ///
    /// Opening blocks. An index that is damaged, or that another user could have written, is set aside, and the cache
    /// begins anew.
    ///
    /// - Parameters:
    ///   - directory: where; its parent must be there. It is made with the mode 0700. One that is there must be this user's,
    ///     and others must not be able to write to it: they could answer the program's requests.
    ///   - diskCapacity: in bytes, of heads and bodies. A body of more than an eighth of it is not stored.
    ///   - memoryCapacity: in bytes, of heads and small bodies.
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

    /// Decides what is stored; nil to store what RFC 9111 allows. See `CacheResponseHandler` for where it runs. It is
    /// asked about new responses, not about those that the origin has confirmed.
    public var responseHandler: CacheResponseHandler? {
        get { handler.withLock { $0 } }
        set {
            handler.withLock { $0 = newValue }
            hasHandler.store(newValue != nil, ordering: .releasing)
        }
    }

    // MARK: Numbers

    /// How many bytes are in memory. An estimate.
    public var currentMemoryUsage: Int { storage.memoryUsage }

    /// How many bytes of heads and bodies are in the directory; 0 without one. Blocks until what is pending is written.
    public var currentDiskUsage: Int64 {
        guard let disk = storage.disk else { return 0 }
        return disk.queue.sync {
            disk.write()
            return disk.usage
        }
    }

    /// How many requests were answered by stored responses, without asking the origin.
    public var hits: Int { storage.counts.hits.load(ordering: .relaxed) }

    /// How many requests found nothing that could be used.
    public var misses: Int { storage.counts.misses.load(ordering: .relaxed) }

    /// How many stored responses the origin has confirmed.
    public var validations: Int { storage.counts.validations.load(ordering: .relaxed) }

    /// How many responses were stored.
    public var stores: Int { storage.counts.stores.load(ordering: .relaxed) }

    // MARK: Removing

    /// Removes all responses. Those that are being received meanwhile are not stored.
    public func removeAll() { storage.removeAll() }

    /// Removes the responses that are stored for a URL, whatever request fields they vary by.
    public func remove(for url: URL) { storage.invalidate([CacheAddress.normalized(url.absoluteString)]) }

    /// Removes the responses that arrived, or were last confirmed, at a time or after it. Unless that is yet to come,
    /// those that are being received meanwhile are not stored.
    public func removeStored(since date: Date) {
        let milliseconds = date.timeIntervalSince1970 * 1000
        storage.removeStored(since: Int64(exactly: max(-1e15, min(milliseconds, 1e15)).rounded(.down)) ?? 0)
    }

    // MARK: The disk

    /// Waits until everything that has been stored or removed is in the directory. Blocks; of no effect without one.
    ///
    /// - Throws: `HTTPCacheError.cannotWrite`, if something could not be written.
    public func flush() throws(HTTPCacheError) {
        guard let disk = storage.disk else { return }
        disk.bodies.sync {}
        disk.queue.sync { disk.write() }
        if let failure { throw failure }
    }

    /// Why something could not be written or read the last time; nil if it could, or if there is no directory. What the
    /// disk does not take is not stored; requests go to the network.
    public var failure: HTTPCacheError? {
        storage.disk?.failure.map {
            $0.code == .unsafe ? .isUnsafe($0.path, reason: $0.text) : .cannotWrite($0.path, reason: $0.text)
        }
    }
}

extension HTTPCache {
    /// Begins an exchange. Never blocks.
    ///
    /// - Parameter handler: decides what is stored; nil for the cache's own `responseHandler`.
    package func exchange(for request: CacheRequest, handler: CacheResponseHandler? = nil) -> CacheExchange {
        CacheExchange(storage, request, handler ?? (hasHandler.load(ordering: .acquiring) ? responseHandler : nil))
    }
}

extension HTTPCache: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
