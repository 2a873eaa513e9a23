#if Images
import ConvoySupport
import Foundation
import FoundationNetworking

/// Decoded images in memory, in the forms in which they were asked for. The counterpart of `AFAutoPurgingImageCache`.
///
/// It counts the bytes of the decoded pixels. When they exceed ``memoryCapacity``, images are removed in the order of
/// their last use until ``preferredMemoryUsageAfterPurge`` is reached, so that the next images need no purge. When the
/// system runs short of memory, all are removed; what is shown then stays, as its widget holds it.
///
/// What an ``ImageDownloader`` has loaded as a user (with credentials, cookies or a certificate) is found by
/// ``ImageDownloader/cachedImage(for:)`` of a downloader that sends requests as the same user, and not by
/// ``image(for:)``; removing works for all.
///
/// All members can be used from any thread; getting and inserting take constant time.
public final class ImageCache: Sendable {
    /// The maximum number of bytes of pixels.
    public let memoryCapacity: Int
    /// How many bytes a purge leaves at most.
    public let preferredMemoryUsageAfterPurge: Int

    fileprivate struct Entry {
        let key: ImageCacheKey
        var image: Image
        var byteCount: Int
        var tag: String?
        /// When the image may no longer be used without asking its server; nil for never.
        var expiry: MonotonicTime?
    }

    fileprivate struct State {
        /// The image that was used last is the last one.
        var entries = LinkedLists<Entry>()
        var places: [ImageCacheKey: Int] = [:]
        var placesByURL: [String: Set<Int>] = [:]
        var placesByTag: [String: Set<Int>] = [:]
        var memoryUsage = 0
    }

    private let state = Locked(State())
    private let pressure = Locked<MemoryPressure.Subscription?>(nil)

    /// Makes an empty cache.
    ///
    /// - Parameters:
    ///   - memoryCapacity: in bytes. An image that alone has more is not kept.
    ///   - preferredMemoryUsageAfterPurge: in bytes; at most the capacity.
    ///   - respondsToMemoryPressure: whether the cache is emptied when the system runs short of memory, which
    ///     ``memoryPressureWatch`` describes. Caches that do share one thread.
    public convenience init(
        memoryCapacity: Int = 100 << 20, preferredMemoryUsageAfterPurge: Int = 60 << 20,
        respondsToMemoryPressure: Bool = true
    ) {
        self.init(
            memoryCapacity: memoryCapacity, preferredMemoryUsageAfterPurge: preferredMemoryUsageAfterPurge,
            pressure: respondsToMemoryPressure ? .shared : nil)
    }

    /// - Parameter pressure: reports a shortage of memory; nil for none.
    package init(memoryCapacity: Int, preferredMemoryUsageAfterPurge: Int, pressure: MemoryPressure?) {
        self.memoryCapacity = max(0, memoryCapacity)
        self.preferredMemoryUsageAfterPurge = max(0, min(preferredMemoryUsageAfterPurge, memoryCapacity))
        guard let pressure else { return }
        let subscription = pressure.subscribe { [weak self] in self?.removeAll() }
        self.pressure.withLock { $0 = subscription }
    }

    /// How the cache learns that the system runs short of memory.
    public var memoryPressureWatch: MemoryPressureWatch { pressure.withLock { $0 }?.watch ?? .off }

    // MARK: Numbers

    /// How many bytes the decoded images take.
    public var memoryUsage: Int { state.withLock { $0.memoryUsage } }

    /// How many images there are.
    public var count: Int { state.withLock { $0.entries.count } }

    // MARK: Images

    /// The image that was kept for a request, in its form; this counts as a use. nil, too, if the request's cache policy
    /// ignores local data, or if the image is no longer fresh.
    public func image(for request: ImageRequest) -> Image? {
        guard request.urlRequest.mayUseMemory else { return nil }
        return image(for: ImageCacheKey(request), acceptsStale: request.urlRequest.acceptsStaleImages)
    }

    /// Keeps an image for a request, in its form and with its tag. It replaces an earlier one.
    public func insert(_ image: Image, for request: ImageRequest) {
        insert(image, for: ImageCacheKey(request), tag: request.cacheTag, lifetime: nil)
    }

    /// Removes the image that was kept for a request, in its form.
    ///
    /// - Returns: whether there was one.
    @discardableResult
    public func removeImage(for request: ImageRequest) -> Bool {
        let key = ImageCacheKey(request)
        return remove { $0.places[key].map { [$0] } ?? [] } > 0
    }

