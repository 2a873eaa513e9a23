#if Images
/// How large an image may be. It is checked against the image's own header before anything is allocated.
public struct ImageLimits: Sendable, Hashable {
    /// The most pixels. 64,000,000; with alpha that is 256 MB, and some formats take up to twice as much again while
    /// they are decoded. gdk-pixbuf goes no further than 536,870,911, whatever is set here.
    public var maximumPixelCount: Int
    /// The most pixels in a row, and the most rows. 32,768.
    public var maximumDimension: Int

    /// Limits, each standard unless given.
    public init(maximumPixelCount: Int = 64_000_000, maximumDimension: Int = 32_768) {
        self.maximumPixelCount = maximumPixelCount
        self.maximumDimension = maximumDimension
    }

    /// The default limits.
    public static let standard = ImageLimits()

    /// Two GiB of four bytes each. No product of an image's sizes overflows below it.
    private static let mostPixels = Int(Int32.max) / 4

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
