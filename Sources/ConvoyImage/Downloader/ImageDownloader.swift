#if Images
import ConvoyCache
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// A downloader that loads images from memory, from the HTTP cache, or from the network. The counterpart of
/// `AFImageDownloader`.
///
/// ```swift
/// let receipt = ImageDownloader.default.load(
///     ImageRequest(url, size: ImageSize(width: 200, height: 200))
/// ) { result in
///     if case .success(let image) = result { show(image) }
/// }
/// ```
///
/// A limited number of transfers run concurrently; the others wait in order of their priority. All loads of the same
/// image share one transfer, and those with the same size and processors share one decoding as well. Requests are
/// compared by the rules of `coalescesIdenticalRequests`; requests with different credentials share nothing. Images are
/// decoded at the requested size on private threads, one per processor.
///
/// `file:` and `data:` URLs are read without the manager. A file that has changed is read again.
///
/// An image in memory is used while its response is fresh (RFC 9111, section 4.2). If its server specified no lifetime,
/// it is used until it is purged. Responses with `no-store` or `no-cache` are not kept in memory. Stale images are
/// loaded through the manager's HTTP cache, which can revalidate them without transferring the body again. A body that
/// is not an image is removed from the HTTP cache, whatever its lifetime, so that the next load requests it again.
///
/// All members can be used from any thread.
public final class ImageDownloader: Sendable {
    /// The order in which waiting downloads of the same priority start.
    public enum Prioritization: Sendable, Hashable {
        /// The oldest request first.
        case fifo
        /// The latest request first, which suits scrolling views. Requesting a waiting image again moves it to the
        /// front.
        case lifo
    }

    /// The settings of a downloader.
    public struct Configuration: Sendable {
        /// The maximum number of concurrent transfers: 8 by default, and at least 1. At most this number of bodies,
        /// plus one per processor, are in memory, including those being decoded.
        public var maximumActiveDownloads = 8
        /// The order in which waiting downloads start.
        public var prioritization = Prioritization.fifo
        /// The limits on the size of an image.
        public var imageLimits = ImageLimits.standard
        /// The maximum size of a body in bytes: 64 MiB by default. The manager's limit applies as well.
        public var maximumBodySize = 64 << 20
        /// The maximum duration of a transfer with its retries, in seconds: 300 by default; nil for the manager's
        /// `totalTimeout`.
        public var totalTimeout: TimeInterval? = 300
        /// The content types that are accepted. Nil, the default, accepts all types, because the bytes determine the
        /// format, and servers send types such as `image/jpg`.
        public var acceptableContentTypes: Set<String>?
        /// Whether a complete JPEG, PNG or GIF that lacks only its end marker is an error. False by default, as in
        /// browsers.
        public var requiresEndMarker = false
        /// Whether `file:` URLs are loaded. True by default, also in ``ImageDownloader/default``; use a downloader of your
        /// own with false if the URLs come from a server.
        public var allowsFileURLs = true
        /// Whether the bytes of a cancelled load are kept for a while, so that a later load of the image requests only the
        /// rest. At most 16 MiB of eight images are kept, if more than 64 KiB have arrived. True by default.
        public var resumesCancelledLoads = true
        /// The minimum interval between two previews of an image, in seconds: 0.25 by default.
        public var previewInterval: TimeInterval = 0.25

        /// Creates the default settings.
        public init() {}
    }

    /// The manager whose settings, limits and cache apply to the downloads.
    public let manager: HTTPRequestOperationManager
    /// The memory cache; nil for none.
    public let cache: ImageCache?
    /// The cache of reduced images on disk; nil for none.
    public let thumbnails: ImageThumbnailCache?
    /// The settings.
    public let configuration: Configuration

    /// The threads that decode images for all downloaders, one per processor.
    static let workers = BlockingWorkers(limit: workerCount)
    static let workerCount = max(1, ProcessInfo.processInfo.activeProcessorCount)
    let jobs = Locked(ImageJobs())
    /// The queue on which operations report completion. Its blocks must be short.
    let queue = DispatchQueue(label: "Convoy.Images")

