#if Images
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// Loads images. The counterpart of `AFImageDownloader`.
public final class ImageDownloader: Sendable {
    /// Settings.
    public struct Configuration: Sendable {
        /// The default settings.
        public init() {}
    }

    /// The downloader that is shared by a program.
    public static let `default` = ImageDownloader(cache: ImageCache())
    private let manager: HTTPRequestOperationManager

    /// A downloader.
    public init(
        manager: HTTPRequestOperationManager? = nil, cache: ImageCache? = ImageCache(),
        configuration: Configuration = .init()
    ) {
        self.manager = manager ?? HTTPRequestOperationManager()
    }

    /// The image in the memory cache.
    public func cachedImage(for request: ImageRequest) -> Image? { nil }

    /// Loads an image. Handlers run on `queue`.
    @discardableResult
    public func load(
        _ request: ImageRequest, on queue: DispatchQueue = .main,
        progress: (@Sendable (TransferProgress) -> Void)? = nil,
        preview: (@Sendable (Image) -> Void)? = nil,
        completion: @escaping @Sendable (Result<Image, any Error>) -> Void
    ) -> ImageDownloadReceipt {
        let operation = manager.makeOperation(request: request.urlRequest)
        operation.responseSerializer = ImageResponseSerializer()
        operation.completionQueue = queue
        let receipt = ImageDownloadReceipt(operation)
        operation.setCompletionHandler(
            success: { _, object in
                guard receipt.end() else { return }
                if let image = object as? Image { completion(.success(image)) } else { completion(.failure(URLError(.zeroByteResource))) }
            }, failure: { _, error in if receipt.end() { completion(.failure(error)) } })
        manager.enqueue(operation)
        return receipt
    }

    /// Loads an image. Cancelling the task cancels the load.
    public func image(for request: ImageRequest) async throws -> Image {
        try await withCheckedThrowingContinuation { continuation in
            load(request, on: .global()) { continuation.resume(with: $0) }
        }
    }
}

/// A load.
public final class ImageDownloadReceipt: Sendable, Hashable {
    private let operation: HTTPRequestOperation
    private let isEnded = Locked(false)

    init(_ operation: HTTPRequestOperation) { self.operation = operation }

    func end() -> Bool { isEnded.withLock { let was = $0; $0 = true; return !was } }

    /// Cancels the load. True if its completion will never be called; false if it was or is being called.
    @discardableResult
    public func cancel() -> Bool {
        operation.cancel()
        return end()
    }

    /// How urgent the image is.
    public var priority: Operation.QueuePriority {
        get { operation.queuePriority }
        set { operation.queuePriority = newValue }
    }

    public static func == (one: ImageDownloadReceipt, other: ImageDownloadReceipt) -> Bool { one === other }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// Loads images before they are needed.
public final class ImagePrefetcher: Sendable {
    private let downloader: ImageDownloader

    /// A prefetcher.
    public init(downloader: ImageDownloader = .default) { self.downloader = downloader }

    /// Starts loading.
    public func startPrefetching(_ requests: [ImageRequest]) {}
    /// Stops loading.
    public func stopPrefetching(_ requests: [ImageRequest]) {}
    /// Stops loading all.
    public func stopAll() {}
}
#endif
