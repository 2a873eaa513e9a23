#if Images
/// Limits on the size of an image. They are checked against the image's header before anything is allocated.
public struct ImageLimits: Sendable, Hashable {
    /// The maximum number of pixels. 64,000,000 by default, which takes 256 MB with alpha, and up to three times as
    /// much while some formats are decoded. A JPEG with more than ten scans may have fewer pixels. gdk-pixbuf supports at most 536,870,911, whatever is set here.
    public var maximumPixelCount: Int
    /// The maximum width and height in pixels. 32,768 by default.
    public var maximumDimension: Int

    /// Limits; each has a default.
    public init(maximumPixelCount: Int = 64_000_000, maximumDimension: Int = 32_768) {
        self.maximumPixelCount = maximumPixelCount
        self.maximumDimension = maximumDimension
    }

    /// The default limits.
    public static let standard = ImageLimits()

    /// 2 GiB of four bytes each. Below that, no product of an image's sizes overflows.
    private static let mostPixels = Int(Int32.max) / 4

    /// How many pixels the decoder may pass over, each scan of a progressive image counted: ten times those of the largest
    /// image, as the usual progressive image has ten scans.
    var maximumPassedPixelCount: Int { 10 * max(0, min(maximumPixelCount, ImageLimits.mostPixels)) }

    /// Throws for an image that is too large.
    func check(width: Int, height: Int) throws(ImageFault) {
        guard width > 0, height > 0 else { throw .malformed("the image has no pixels") }
        if max(width, height) > maximumDimension { throw .dimension(width, height, limit: maximumDimension) }
        let (count, overflow) = width.multipliedReportingOverflow(by: height)
        let limit = min(maximumPixelCount, ImageLimits.mostPixels)
        if overflow || count > limit { throw .pixelCount(width, height, limit: limit) }
    }
}
#endif
