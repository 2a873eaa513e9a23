#if Images
import Foundation
import FoundationNetworking

/// A request for an image in a particular form: the URL request, the size, and the processors.
public struct ImageRequest: Sendable {
    /// The URL request. Its cache policy also applies to the memory cache, which is bypassed if the policy ignores
    /// local data.
    public var urlRequest: URLRequest
    /// The size to which the image is reduced; nil for full size. An image is never enlarged.
    public var size: ImageSize?
    /// The way in which the size limits the image.
    public var contentMode: ImageContentMode
    /// The processors that are applied to the decoded image, in this order.
    public var processors: [any ImageProcessor]
    /// The priority of the image. It can be changed later through the receipt.
    public var priority: Operation.QueuePriority = .normal
    /// A tag for removing the image from the memory cache. Requests that differ only in their tags share a cached
    /// image.
    public var cacheTag: String?
    /// Whether to decode all frames of an animation, within the limits; otherwise only the first one. True by default.
    public var allowsAnimation = true

    /// Creates a request for the image at a URL.
    public init(
        _ url: URL, size: ImageSize? = nil, contentMode: ImageContentMode = .fit,
        processors: [any ImageProcessor] = []
    ) {
        self.init(URLRequest(url: url), size: size, contentMode: contentMode, processors: processors)
    }

    /// Creates a request for an image from a `URLRequest`.
    public init(
        _ request: URLRequest, size: ImageSize? = nil, contentMode: ImageContentMode = .fit,
        processors: [any ImageProcessor] = []
    ) {
        urlRequest = request
        self.size = size
        self.contentMode = contentMode
        self.processors = processors
    }
}
#endif
