#if Images
import ConvoySupport
import Foundation
import FoundationNetworking

/// A memory cache of decoded images, in the forms in which they were requested. The counterpart of
/// `AFAutoPurgingImageCache`.
///
/// The cache counts the bytes of the decoded pixels. When they exceed ``memoryCapacity``, the least recently used
/// images are removed until ``preferredMemoryUsageAfterPurge`` is reached. When the system runs short of memory, all
/// images are removed; visible images stay, because their widgets retain them.
///
/// Images that an ``ImageDownloader`` loaded for a user (with credentials, cookies or a certificate) are returned only
/// by ``ImageDownloader/cachedImage(for:)`` of a downloader that sends requests as the same user, and not by
/// ``image(for:)``. The methods that remove images remove such images as well.
///
/// All members can be used from any thread. Lookup and insertion take constant time.
public final class ImageCache: Sendable {
    /// The maximum total size of the pixels, in bytes.
    public let memoryCapacity: Int
    /// The maximum total size of the pixels after a purge, in bytes.
    public let preferredMemoryUsageAfterPurge: Int

    fileprivate struct Entry {
        let key: ImageCacheKey
        var image: Image
        var byteCount: Int
        var tag: String?
        /// The time after which the image must be revalidated; nil for never.
        var expiry: MonotonicTime?
    }

    fileprivate struct Contents {
        /// The entries, from least to most recently used.
        var entries = LinkedLists<Entry>()
        var places: [ImageCacheKey: Int] = [:]
        var placesByURL: [String: Set<Int>] = [:]
        var placesByTag: [String: Set<Int>] = [:]
        var memoryUsage = 0
    }

    private let contents = Locked(Contents())
    private let pressure = Locked<MemoryPressure.Subscription?>(nil)

    /// Creates an empty cache.
    ///
    /// - Parameters:
    ///   - memoryCapacity: The capacity in bytes. An image larger than this is not cached.
    ///   - preferredMemoryUsageAfterPurge: The size in bytes to which a purge reduces the cache; at most the capacity.
    ///   - respondsToMemoryPressure: Whether to empty the cache when the system runs short of memory. All such caches
    ///     share one thread.
    public convenience init(
        memoryCapacity: Int = 100 << 20, preferredMemoryUsageAfterPurge: Int = 60 << 20,
        respondsToMemoryPressure: Bool = true
    ) {
        self.init(
            memoryCapacity: memoryCapacity, preferredMemoryUsageAfterPurge: preferredMemoryUsageAfterPurge,
            pressure: respondsToMemoryPressure ? .shared : nil)
    }

    /// Creates an empty cache with a source of memory pressure reports.
    ///
    /// - Parameter pressure: The source of memory pressure reports; nil for none.
    package init(memoryCapacity: Int, preferredMemoryUsageAfterPurge: Int, pressure: MemoryPressure?) {
        self.memoryCapacity = max(0, memoryCapacity)
        self.preferredMemoryUsageAfterPurge = max(0, min(preferredMemoryUsageAfterPurge, memoryCapacity))
        guard let pressure else { return }
        let subscription = pressure.subscribe { [weak self] in self?.removeAll() }
        self.pressure.withLock { $0 = subscription }
    }

    /// The state of the cache's subscription to memory pressure.
    package var memoryPressureWatch: MemoryPressureWatch { pressure.withLock { $0 }?.watch ?? .off }

    // MARK: Usage

    /// The size of the cached pixels, in bytes.
    public var memoryUsage: Int { contents.withLock { $0.memoryUsage } }

    /// The number of images.
    public var count: Int { contents.withLock { $0.entries.count } }

    // MARK: Images

    /// Returns the cached image for a request, in its form, and marks it as used. Returns nil if the image is missing
    /// or stale, or if the request's cache policy ignores local data.
    public func image(for request: ImageRequest) -> Image? {
        guard request.urlRequest.mayUseMemory else { return nil }
        return image(for: ImageCacheKey(request), acceptsStale: request.urlRequest.acceptsStaleImages)
    }

