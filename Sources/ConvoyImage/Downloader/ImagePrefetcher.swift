#if Images
import ConvoySupport
import Foundation

/// Loads images into memory before they are needed, and yields to those that are.
///
/// Its loads have the lowest priority, and only few of them run at a time, so that there is a slot for what is on the
/// screen. When such an image is asked for by ``ImageDownloader/load(_:on:progress:preview:completion:)``, that load
/// joins the prefetched one and gives it its own priority.
public final class ImagePrefetcher: Sendable {
    private struct State {
        /// The requests that have not begun, in their order.
        var waiting = LinkedLists<(key: ImageCacheKey, request: ImageRequest)>()
        var places: [ImageCacheKey: Int] = [:]
        var running: [ImageCacheKey: ImageDownloadReceipt?] = [:]
    }

    private let downloader: ImageDownloader
    private let limit: Int
    private let state = Locked(State())

    /// Makes a prefetcher.
    ///
    /// - Parameters:
    ///   - downloader: loads the images. Without a memory cache nothing is prefetched.
    ///   - maximumActiveDownloads: how many images it loads at the same time; at least 1.
    public init(downloader: ImageDownloader = .default, maximumActiveDownloads: Int = 2) {
        self.downloader = downloader
        limit = max(1, maximumActiveDownloads)
    }

    deinit { cancelAll() }

    /// How many images have been asked for and are not loaded yet.
    public var count: Int { state.withLock { $0.waiting.count + $0.running.count } }

    /// Loads images, in this order, unless they are in memory already, or asked for.
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

    /// Does not load these images any more. What was loaded stays in memory.
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

    /// Does not load any of the images any more.
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
            // Before it begins, as it may end at once.
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