    /// Removes the images for a URL, in all forms, whatever else their requests have.
    ///
    /// - Returns: how many there were.
    @discardableResult
    public func removeImages(for url: URL) -> Int {
        remove { $0.placesByURL[url.absoluteString] ?? [] }
    }

    /// Removes the images with a tag.
    ///
    /// - Returns: how many there were.
    @discardableResult
    public func removeImages(taggedWith tag: String) -> Int {
        remove { $0.placesByTag[tag] ?? [] }
    }

    /// Removes all images.
    public func removeAll() {
        let old = state.withLock { state in
            defer { state = State() }
            return state
        }
        withExtendedLifetime(old) {}
    }

    // MARK: Behind the interface

    func image(for key: ImageCacheKey, acceptsStale: Bool = false) -> Image? {
        let now = MonotonicClock.now
        return state.withLock { state in
            guard let place = state.places[key], let entry = state.entries[place] else { return nil }
            if let expiry = entry.expiry, expiry <= now, !acceptsStale { return nil }
            state.entries.move(place)
            return entry.image
        }
    }

    /// - Parameter lifetime: seconds until the image may no longer be used without asking its server; nil for no limit.
    func insert(_ image: Image, for key: ImageCacheKey, tag: String?, lifetime: TimeInterval?) {
        let entry = Entry(
            key: key, image: image, byteCount: image.byteCount, tag: tag,
            expiry: lifetime.map { Nanoseconds.deadline($0, after: MonotonicClock.now) })
        // Released outside the lock.
        let removed = state.withLock { state in
            var removed: [Entry] = []
            if let place = state.places[key], let old = state.remove(place) { removed.append(old) }
            guard entry.byteCount <= memoryCapacity else { return removed }
            let place = state.add(entry)
            guard state.memoryUsage > memoryCapacity else { return removed }
            while state.memoryUsage > preferredMemoryUsageAfterPurge, let oldest = state.entries.first(), oldest != place,
                let old = state.remove(oldest)
            {
                removed.append(old)
            }
            return removed
        }
        withExtendedLifetime(removed) {}
    }

    private func remove(_ choose: (State) -> Set<Int>) -> Int {
        let removed = state.withLock { state in
            var removed: [Entry] = []
            for place in choose(state) {
                if let old = state.remove(place) { removed.append(old) }
            }
            return removed
        }
        return removed.count
    }
}

extension ImageCache.State {
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
        ImageCache.State.remove(place, from: &placesByURL, entry.key.url.text)
        if let tag = entry.tag { ImageCache.State.remove(place, from: &placesByTag, tag) }
        memoryUsage -= entry.byteCount
        return entry
    }

    private static func remove(_ place: Int, from index: inout [String: Set<Int>], _ name: String) {
        index[name]?.remove(place)
        if index[name]?.isEmpty == true { index[name] = nil }
    }
}

/// What an image is kept by: the request, as whom it is sent, and the form of the image.
struct ImageCacheKey: Hashable, Sendable {
    let url: ExactString
    private let headers: [String: ExactString]
    private let identity: Identity?
    private let form: ExactString

    /// The key of a request that is sent by a manager.
    ///
    /// - Parameter fields: the request's own header fields, without those that are the same for all.
    init(_ url: URL, fields: [String: String], identity: Identity?, form: String) {
        self.url = ExactString(url.absoluteString)
        headers = Dictionary(
            fields.map { ($0.key.lowercased(), ExactString($0.value)) }, uniquingKeysWith: { _, last in last })
        self.identity = identity?.isEmpty == true ? nil : identity
        self.form = ExactString(form)
    }

    /// The key of a request outside a downloader: its own fields say as whom it is sent.
    init(_ request: ImageRequest) {
        self.init(
            request.urlRequest.url ?? URL(fileURLWithPath: "/"), fields: request.urlRequest.allHTTPHeaderFields ?? [:],
            identity: nil, form: request.form)
    }
}

extension URLRequest {
    /// Whether the cache policy allows an image from memory.
    var mayUseMemory: Bool {
        switch cachePolicy {
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData, .reloadRevalidatingCacheData: false
        default: true
        }
    }

    /// Whether the cache policy asks for stored data of any age.
    var acceptsStaleImages: Bool { cachePolicy == .returnCacheDataElseLoad || cachePolicy == .returnCacheDataDontLoad }
}

extension ImageRequest {
    /// The form of the image, in text that differs between forms.
    var form: String {
        let size = size.map { "\($0.width)x\($0.height)" } ?? "-"
        let mode = contentMode == .fit ? "fit" : "fill"
        return "\(size) \(mode) \(allowsAnimation ? "a" : "s") \(ImageComposition.list(processors))"
    }
}
#endif