    /// Stores an image for a request, in its form and with its tag, replacing an earlier one.
    public func insert(_ image: Image, for request: ImageRequest) {
        insert(image, for: ImageCacheKey(request), tag: request.cacheTag, lifetime: nil)
    }

    /// Removes the cached image for a request, in its form.
    ///
    /// - Returns: Whether an image was removed.
    @discardableResult
    public func removeImage(for request: ImageRequest) -> Bool {
        let key = ImageCacheKey(request)
        return remove { $0.places[key].map { [$0] } ?? [] } > 0
    }

    /// Removes the images for a URL, in all forms and for all requests.
    ///
    /// - Returns: The number of images removed.
    @discardableResult
    public func removeImages(for url: URL) -> Int {
        remove { $0.placesByURL[url.absoluteString] ?? [] }
    }

    /// Removes the images with a tag.
    ///
    /// - Returns: The number of images removed.
    @discardableResult
    public func removeImages(taggedWith tag: String) -> Int {
        remove { $0.placesByTag[tag] ?? [] }
    }

    /// Removes all images.
    public func removeAll() {
        let old = contents.withLock { contents in
            defer { contents = Contents() }
            return contents
        }
        withExtendedLifetime(old) {}
    }

    // MARK: Implementation

    func image(for key: ImageCacheKey, acceptsStale: Bool = false) -> Image? {
        let now = MonotonicClock.now
        return contents.withLock { contents in
            guard let place = contents.places[key], let entry = contents.entries[place] else { return nil }
            if let expiry = entry.expiry, expiry <= now, !acceptsStale { return nil }
            contents.entries.move(place)
            return entry.image
        }
    }

    /// Returns the smallest cached image that has at least as many pixels as the key's size requires, or all that exist,
    /// and at most twice as many in each direction, and the size to which it is reduced.
    func image(
        covering key: ImageCacheKey, _ mode: ImageContentMode, acceptsStale: Bool
    ) -> (image: Image, limit: ImageSize?)? {
        guard let needed = key.size else { return nil }
        let now = MonotonicClock.now
        return contents.withLock { contents in
            var best: (place: Int, entry: Entry)?
            for place in contents.placesByURL[key.url.text] ?? [] {
                guard let entry = contents.entries[place], entry.key.differsOnlyInSize(from: key) else { continue }
                if let expiry = entry.expiry, expiry <= now, !acceptsStale { continue }
                if let size = entry.key.size, size.width < needed.width || size.height < needed.height,
                    !entry.image.size.isWhole(below: size, mode)
                {
                    continue
                }
                guard entry.image.width <= 2 * needed.limiting(entry.image.size, mode).width else { continue }
                if let best, best.entry.image.width <= entry.image.width { continue }
                best = (place, entry)
            }
            guard let best else { return nil }
            contents.entries.move(best.place)
            return (best.entry.image, best.entry.key.size)
        }
    }

    /// Stores an image for a key, replacing an earlier one.
    ///
    /// - Parameter lifetime: The time in seconds until the image must be revalidated; nil for no limit.
    func insert(_ image: Image, for key: ImageCacheKey, tag: String?, lifetime: TimeInterval?) {
        let entry = Entry(
            key: key, image: image, byteCount: image.byteCount, tag: tag,
            expiry: lifetime.map { Nanoseconds.deadline($0, after: MonotonicClock.now) })
        // Release the removed entries outside the lock.
        let removed = contents.withLock { contents in
            var removed: [Entry] = []
            if let place = contents.places[key], let old = contents.remove(place) { removed.append(old) }
            guard entry.byteCount <= memoryCapacity else { return removed }
            let place = contents.add(entry)
            guard contents.memoryUsage > memoryCapacity else { return removed }
            while contents.memoryUsage > preferredMemoryUsageAfterPurge, let oldest = contents.entries.first(),
                oldest != place, let old = contents.remove(oldest)
            {
                removed.append(old)
            }
            return removed
        }
        withExtendedLifetime(removed) {}
    }

