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
    private static let workerCount = max(1, ProcessInfo.processInfo.activeProcessorCount)
    let jobs = Locked(ImageJobs())
    /// The queue on which operations report completion. Its blocks must be short.
    private let queue = DispatchQueue(label: "Convoy.Images")

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

    // MARK: Running a load

    /// A request as it will be sent, and the keys by which it is shared.
    struct Prepared {
        let request: URLRequest
        let sharedKey: SharedTransferKey?
        let cacheKey: ImageCacheKey?
        let form: ExactString
    }

    func prepared(_ image: ImageRequest) -> Prepared {
        var request = image.urlRequest
        if let url = request.url, let local = LocalImage(url) {
            // Without a key, a file is neither looked up nor examined. A long URL takes more memory than its image.
            let mayBeKept = (configuration.allowsFileURLs || !url.isFileURL) && url.absoluteString.utf8.count <= 64 << 10
            let key = mayBeKept ? ImageCacheKey(url, fields: local.identification, identity: nil, image) : nil
            return Prepared(request: request, sharedKey: nil, cacheKey: key, form: ExactString(image.form))
        }
        let own = request.allHTTPHeaderFields ?? [:]
        if let url = request.url, let common = try? manager.makeRequest(.get, url) {
            for (name, value) in common.allHTTPHeaderFields ?? [:] where request.value(forHTTPHeaderField: name) == nil {
                request.setValue(value, forHTTPHeaderField: name)
            }
        }
        if !own.keys.contains(where: { HTTPSyntax.isSameField($0, "Accept") }) {
            request.setValue(ImageDownloader.acceptedTypes, forHTTPHeaderField: "Accept")
        }
        let key = manager.sharedTransferKey(of: request)
        let form = image.form
        return Prepared(
            request: request, sharedKey: key,
            cacheKey: key.map { ImageCacheKey($0.url, fields: own, identity: $0.identity, image) },
            form: ExactString(form))
    }

    /// Whether the manager may authenticate requests while they are sent, so that their keys do not name the user.
    private var mayAuthenticate: Bool {
        manager.credential != nil || manager.authenticator != nil
            || manager.shouldUseCredentialStorage && !manager.credentialStore.isEmpty
    }

    func begin(_ request: ImageRequest, _ receipt: ImageDownloadReceipt) {
        let prepared = prepared(request)
        guard request.urlRequest.mayUseMemory, let thumbnails, !mayAuthenticate, let key = prepared.cacheKey,
            let name = ImageThumbnailCache.name(for: key), thumbnails.contains(name),
            cache?.image(for: key, acceptsStale: request.urlRequest.acceptsStaleImages) == nil
        else { return begin(request, prepared, receipt) }
        ImageDownloader.workers.perform { [self] in
            if receipt.isEnded { return }
            guard let (image, lifetime) = thumbnails.image(name) else {
                begin(request, prepared, receipt)
                // It may have been cancelled before it had a place.
                if receipt.isEnded { leave(receipt) }
                return
            }
            cache?.insert(image, for: key, tag: request.cacheTag, lifetime: lifetime)
            receipt.end(with: .success(image))
        }
    }

    private func begin(_ request: ImageRequest, _ prepared: Prepared, _ receipt: ImageDownloadReceipt) {
        let mayUseMemory = request.urlRequest.mayUseMemory
        var stored: Image?
        var decodes = false
        var joined: (ImageJob, HTTPRequestOperation)?
        jobs.withLock { jobs in
            // Check within the lock, because a finished job has already stored its image in the cache.
            if mayUseMemory, let key = prepared.cacheKey {
                stored = cache?.image(for: key, acceptsStale: request.urlRequest.acceptsStaleImages)
                if stored != nil { return }
            }
            let level = PriorityLevel.of(receipt.priority)
            let known = prepared.sharedKey.flatMap { jobs.shared[$0] }
            let job = known ?? ImageJob(prepared.request, prepared.sharedKey)
            let before = job.level
            let variant: ImageVariant
            if let other = job.variants[prepared.form] {
                variant = other
                if let tag = request.cacheTag { variant.cacheTag = tag }
                job.add(receipt, to: variant, level: level)
                jobs.requeue(variant)
            } else {
                variant = ImageVariant(request, prepared.form, prepared.cacheKey, job)
                job.variants[prepared.form] = variant
                job.add(receipt, to: variant, level: level)
                if case .decoding = job.phase {
                    jobs.enqueue(variant)
                    decodes = true
                }
            }
            if known == nil {
                jobs.add(job)
            } else if case .parked = job.phase {
                jobs.unpark(job)
            } else if configuration.prioritization == .lifo || job.level != before {
                jobs.requeue(job)
            }
            if case .transferring(let operation) = job.phase { joined = (job, operation) }
        }
        if let stored { return receipt.end(with: .success(stored)) }
        if let (job, operation) = joined {
            passPriority(to: job)
            follow(operation, of: job)
        }
        if decodes { ImageDownloader.workers.perform { [self] in decodeNext() } }
        startWaiting()
    }

    /// Starts waiting transfers, up to the limit.
    private func startWaiting() {
        while let job = jobs.withLock({ jobs -> ImageJob? in
            let limit = max(1, configuration.maximumActiveDownloads)
            // Limit the bodies in memory to one per concurrent transfer and one per decoding thread.
            guard jobs.running < limit, jobs.running + jobs.decoding < limit + ImageDownloader.workerCount else {
                return nil
            }
            return jobs.startNext(configuration.prioritization)
        }) {
            start(job)
        }
    }

    private func start(_ job: ImageJob) {
        if let local = job.request.url.flatMap({ LocalImage($0) }) { return read(local, job) }
        if let operation = jobs.withLock({ _ in beginResuming(job) }) {
            passPriority(to: job)
            follow(operation, of: job)
            return operation.resume()
        }
        let operation = manager.makeOperation(request: job.request)
        let limit = configuration.maximumBodySize
        var serializer = HTTPResponseSerializer()
        serializer.acceptableContentTypes = configuration.acceptableContentTypes
        operation.updateSettings { settings in
            settings.responseSerializer = serializer
            settings.maximumBodySize = min(settings.maximumBodySize, limit)
            if let timeout = configuration.totalTimeout { settings.totalTimeout = timeout }
            settings.completionQueue = queue
            settings.completionGroup = nil
            // The downloader already shares transfers among its loads.
            settings.coalescesIdenticalRequests = false
        }
        operation.setCompletionHandler(
            success: { [self] operation, object in
                transferDidEnd(job, operation.response, object as? Data, nil)
            },
            failure: { [self] operation, error in transferDidEnd(job, operation.response, nil, error) })
        let isWanted = jobs.withLock { jobs in
            guard case .starting = job.phase else {
                jobs.transferDidEnd(job)
                return false
            }
            job.phase = .transferring(operation)
            return true
        }
        // The job was cancelled while the operation was being created, so the next one may start.
        guard isWanted else { return }
        passPriority(to: job)
        follow(operation, of: job)
        manager.enqueue(operation)
    }

    /// Returns the paused operation of a job that starts. Called within the lock.
    private func beginResuming(_ job: ImageJob) -> HTTPRequestOperation? {
        guard case .starting = job.phase, let operation = job.pausedOperation.take() else { return nil }
        job.phase = .transferring(operation)
        job.isResumed = true
        return operation
    }

    /// Reads a local image on a decoding thread.
    private func read(_ local: LocalImage, _ job: ImageJob) {
        let isWanted = jobs.withLock { jobs in
            guard case .starting = job.phase else {
                jobs.transferDidEnd(job)
                return false
            }
            job.phase = .reading
            return true
        }
        guard isWanted else { return }
        ImageDownloader.workers.perform { [self] in
            do {
                let data = try local.data(limit: configuration.maximumBodySize, allowsFiles: configuration.allowsFileURLs)
                transferDidEnd(job, nil, data, nil)
            } catch {
                transferDidEnd(job, nil, nil, error)
            }
        }
    }

    private func transferDidEnd(_ job: ImageJob, _ response: HTTPURLResponse?, _ data: Data?, _ error: (any Error)?) {
        var failed: [ImageDownloadReceipt] = []
        // Release the variants outside the lock, because releasing their processors can run code of the program.
        let (variants, decodes) = jobs.withLock { jobs -> ([ImageVariant], Bool) in
            if jobs.pausedOperationDidEnd(job) { return ([], false) }
            jobs.transferDidEnd(job)
            if job.isResumed, case .transferring = job.phase, (error as? URLError)?.code == .timedOut {
                // The time of the cancelled load is over, not that of this one.
                job.isResumed = false
                job.stopReporting()
                jobs.add(job)
                return ([], false)
            }
            switch job.phase {
            case .transferring, .reading: break
            default: return ([], false)
            }
            let variants = Array(job.variants.values)
            if let data, !data.isEmpty {
                jobs.beginDecoding(job, data, response)
                return (variants, true)
            }
            for variant in variants {
                for receipt in variant.receipts {
                    failed.append(receipt)
                    job.remove(receipt, from: variant)
                }
            }
            job.variants = [:]
            _ = jobs.giveUp(job)
            return (variants, false)
        }
        if !failed.isEmpty {
            let error = error ?? ImageFault.empty.error(for: response, data: Data())
            forgetBody(of: job, response, after: error)
            for receipt in failed.inOrder { receipt.end(with: .failure(error)) }
        }
        if decodes { for _ in variants { ImageDownloader.workers.perform { [self] in decodeNext() } } }
        startWaiting()
    }

    /// Decodes the most urgent waiting variant. Called on a decoding thread.
    private func decodeNext() {
        guard let (variant, job, data, response) = jobs.withLock({ $0.decodeNext() }) else { return }
        let result: Result<Image, any Error>
        do {
            result = .success(
                try variant.request.image(of: data, response, configuration) {
                    variant.isCancelled.load(ordering: .relaxed)
                })
        } catch {
            forgetBody(of: job, response, after: error)
            result = .failure(error)
        }
        if case .success(let image) = result { keep(image, variant, response) }
        let receipts = jobs.withLock { jobs in
            let receipts = variant.receipts
            for receipt in receipts { job.remove(receipt, from: variant) }
            _ = jobs.remove(variant, of: job)
            return receipts
        }
        for receipt in receipts.inOrder { receipt.end(with: result) }
        if case .success(let image) = result { keepThumbnail(image, variant, response) }
        startWaiting()
    }

    private func keepThumbnail(_ image: Image, _ variant: ImageVariant, _ response: HTTPURLResponse?) {
        guard let thumbnails, !mayAuthenticate, let name = variant.cacheKey.flatMap(ImageThumbnailCache.name(for:)) else {
            return
        }
        // Otherwise, an older thumbnail would be used.
        guard image.animation == nil, let response, case .seconds(let lifetime) = ResponseFreshness(response), lifetime > 0
        else { return thumbnails.remove(name) }
        thumbnails.insert(image, name, lifetime: lifetime)
    }

    /// Removes a body that is not an image from the HTTP cache.
    private func forgetBody(of job: ImageJob, _ response: HTTPURLResponse?, after error: any Error) {
        let error = error as NSError
        guard error.domain == URLResponseSerializationErrorDomain, error.code == NSURLErrorCannotDecodeContentData,
            let cache = manager.cache
        else { return }
        for url in Set([job.request.url, response?.url].compactMap(\.self)) { cache.remove(for: url) }
    }

    private func keep(_ image: Image, _ variant: ImageVariant, _ response: HTTPURLResponse?) {
        guard let cache, let key = variant.cacheKey, !variant.isCancelled.load(ordering: .relaxed) else { return }
        let tag = jobs.withLock { _ in variant.cacheTag }
        switch response.map({ ResponseFreshness($0) }) ?? .unstated {
        case .none: break
        case .seconds(let lifetime): cache.insert(image, for: key, tag: tag, lifetime: lifetime)
        case .unstated: cache.insert(image, for: key, tag: tag, lifetime: nil)
        }
    }

    // MARK: Cancellation and priority

    /// Removes a cancelled load.
    func leave(_ receipt: ImageDownloadReceipt) {
        var left: (job: ImageJob, variant: ImageVariant)?
        if park(receipt, &left) { return startWaiting() }
        let operation = jobs.withLock { jobs -> HTTPRequestOperation? in
            // Release the variant outside the lock, because releasing its processors can run code of the program.
            left = receipt.place
            guard let (job, variant) = left else { return nil }
            let (before, formBefore) = (job.level, variant.level)
            job.remove(receipt, from: variant)
            if !variant.receipts.isEmpty {
                if variant.level != formBefore { jobs.requeue(variant) }
                if job.level != before { jobs.requeue(job) }
                return nil
            }
            variant.isCancelled.store(true, ordering: .relaxed)
            return jobs.remove(variant, of: job)
        }
        operation?.cancel()
        if let left { passPriority(to: left.job) }
        startWaiting()
    }

    /// Pauses the transfer of a receipt instead of cancelling it, if the receipt is the last one of an image of which
    /// enough bytes have arrived. Returns false if the receipt must be removed in another way.
    private func park(
        _ receipt: ImageDownloadReceipt, _ left: inout (job: ImageJob, variant: ImageVariant)?
    ) -> Bool {
        // Without a time limit, nothing would end the paused operation.
        guard configuration.resumesCancelledLoads, (configuration.totalTimeout ?? manager.totalTimeout) != nil else {
            return false
        }
        func transfer(_ jobs: ImageJobs) -> (ImageJob, ImageVariant, HTTPRequestOperation)? {
            guard let (job, variant) = receipt.place, let key = job.key, jobs.shared[key] === job,
                job.variants.count == 1, variant.receipts.count == 1, case .transferring(let operation) = job.phase
            else { return nil }
            return (job, variant, operation)
        }
        guard let operation = jobs.withLock({ transfer($0)?.2 }) else { return false }
        let bytes = Int(clamping: operation.transferProgress.bytesReceived)
        guard bytes >= ImageJobs.leastParkedBytes else { return false }
        let cancelled = jobs.withLock { jobs -> [HTTPRequestOperation]? in
            guard let (job, variant, same) = transfer(jobs), same === operation else { return nil }
            left = (job, variant)
            job.remove(receipt, from: variant)
            variant.isCancelled.store(true, ordering: .relaxed)
            job.variants = [:]
            return jobs.park(job, operation, bytes: bytes)
        }
        guard let cancelled, let job = left?.job else { return false }
        operation.pause()
        // A new load may have resumed the operation before it was paused.
        let isWanted = jobs.withLock { _ in
            if case .transferring(let current) = job.phase { current === operation } else { false }
        }
        if isWanted { operation.resume() }
        for operation in cancelled { operation.cancel() }
        return true
    }

    /// Moves the waiting job and variant of a receipt to its new priority.
    func priorityDidChange(_ receipt: ImageDownloadReceipt) {
        let moved = jobs.withLock { jobs -> ImageJob? in
            guard let (job, variant) = receipt.place else { return nil }
            // Read the priority within the lock, so that the last of several changes wins.
            let level = PriorityLevel.of(receipt.priority)
            let (before, formBefore) = (job.level, variant.level)
            job.move(receipt, in: variant, to: level)
            if variant.level != formBefore { jobs.requeue(variant) }
            guard job.level != before else { return nil }
            jobs.requeue(job)
            return job
        }
        if let moved { passPriority(to: moved) }
    }

    /// Passes the priority of a job to its operation. Another thread may change the priority concurrently.
    private func passPriority(to job: ImageJob) {
        while true {
            let (operation, level) = jobs.withLock { _ -> (HTTPRequestOperation?, Int) in
                guard case .transferring(let operation) = job.phase else { return (nil, 0) }
                return (operation, job.level)
            }
            guard let operation, operation.queuePriority != PriorityLevel.priority(level) else { return }
            operation.queuePriority = PriorityLevel.priority(level)
        }
    }
}
#endif
