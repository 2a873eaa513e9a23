#if Images
import Foundation

/// A processor that transforms a decoded image, for example by cropping or filtering it.
///
/// ```swift
/// struct Grey: ImageProcessor {
///     var identifier: String { "grey" }
///
///     func process(_ image: Image) throws -> Image {
///         var pixels = image.pixels
///         for pixel in stride(from: 0, to: pixels.count, by: image.channels) {
///             let sum = Int(pixels[pixel]) + Int(pixels[pixel + 1]) + Int(pixels[pixel + 2])
///             for channel in 0..<3 { pixels[pixel + channel] = UInt8(sum / 3) }
///         }
///         return try image.replacingPixels(pixels)
///     }
/// }
/// ```
public protocol ImageProcessor: Sendable {
    /// A string that identifies the processor and its parameters. It must be unique, as it is part of the key under
    /// which processed images are cached.
    var identifier: String { get }

    /// Returns the processed image. The method is called on a decoding thread, and may take a while. For an animation,
    /// it is called once per frame.
    ///
    /// - Throws: An error that makes the load fail.
    func process(_ image: Image) throws -> Image
}

/// A processor that reduces an image to fit or fill a size, keeping the aspect ratio. An image is never enlarged.
///
/// ``ImageRequest/size`` reduces the image during decoding instead, which takes less memory.
public struct ImageResizing: ImageProcessor, Hashable {
    /// The size that limits the image.
    public let size: ImageSize
    /// The way in which the size limits the image.
    public let contentMode: ImageContentMode

    /// Creates a processor that reduces images to a size.
    public init(to size: ImageSize, contentMode: ImageContentMode = .fit) {
        (self.size, self.contentMode) = (size, contentMode)
    }

    /// An identifier that contains the size and the mode.
    public var identifier: String { "convoy.resize(\(size.width)x\(size.height),\(contentMode))" }

    /// Returns the reduced image.
    public func process(_ image: Image) -> Image { ImageScaler.reduce(image, to: size.limiting(image.size, contentMode)) }
}

/// A processor that crops an image to its centre, up to a maximum size.
///
/// If the image is large enough and the request uses ``ImageContentMode/fill``, the result has exactly this size.
public struct ImageCropping: ImageProcessor, Hashable {
    /// The maximum size of the result.
    public let size: ImageSize

    /// Creates a processor that crops images to a size.
    public init(to size: ImageSize) { self.size = size }

    /// An identifier that contains the size.
    public var identifier: String { "convoy.crop(\(size.width)x\(size.height))" }

    /// Returns the cropped image.
    public func process(_ image: Image) -> Image {
        let width = max(1, min(size.width, image.width))
        let height = max(1, min(size.height, image.height))
        return image.cropped(
            to: ImageSize(width: width, height: height), left: (image.width - width) / 2, top: (image.height - height) / 2)
    }
}

/// A processor that rounds the corners of an image. The area outside the corners is transparent.
public struct ImageRounding: ImageProcessor, Hashable {
    /// The radius in pixels; nil for a circle cut out of the centre of the image.
    public let radius: Double?

    /// Creates a processor that rounds corners with a radius in pixels, at most half of the shorter side. A negative
    /// radius or NaN counts as 0.
    public init(radius: Double) { self.radius = radius > 0 ? radius : 0 }

    private init() { radius = nil }

    /// A processor that cuts a circle out of the centre of the image.
    public static let circle = ImageRounding()

    /// An identifier that contains the radius.
    public var identifier: String { radius.map { "convoy.round(\($0))" } ?? "convoy.circle" }

    /// Returns the image with rounded corners and an alpha channel.
    public func process(_ image: Image) -> Image {
        let shorter = min(image.width, image.height)
        let image = radius == nil ? ImageCropping(to: ImageSize(width: shorter, height: shorter)).process(image) : image
        let radius = min(radius ?? .infinity, Double(shorter) / 2)
        guard radius > 0 else { return image }
        var pixels = image.pixelsWithAlpha
        let reach = Int(radius.rounded(.up))
        pixels.withUnsafeMutableBytes { (bytes: UnsafeMutableRawBufferPointer) in
            for y in 0..<reach {
                for x in 0..<reach {
                    let coverage = ImageRounding.coverage(x, y, radius)
                    guard coverage < 1 else { continue }
                    // Process each of the four corners once, even where they overlap.
                    for row in y == image.height - 1 - y ? [y] : [y, image.height - 1 - y] {
                        for column in x == image.width - 1 - x ? [x] : [x, image.width - 1 - x] {
                            let alpha = (row * image.width + column) * 4 + 3
                            bytes[alpha] = UInt8((Double(bytes[alpha]) * coverage).rounded())
                        }
                    }
                }
            }
        }
        return Image(format: image.format, width: image.width, height: image.height, hasAlpha: true, pixels: pixels)
    }

    /// Returns the share of a pixel, from 0 to 1, that lies within the rounded upper left corner.
    static func coverage(_ x: Int, _ y: Int, _ radius: Double) -> Double {
        let (across, down) = (radius - Double(x) - 0.5, radius - Double(y) - 0.5)
        guard across > 0, down > 0 else { return 1 }
        return max(0, min(1, radius - (across * across + down * down).squareRoot() + 0.5))
    }
}

/// A processor that applies several processors in order.
public struct ImageComposition: ImageProcessor {
    /// The processors, in the order in which they are applied.
    public let processors: [any ImageProcessor]

    /// Creates a processor that applies several processors in order.
    public init(_ processors: [any ImageProcessor]) { self.processors = processors }

    /// The identifiers of all processors with their lengths, so that different lists have different identifiers.
    public var identifier: String { "convoy.compose(\(Self.list(processors)))" }

    static func list(_ processors: [any ImageProcessor]) -> String {
        processors.map { processor in
            let identifier = processor.identifier
            return "\(identifier.utf8.count):\(identifier)"
        }.joined()
    }

    /// Returns the image after applying all processors.
    public func process(_ image: Image) throws -> Image {
        try processors.reduce(image) { try $1.process($0) }
    }
}

extension Image {
    /// The pixels with an alpha channel, which is added as opaque if missing.
    var pixelsWithAlpha: Data {
        if hasAlpha { return Data(pixels) }
        var result = Data(count: width * height * 4)
        result.withUnsafeMutableBytes { (target: UnsafeMutableRawBufferPointer) in
            pixels.withUnsafeBytes { (source: UnsafeRawBufferPointer) in
                for pixel in 0..<(width * height) {
                    target[pixel * 4] = source[pixel * 3]
                    target[pixel * 4 + 1] = source[pixel * 3 + 1]
                    target[pixel * 4 + 2] = source[pixel * 3 + 2]
                    target[pixel * 4 + 3] = 255
                }
            }
        }
        return result
    }
}
#endif
