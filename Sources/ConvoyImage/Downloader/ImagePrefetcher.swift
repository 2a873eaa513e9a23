#if Images
import ConvoySupport
import Foundation

/// A prefetcher that loads images into memory before they are needed, at a lower priority than visible images.
///
/// Prefetching uses the lowest priority and only a few concurrent loads, so that slots remain for visible images. If
/// ``ImageDownloader/load(_:on:progress:preview:completion:)`` requests an image that is being prefetched, the load
/// joins the transfer and raises the transfer's priority to its own.
public final class ImagePrefetcher: Sendable {
    private struct State {
        /// The requests that have not started, in order.
        var waiting = LinkedLists<(key: ImageCacheKey, request: ImageRequest)>()
        var places: [ImageCacheKey: Int] = [:]
        var running: [ImageCacheKey: ImageDownloadReceipt?] = [:]
    }

    private let downloader: ImageDownloader
    private let limit: Int
    private let state = Locked(State())

    /// Creates a prefetcher.
    ///
    /// - Parameters:
    ///   - downloader: The downloader that loads the images. If it has no memory cache, nothing is prefetched.
    ///   - maximumActiveDownloads: The maximum number of concurrent loads; at least 1.
    public init(downloader: ImageDownloader = .default, maximumActiveDownloads: Int = 2) {
        self.downloader = downloader
        limit = max(1, maximumActiveDownloads)
    }

    deinit { cancelAll() }

    /// The number of images that are waiting or loading.
    public var count: Int { state.withLock { $0.waiting.count + $0.running.count } }

    /// Loads images in the given order, except those that are already in memory or requested.
    public func startPrefetching(_ requests: [ImageRequest]) {
        guard downloader.cache != nil else { return }
        for request in requests {
            guard request.urlRequest.mayUseMemory, downloader.cachedImage(for: request) == nil,
                let key = downloader.prepared(request).cacheKey
            else { continue }
            state.withLock { state in
                guard state.places[key] == nil, state.running[key] == nil else { return }
                state.places[key] = state.waiting.append((key, request))
            }
        }
        startWaiting()
    }

    /// Stops prefetching the images of the given requests. Loaded images stay in memory.
    public func stopPrefetching(_ requests: [ImageRequest]) {
        for request in requests {
            guard let key = downloader.prepared(request).cacheKey else { continue }
            let receipt = state.withLock { state -> ImageDownloadReceipt? in
                if let place = state.places.removeValue(forKey: key) { state.waiting.remove(place) }
                return state.running.removeValue(forKey: key) ?? nil
            }
            receipt?.cancel()
        }
        startWaiting()
    }

    /// Stops prefetching all images.
    public func stopAll() { cancelAll() }

    private func cancelAll() {
        let running = state.withLock { state in
            defer { state = State() }
            return state.running.values.compactMap(\.self)
        }
        for receipt in running { receipt.cancel() }
    }

    private func startWaiting() {
        while let (key, request) = next() {
            var request = request
            request.priority = .veryLow
            let receipt = ImageDownloadReceipt(
                downloader, request.priority, .init(completion: { [weak self] _ in self?.didEnd(key) }))
            // Store the receipt before the load begins, because the load may finish immediately.
            let isWanted = state.withLock { state in
                guard state.running[key] != nil else { return false }
                state.running[key] = .some(receipt)
                return true
            }
            if isWanted { downloader.begin(request, receipt) }
        }
    }

    private func next() -> (ImageCacheKey, ImageRequest)? {
        state.withLock { state in
            guard state.running.count < limit, let place = state.waiting.first(),
                let (key, request) = state.waiting.remove(place)
            else { return nil }
            state.places[key] = nil
            state.running[key] = .some(nil)
            return (key, request)
        }
    }

    private func didEnd(_ key: ImageCacheKey) {
        state.withLock { _ = $0.running.removeValue(forKey: key) }
        startWaiting()
    }
}
#endif
