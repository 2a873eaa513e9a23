#if Images
/// A size in pixels.
public struct ImageSize: Sendable, Hashable {
    /// The number of pixels per row.
    public var width: Int
    /// The number of rows.
    public var height: Int

    /// Creates a size. Numbers below 1 count as 1.
    public init(width: Int, height: Int) {
        self.width = width
        self.height = height
    }
}

/// The way in which a size limits an image. The aspect ratio is always kept.
public enum ImageContentMode: Sendable, Hashable {
    /// The image is at most as wide and at most as high as the size.
    case fit
    /// The image is at least as wide and as high as the size, if it has enough pixels. A processor may crop it.
    case fill
}

extension Image {
    /// The size in pixels.
    public var size: ImageSize { ImageSize(width: width, height: height) }
}

extension ImageSize {
    /// Returns the largest size with the aspect ratio of `whole` that this size allows. It is never larger than
    /// `whole`, and at least one pixel in each direction.
    func limiting(_ whole: ImageSize, _ mode: ImageContentMode) -> ImageSize {
        let (width, height) = (max(1, width), max(1, height))
        // Compare products, so that nothing is rounded before the end.
        let (across, overflowAcross) = width.multipliedReportingOverflow(by: whole.height)
        let (down, overflowDown) = height.multipliedReportingOverflow(by: whole.width)
        let isWidthTighter =
            overflowAcross || overflowDown
            ? Double(width) * Double(whole.height) < Double(height) * Double(whole.width) : across < down
        let followsWidth = isWidthTighter == (mode == .fit)
        if followsWidth {
            guard width < whole.width else { return whole }
            return ImageSize(width: width, height: ImageSize.part(width, of: whole.height, over: whole.width))
        }
        guard height < whole.height else { return whole }
        return ImageSize(width: ImageSize.part(height, of: whole.width, over: whole.height), height: height)
    }

    /// Returns whether an image of this size that was limited by another size has all of its pixels. A reduced image has
    /// at least one side of the limit.
    package func isWhole(below limit: ImageSize, _ mode: ImageContentMode) -> Bool {
        let (isNarrower, isLower) = (width < limit.width, height < limit.height)
        return mode == .fit ? isNarrower && isLower : isNarrower || isLower
    }

    /// Returns the size with the aspect ratio of `whole` that fits or fills this size, even if it is larger than `whole`.
    func scaling(_ whole: ImageSize, _ mode: ImageContentMode) -> ImageSize {
        guard whole.width > 0, whole.height > 0 else { return whole }
        let (across, down) = (Double(max(1, width)) / Double(whole.width), Double(max(1, height)) / Double(whole.height))
        let factor = mode == .fit ? min(across, down) : max(across, down)
        func scaled(_ side: Int) -> Int { max(1, Int(min(Double(side) * factor, Double(Int32.max)).rounded())) }
        return ImageSize(width: scaled(whole.width), height: scaled(whole.height))
    }

    /// Returns `side * numerator / denominator`, rounded, and at least 1. The numerator is less than the denominator.
    private static func part(_ numerator: Int, of side: Int, over denominator: Int) -> Int {
        max(1, Int((Double(side) * Double(numerator) / Double(denominator)).rounded()))
    }
}
#endif
