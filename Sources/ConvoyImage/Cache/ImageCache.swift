#if Images
import ConvoySupport
import Foundation

/// Decoded images in memory.
public final class ImageCache: Sendable {
    /// A cache.
    public init(memoryCapacity: Int = 100 << 20, preferredMemoryUsageAfterPurge: Int = 60 << 20) {}
}
#endif
