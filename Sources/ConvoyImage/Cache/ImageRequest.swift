#if Images
import Foundation
import FoundationNetworking

/// What to load, and in which form: the request, the size that is needed, and what is done with the pixels.
public struct ImageRequest: Sendable {
    /// The request for the bytes. Its cache policy holds for the memory cache too: one that ignores local data skips
    /// it.
    public var urlRequest: URLRequest
    /// The size in which the image is needed; nil for all of its pixels. An image is never enlarged.
    public var size: ImageSize?
    /// How the size limits the image.
    public var contentMode: ImageContentMode
    /// What is done with the decoded image, in this order.
    public var processors: [any ImageProcessor]
    /// How urgent the image is. It can be changed later, by the receipt.
    public var priority: Operation.QueuePriority = .normal
    /// A tag for the image in the memory cache, by which it can be removed. It does not distinguish variants.
    public var cacheTag: String?
    /// Whether an animation is decoded with all of its frames, within the limits; otherwise its first frame alone is.
    /// True by default.
    public var allowsAnimation = true

    /// A request for the image at a URL.
    public init(
        _ url: URL, size: ImageSize? = nil, contentMode: ImageContentMode = .fit,
        processors: [any ImageProcessor] = []
    ) {
        self.init(URLRequest(url: url), size: size, contentMode: contentMode, processors: processors)
    }

    /// A request for the image that a `URLRequest` leads to.
    public init(
        _ request: URLRequest, size: ImageSize? = nil, contentMode: ImageContentMode = .fit,
        processors: [any ImageProcessor] = []
    ) {
        urlRequest = request
        (self.size, self.contentMode, self.processors) = (size, contentMode, processors)
    }
}
#endif
