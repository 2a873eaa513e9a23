#if Images
import Foundation

/// A processor that blurs an image, for example as the background of a text.
///
/// The result is close to a Gaussian blur. The edges of the image are continued beyond its area.
package struct ImageBlurring: ImageProcessor, Hashable {
    /// The standard deviation of the blur, in pixels.
    package let radius: Double

    /// Creates a processor that blurs images. The radius is at most 250 pixels; a negative radius or NaN counts as 0.
    package init(radius: Double) { self.radius = radius > 0 ? min(radius, 250) : 0 }

    /// An identifier that contains the radius.
    package var identifier: String { "convoy.blur(\(radius))" }

    /// Returns the blurred image.
    package func process(_ image: Image) -> Image {
        var samples = image.premultiplied
        var buffer = samples
        // Three means in a row approximate a Gaussian.
        for reach in Self.reaches(radius) where reach > 0 {
            Self.mean(samples, to: &buffer, reach, image, isVertical: false)
            Self.mean(buffer, to: &samples, reach, image, isVertical: true)
        }
        return image.replacingPremultiplied(samples)
    }

    /// Returns how many neighbours on each side the three means include.
    static func reaches(_ radius: Double) -> [Int] {
        let width = (12 * radius * radius / 3 + 1).squareRoot()
        let smaller = Int((width - 1) / 2)
        let length = Double(2 * smaller + 1)
        let small = ((12 * radius * radius - 3 * length * length - 12 * length - 9) / (-4 * length - 4)).rounded()
        return (0..<3).map { Double($0) < small ? smaller : smaller + 1 }
    }

    /// Replaces each sample by the mean of its neighbours in a row or a column.
    private static func mean(
        _ source: [UInt8], to target: inout [UInt8], _ reach: Int, _ image: Image, isVertical: Bool
    ) {
        let channels = image.channels
        let (count, lines) = isVertical ? (image.height, image.width) : (image.width, image.height)
        let step = isVertical ? image.bytesPerRow : channels
        let lineStep = isVertical ? channels : image.bytesPerRow
        let size = 2 * reach + 1
        source.withUnsafeBufferPointer { source in
            target.withUnsafeMutableBufferPointer { target in
                for line in 0..<lines {
                    for channel in 0..<channels {
                        let start = line * lineStep + channel
                        func sample(_ index: Int) -> Int { Int(source[start + max(0, min(index, count - 1)) * step]) }
                        var sum = (-reach...reach).reduce(0) { $0 + sample($1) }
                        for index in 0..<count {
                            target[start + index * step] = UInt8((sum + size / 2) / size)
                            sum += sample(index + reach + 1) - sample(index - reach)
                        }
                    }
                }
            }
        }
    }
}

/// A processor that blends an image with a colour, and keeps its transparency.
package struct ImageTinting: ImageProcessor, Hashable {
    /// The red sample of the colour.
    package let red: UInt8
    /// The green sample of the colour.
    package let green: UInt8
    /// The blue sample of the colour.
    package let blue: UInt8
    /// The share of the colour, from 0 to 1. With 1, only the shape of the image remains, as for a symbolic icon.
    package let amount: Double

    /// Creates a processor that tints images. An amount below 0 or NaN counts as 0, and one above 1 as 1.
    package init(red: UInt8, green: UInt8, blue: UInt8, amount: Double = 1) {
        self.red = red
        self.green = green
        self.blue = blue
        self.amount = amount > 0 ? min(amount, 1) : 0
    }

    /// An identifier that contains the colour and the amount.
    package var identifier: String { "convoy.tint(\(red),\(green),\(blue),\(amount))" }

    /// Returns the tinted image.
    package func process(_ image: Image) -> Image {
        let tables = [red, green, blue].map { color in
            (0..<256).map { UInt8((Double($0) * (1 - amount) + Double(color) * amount).rounded()) }
        }
        var pixels = Data(image.pixels)
        pixels.withUnsafeMutableBytes { (bytes: UnsafeMutableRawBufferPointer) in
            for pixel in stride(from: 0, to: bytes.count, by: image.channels) {
                for channel in 0..<3 { bytes[pixel + channel] = tables[channel][Int(bytes[pixel + channel])] }
            }
        }
        return Image(
            format: image.format, width: image.width, height: image.height, hasAlpha: image.hasAlpha, pixels: pixels)
    }
}

extension Image {
    /// The samples, with colours weighted by alpha, so that transparent pixels contribute no colour.
    fileprivate var premultiplied: [UInt8] {
        var samples = Array(pixels)
        guard hasAlpha else { return samples }
        for pixel in stride(from: 0, to: samples.count, by: 4) {
            let alpha = Int(samples[pixel + 3])
            for channel in 0..<3 { samples[pixel + channel] = UInt8((Int(samples[pixel + channel]) * alpha + 127) / 255) }
        }
        return samples
    }

    fileprivate func replacingPremultiplied(_ premultiplied: [UInt8]) -> Image {
        var samples = premultiplied
        if hasAlpha {
            for pixel in stride(from: 0, to: samples.count, by: 4) {
                let alpha = Int(samples[pixel + 3])
                guard alpha > 0 else { continue }
                for channel in 0..<3 {
                    samples[pixel + channel] = UInt8(min(255, (Int(samples[pixel + channel]) * 255 + alpha / 2) / alpha))
                }
            }
        }
        return Image(format: format, width: width, height: height, hasAlpha: hasAlpha, pixels: Data(samples))
    }
}
#endif
