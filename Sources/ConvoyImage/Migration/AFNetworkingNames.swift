#if Images
// AFNetworking's names of this module, so that a port is told what has become of them in place of "no such name".

/// The serializer for images.
@available(*, unavailable, renamed: "ImageResponseSerializer")
public typealias AFImageResponseSerializer = ImageResponseSerializer

extension ImageResponseSerializer {
    /// How many pixels a point has.
    @available(*, unavailable, message: "An Image is counted in pixels; there are no points here.")
    public var imageScale: Double { 1 }

    /// Whether images are decompressed when they arrive.
    @available(*, unavailable, message: "An Image always is decompressed.")
    public var automaticallyInflatesResponseImage: Bool { true }
}
#endif