    /// Creates a downloader.
    ///
    /// - Parameters:
    ///   - manager: The manager that creates the operations and provides trust settings, cookies, credentials, retries
    ///     and the HTTP cache; nil for that of ``default``.
    ///   - cache: The memory cache; nil for none. Downloaders may share a cache, unless their managers send requests as
    ///     different users with credentials that are used only after an authentication challenge.
    ///   - thumbnails: The cache of reduced images on disk; nil for none.
    ///   - configuration: The settings.
    public init(
        manager: HTTPRequestOperationManager? = nil, cache: ImageCache? = ImageCache(),
        thumbnails: ImageThumbnailCache? = nil, configuration: Configuration = .init()
    ) {
        self.thumbnails = thumbnails
        self.manager = manager ?? ImageDownloader.standardManager
        self.cache = cache
        self.configuration = configuration
    }

    // MARK: Loading

    /// Returns the image in memory, for a view that should not show a placeholder first. Returns nil if the image is
    /// missing or stale, or if the request's cache policy ignores local data.
    public func cachedImage(for request: ImageRequest) -> Image? {
        guard let cache, request.urlRequest.mayUseMemory, let key = prepared(request).cacheKey else { return nil }
        return cache.image(for: key, acceptsStale: request.urlRequest.acceptsStaleImages)
    }

    /// Returns the image in memory, like ``cachedImage(for:)``, or one that was decoded for a slightly larger size. A widget
    /// can request an image before its size is known, and with its own size afterwards.
    package func cachedImage(covering request: ImageRequest) -> (image: Image, limit: ImageSize?)? {
        guard let cache, request.urlRequest.mayUseMemory, let key = prepared(request).cacheKey else { return nil }
        let acceptsStale = request.urlRequest.acceptsStaleImages
        if let image = cache.image(for: key, acceptsStale: acceptsStale) { return (image, request.size) }
        // A processor may depend on the size.
        guard request.processors.isEmpty else { return nil }
        return cache.image(covering: key, request.contentMode, acceptsStale: acceptsStale)
    }

    /// Loads an image.
    ///
    /// The completion is called once, on `queue`, unless the load is cancelled, in which case it is never called. If
    /// this method is called on `queue` and the queue is serial, it returns before the completion is called, even for
    /// an image in memory. See ``ImageDownloadReceipt/cancel()``.
    ///
    /// - Parameters:
    ///   - request: The image to load, and its form.
    ///   - queue: The serial queue on which all handlers are called.
    ///   - progress: Called as bytes arrive. Intermediate values are skipped while the queue is busy.
    ///   - preview: Called with coarse images while a progressive JPEG arrives. Without this handler, previews are not
    ///     decoded.
    ///   - completion: Called with the image, or with the error: a `URLError` or `HTTPError` of the operation, the
    ///     error that ``ImageResponseSerializer`` throws for an invalid image, or the error of a processor.
    @discardableResult
    public func load(
        _ request: ImageRequest, on queue: DispatchQueue = .main,
        progress: (@Sendable (TransferProgress) -> Void)? = nil,
        preview: (@Sendable (Image) -> Void)? = nil,
        completion: @escaping @Sendable (Result<Image, any Error>) -> Void
    ) -> ImageDownloadReceipt {
        let receipt = ImageDownloadReceipt(
            self, request.priority,
            .init(queue: queue, progress: progress, preview: preview, completion: completion))
        begin(request, receipt)
        return receipt
    }

    /// Loads an image. Cancelling the task cancels the load.
    ///
    /// - Throws: The errors of ``load(_:on:progress:preview:completion:)``; `URLError.cancelled` if the task was
    ///   cancelled.
    public func image(for request: ImageRequest) async throws -> Image {
        let awaited = AwaitedImage()
        let cancellation = URLError(.cancelled, url: request.urlRequest.url, "Loading the image was cancelled.")
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let receipt = ImageDownloadReceipt(
                    self, request.priority,
                    .init(
                        completion: { continuation.resume(with: $0) },
                        cancelled: { continuation.resume(throwing: cancellation) }))
                begin(request, receipt)
                awaited.began(receipt)
            }
        } onCancel: {
            awaited.cancel()
        }
    }

    // MARK: Counts

    /// The number of running transfers.
    public var activeDownloadCount: Int { jobs.withLock { $0.running } }

    /// The number of downloads waiting for a free slot.
    public var waitingDownloadCount: Int { jobs.withLock { $0.waitingCount } }
}
#endif
