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

/// The processors of this module.
public struct ImageFilter: ImageProcessor {
    private let processor: any ImageProcessor

    /// Returns a processor that reduces an image to fit or fill a size, keeping the aspect ratio. An image is never
    /// enlarged.
    ///
    /// ``ImageRequest/size`` reduces the image during decoding instead, which takes less memory.
    public static func resizing(to size: ImageSize, contentMode: ImageContentMode = .fit) -> ImageFilter {
        ImageFilter(processor: ImageResizing(to: size, contentMode: contentMode))
    }

    /// Returns a processor that crops an image to its centre, up to a maximum size.
    ///
    /// If the image is large enough and the request uses ``ImageContentMode/fill``, the result has exactly this size.
    public static func cropping(to size: ImageSize) -> ImageFilter { ImageFilter(processor: ImageCropping(to: size)) }

    /// Returns a processor that rounds the corners of an image with a radius in pixels, at most half of the shorter
    /// side. A negative radius or NaN counts as 0. The area outside the corners is transparent.
    public static func rounding(radius: Double) -> ImageFilter { ImageFilter(processor: ImageRounding(radius: radius)) }

    /// A processor that cuts a circle out of the centre of an image.
    public static let circle = ImageFilter(processor: ImageRounding.circle)

    /// Returns a processor that blurs an image, for example as the background of a text. The radius is the standard
    /// deviation in pixels, at most 250; a negative radius or NaN counts as 0.
    public static func blurring(radius: Double) -> ImageFilter { ImageFilter(processor: ImageBlurring(radius: radius)) }

    /// Returns a processor that blends an image with a colour, and keeps its transparency. The amount is the share of
    /// the colour, from 0 to 1. With 1, only the shape of the image remains, as for a symbolic icon.
    public static func tinting(red: UInt8, green: UInt8, blue: UInt8, amount: Double = 1) -> ImageFilter {
        ImageFilter(processor: ImageTinting(red: red, green: green, blue: blue, amount: amount))
    }

    /// Returns a processor that applies several processors in order.
    public static func composing(_ processors: [any ImageProcessor]) -> ImageFilter {
        ImageFilter(processor: ImageComposition(processors))
    }

    /// An identifier that contains the parameters of the processor.
    public var identifier: String { processor.identifier }

    /// Returns the processed image.
    public func process(_ image: Image) throws -> Image { try processor.process(image) }
}

/// A processor that reduces an image to fit or fill a size, keeping the aspect ratio. An image is never enlarged.
///
/// ``ImageRequest/size`` reduces the image during decoding instead, which takes less memory.
package struct ImageResizing: ImageProcessor, Hashable {
    /// The size that limits the image.
    package let size: ImageSize
    /// The way in which the size limits the image.
    package let contentMode: ImageContentMode

    /// Creates a processor that reduces images to a size.
    package init(to size: ImageSize, contentMode: ImageContentMode = .fit) {
        self.size = size
        self.contentMode = contentMode
    }

    /// An identifier that contains the size and the mode.
    package var identifier: String { "convoy.resize(\(size.width)x\(size.height),\(contentMode))" }

    /// Returns the reduced image.
    package func process(_ image: Image) -> Image { ImageScaler.reduce(image, to: size.limiting(image.size, contentMode)) }
}

/// A processor that crops an image to its centre, up to a maximum size.
///
/// If the image is large enough and the request uses ``ImageContentMode/fill``, the result has exactly this size.
package struct ImageCropping: ImageProcessor, Hashable {
    /// The maximum size of the result.
    package let size: ImageSize

    /// Creates a processor that crops images to a size.
    package init(to size: ImageSize) { self.size = size }

    /// An identifier that contains the size.
    package var identifier: String { "convoy.crop(\(size.width)x\(size.height))" }

    /// Returns the cropped image.
    package func process(_ image: Image) -> Image {
        let width = max(1, min(size.width, image.width))
        let height = max(1, min(size.height, image.height))
        return image.cropped(
            to: ImageSize(width: width, height: height), left: (image.width - width) / 2, top: (image.height - height) / 2)
    }
}

/// A processor that rounds the corners of an image. The area outside the corners is transparent.
package struct ImageRounding: ImageProcessor, Hashable {
    /// The radius in pixels; nil for a circle cut out of the centre of the image.
    package let radius: Double?

    /// Creates a processor that rounds corners with a radius in pixels, at most half of the shorter side. A negative
    /// radius or NaN counts as 0.
    package init(radius: Double) { self.radius = radius > 0 ? radius : 0 }

    private init() { radius = nil }

    /// A processor that cuts a circle out of the centre of the image.
    package static let circle = ImageRounding()

    /// An identifier that contains the radius.
    package var identifier: String { radius.map { "convoy.round(\($0))" } ?? "convoy.circle" }

    /// Returns the image with rounded corners and an alpha channel.
    package func process(_ image: Image) -> Image {
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
package struct ImageComposition: ImageProcessor {
    /// The processors, in the order in which they are applied.
    package let processors: [any ImageProcessor]

    /// Creates a processor that applies several processors in order.
    package init(_ processors: [any ImageProcessor]) { self.processors = processors }

    /// The identifiers of all processors with their lengths, so that different lists have different identifiers.
    package var identifier: String { "convoy.compose(\(Self.list(processors)))" }

    static func list(_ processors: [any ImageProcessor]) -> String {
        processors.map { processor in
            let identifier = processor.identifier
            return "\(identifier.utf8.count):\(identifier)"
        }.joined()
    }

    /// Returns the image after applying all processors.
    package func process(_ image: Image) throws -> Image {
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