    private func remove(_ choose: (Contents) -> Set<Int>) -> Int {
        let removed = contents.withLock { contents in
            var removed: [Entry] = []
            for place in choose(contents) {
                if let old = contents.remove(place) { removed.append(old) }
            }
            return removed
        }
        return removed.count
    }
}

extension ImageCache.Contents {
    fileprivate mutating func add(_ entry: ImageCache.Entry) -> Int {
        let place = entries.append(entry)
        places[entry.key] = place
        placesByURL[entry.key.url.text, default: []].insert(place)
        if let tag = entry.tag { placesByTag[tag, default: []].insert(place) }
        memoryUsage += entry.byteCount
        return place
    }

    fileprivate mutating func remove(_ place: Int) -> ImageCache.Entry? {
        guard let entry = entries.remove(place) else { return nil }
        places[entry.key] = nil
        ImageCache.Contents.remove(place, from: &placesByURL, entry.key.url.text)
        if let tag = entry.tag { ImageCache.Contents.remove(place, from: &placesByTag, tag) }
        memoryUsage -= entry.byteCount
        return entry
    }

    private static func remove(_ place: Int, from index: inout [String: Set<Int>], _ name: String) {
        index[name]?.remove(place)
        if index[name]?.isEmpty == true { index[name] = nil }
    }
}

/// The key of a cached image: the request, the user for whom it is sent, and the form of the image.
struct ImageCacheKey: Hashable, Sendable {
    let url: ExactString
    private let headers: [String: ExactString]
    private let identity: Identity?
    private let form: ExactString
    /// The size to which the image is reduced; nil for full size.
    private(set) var size: ImageSize?

    /// Creates the key of a request that a manager sends.
    ///
    /// - Parameter fields: The request's own header fields, without those that are common to all requests.
    init(_ url: URL, fields: [String: String], identity: Identity?, _ image: ImageRequest) {
        self.url = ExactString(url.absoluteString)
        headers = Dictionary(
            fields.map { ($0.key.lowercased(), ExactString($0.value)) }, uniquingKeysWith: { _, last in last })
        self.identity = identity?.isEmpty == true ? nil : identity
        form = ExactString(image.formWithoutSize)
        size = image.size
    }

    /// The form of a reduced image that is the same for everyone; nil for full size, and if the request has a user or
    /// header fields.
    var sharedForm: String? {
        guard let size, identity == nil, headers.isEmpty else { return nil }
        return "\(size.width)x\(size.height) \(form.text)"
    }

    /// Returns whether another key is for the same image, in a form that differs at most in its size.
    func differsOnlyInSize(from other: ImageCacheKey) -> Bool {
        var key = other
        key.size = size
        return self == key
    }

    /// Creates the key of a request that does not come from a downloader. The request's header fields identify the
    /// user.
    init(_ request: ImageRequest) {
        self.init(
            request.urlRequest.url ?? URL(fileURLWithPath: "/"), fields: request.urlRequest.allHTTPHeaderFields ?? [:],
            identity: nil, request)
    }
}

extension URLRequest {
    /// Whether the cache policy allows the use of images from memory.
    var mayUseMemory: Bool {
        switch cachePolicy {
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData, .reloadRevalidatingCacheData: false
        default: true
        }
    }

    /// Whether the cache policy accepts cached data of any age.
    var acceptsStaleImages: Bool { cachePolicy == .returnCacheDataElseLoad || cachePolicy == .returnCacheDataDontLoad }
}

extension ImageRequest {
    /// A string that uniquely identifies the form of the image.
    var form: String { "\(size.map { "\($0.width)x\($0.height)" } ?? "-") \(formWithoutSize)" }

    fileprivate var formWithoutSize: String {
        "\(contentMode == .fit ? "fit" : "fill") \(allowsAnimation ? "a" : "s") \(ImageComposition.list(processors))"
    }

    /// Returns whether both requests are for the same image in the same form, and have the same cache policy.
    package func isSame(as other: ImageRequest) -> Bool {
        ImageCacheKey(self) == ImageCacheKey(other) && urlRequest.cachePolicy == other.urlRequest.cachePolicy
    }
}
#endif
