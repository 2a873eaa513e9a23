#if Images
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

/// Resizing, cropping and rounding, compared with naive implementations.
@Suite struct ProcessingTests {
    private func size(_ generator: inout SplitMix64, most: Int) -> ImageSize {
        ImageSize(width: .random(in: 1...most, using: &generator), height: .random(in: 1...most, using: &generator))
    }

    /// Returns the exact mean of each area, computed pixel by pixel.
    private func reducedNaively(_ image: Image, to target: ImageSize) -> [UInt8] {
        var result: [UInt8] = []
        let pixels = [UInt8](image.pixels)
        for row in 0..<target.height {
            for column in 0..<target.width {
                var sums = [0, 0, 0, 0]
                for y in 0..<image.height {
                    let down =
                        min((y + 1) * target.height, (row + 1) * image.height) - max(y * target.height, row * image.height)
                    if down <= 0 { continue }
                    for x in 0..<image.width {
                        let across =
                            min((x + 1) * target.width, (column + 1) * image.width)
                            - max(x * target.width, column * image.width)
                        if across <= 0 { continue }
                        let start = (y * image.width + x) * image.channels
                        let alpha = image.hasAlpha ? Int(pixels[start + 3]) : 1
                        for channel in 0..<3 { sums[channel] += Int(pixels[start + channel]) * alpha * across * down }
                        sums[3] += alpha * across * down
                    }
                }
                for channel in 0..<3 {
                    result.append(sums[3] == 0 ? 0 : UInt8((sums[channel] + sums[3] / 2) / sums[3]))
                }
                let area = image.width * image.height
                if image.hasAlpha { result.append(UInt8((sums[3] + area / 2) / area)) }
            }
        }
        return result
    }

    @Test func `a reduced image contains the mean of each area, weighted by alpha`() throws {
        let seed = UInt64.random(in: 0...999_999_999)
        var generator = SplitMix64(seed: seed)
        for round in 0..<150 {
            let whole = size(&generator, most: 24)
            let image = try randomImage(whole.width, whole.height, alpha: .random(using: &generator), using: &generator)
            let target = ImageSize(
                width: .random(in: 1...whole.width, using: &generator),
                height: .random(in: 1...whole.height, using: &generator))
            let reduced = ImageScaler.reduce(image, to: target)
            #expect(reduced.size == target)
            // An image of the target size is unchanged, including the colours of transparent pixels.
            let isRight = target == whole ? reduced == image : [UInt8](reduced.pixels) == reducedNaively(image, to: target)
            #expect(isRight, "seed \(seed), round \(round): \(whole) to \(target), alpha \(image.hasAlpha)")
        }
    }

    @Test func `white stays white at any size`() throws {
        for (width, height) in [(32_768, 1), (1, 32_768), (5_001, 7)] {
            for alpha in [false, true] {
                let pixels = Data(repeating: 255, count: width * height * (alpha ? 4 : 3))
                let image = try Image(size: ImageSize(width: width, height: height), hasAlpha: alpha, pixels: pixels)
                for target in [ImageSize(width: 1, height: 1), ImageSize(width: 3, height: 1)] {
                    #expect(ImageScaler.reduce(image, to: target).pixels.allSatisfy { $0 == 255 })
                }
            }
        }
    }

    @Test func `limiting a size preserves the aspect ratio, never enlarges and follows the mode`() {
        let seed = UInt64.random(in: 0...999_999_999)
        var generator = SplitMix64(seed: seed)
        for _ in 0..<20_000 {
            let most = [3, 50, 5_000, 40_000].randomElement(using: &generator) ?? 3
            let whole = size(&generator, most: most)
            let limit = size(&generator, most: most)
            let fit = limit.limiting(whole, .fit)
            #expect(fit.width >= 1 && fit.height >= 1 && fit.width <= whole.width && fit.height <= whole.height)
            #expect(fit.width <= limit.width && fit.height <= limit.height, "seed \(seed): \(whole) in \(limit): \(fit)")
            let fill = limit.limiting(whole, .fill)
            #expect(fill.width <= whole.width && fill.height <= whole.height)
            #expect(fill.width >= min(limit.width, whole.width) && fill.height >= min(limit.height, whole.height))
            for part in [fit, fill] {
                // One side is within a pixel of the exact aspect ratio, or is one pixel long.
                let exact = Double(whole.height) * Double(part.width) / Double(whole.width)
                let across = Double(whole.width) * Double(part.height) / Double(whole.height)
                #expect(
                    abs(exact - Double(part.height)) <= 1 || abs(across - Double(part.width)) <= 1
                        || part.width == 1 || part.height == 1, "seed \(seed): \(whole) in \(limit): \(part)")
            }
        }
        for numbers in [Int.max, Int.min, 0, -5] {
            let limit = ImageSize(width: numbers, height: numbers)
            let part = limit.limiting(ImageSize(width: 640, height: 480), .fit)
            #expect(part == (numbers == .max ? ImageSize(width: 640, height: 480) : ImageSize(width: 1, height: 1)))
        }
    }

    @Test func `cropping keeps the middle of the image`() throws {
        var generator = SplitMix64(seed: 7)
        for _ in 0..<200 {
            let whole = size(&generator, most: 12)
            let image = try randomImage(whole.width, whole.height, alpha: .random(using: &generator), using: &generator)
            let limit = size(&generator, most: 15)
            let cropped = ImageCropping(to: limit).process(image)
            #expect(cropped.width == min(limit.width, whole.width) && cropped.height == min(limit.height, whole.height))
            let (left, top) = ((whole.width - cropped.width) / 2, (whole.height - cropped.height) / 2)
            for y in 0..<cropped.height {
                for x in 0..<cropped.width {
                    let one = (y * cropped.width + x) * image.channels
                    let other = ((y + top) * whole.width + x + left) * image.channels
                    #expect(cropped.pixels[one..<(one + image.channels)] == image.pixels[other..<(other + image.channels)])
                }
            }
        }
    }

    @Test func `rounding multiplies the alpha channel and leaves the colours unchanged`() throws {
        var generator = SplitMix64(seed: 11)
        for _ in 0..<200 {
            let whole = size(&generator, most: 16)
            let alpha = Bool.random(using: &generator)
            let image = try randomImage(whole.width, whole.height, alpha: alpha, using: &generator)
            let radius = Double.random(in: 0...12, using: &generator)
            let rounded = ImageRounding(radius: radius).process(image)
            let used = min(radius, Double(min(whole.width, whole.height)) / 2)
            #expect(rounded.size == image.size && rounded.hasAlpha)
            for y in 0..<whole.height {
                for x in 0..<whole.width {
                    // These are the distances from the centre of the nearest corner's circle.
                    let across = max(used - Double(x) - 0.5, Double(x) + 0.5 - Double(whole.width) + used)
                    let down = max(used - Double(y) - 0.5, Double(y) + 0.5 - Double(whole.height) + used)
                    let inside = across <= 0 || down <= 0
                    let coverage = inside ? 1 : max(0, min(1, used + 0.5 - (across * across + down * down).squareRoot()))
                    let from = (y * whole.width + x) * image.channels
                    let to = (y * whole.width + x) * 4
                    let before = alpha ? Double(image.pixels[from + 3]) : 255
                    #expect(abs(Double(rounded.pixels[to + 3]) - before * coverage) <= 0.5001)
                    #expect(rounded.pixels[to..<(to + 3)] == image.pixels[from..<(from + 3)])
                }
            }
        }
    }

    @Test func `circular rounding yields a square image that is transparent only in its corners`() throws {
        let pixels = Data(repeating: 200, count: 40 * 30 * 3)
        let circle = ImageRounding.circle.process(
            try Image(size: ImageSize(width: 40, height: 30), hasAlpha: false, pixels: pixels))
        #expect(circle.size == ImageSize(width: 30, height: 30))
        func alpha(_ x: Int, _ y: Int) -> UInt8 { circle.pixels[(y * 30 + x) * 4 + 3] }
        for (x, y) in [(0, 0), (29, 0), (0, 29), (29, 29), (2, 2)] { #expect(alpha(x, y) == 0) }
        for (x, y) in [(15, 0), (0, 15), (29, 14), (14, 29), (15, 15), (6, 6)] { #expect(alpha(x, y) >= 250) }
    }

    @Test func `different processors have different identifiers in any combination`() {
        let size = ImageSize(width: 2, height: 3)
        let one: [any ImageProcessor] = [
            ImageResizing(to: size), ImageResizing(to: size, contentMode: .fill), ImageCropping(to: size),
            ImageRounding(radius: 2), ImageRounding(radius: 2.5), ImageRounding.circle, Named("a"), Named("1:a"),
            Named("aa"),
            ImageComposition([]), ImageComposition([Named("a")]), ImageComposition([Named("a"), Named("a")]),
            ImageComposition([ImageComposition([Named("a")])]),
        ]
        #expect(Set(one.map(\.identifier)).count == one.count)
        var forms = one.map { ImageRequest(exampleURL, processors: [$0]).form }
        forms += [
            ImageRequest(exampleURL, size: size).form, ImageRequest(exampleURL, size: size, contentMode: .fill).form,
            ImageRequest(exampleURL).form, ImageRequest(exampleURL, processors: [Named("a"), Named("1:a")]).form,
        ]
        #expect(Set(forms).count == forms.count)
    }

    private struct Named: ImageProcessor {
        let identifier: String
        init(_ identifier: String) { self.identifier = identifier }
        func process(_ image: Image) -> Image { image }
    }

    @Test func `a wrong number of pixels is an error`() {
        let size = ImageSize(width: 2, height: 2)
        for count in [0, 11, 13, 16] {
            #expect(throws: ImagePixelError.self) { try Image(size: size, hasAlpha: false, pixels: Data(count: count)) }
        }
        for side in [0, -1, Int.max] {
            #expect(throws: ImagePixelError.self) {
                try Image(size: ImageSize(width: side, height: side), hasAlpha: true, pixels: Data())
            }
        }
    }

    // MARK: Filters

    @Test func `a blur has its standard deviation and preserves the mean`() throws {
        for radius in [0.8, 2, 5.5] {
            let side = 81
            var pixels = Data(count: side * side * 4)
            let centre = (side * side / 2) * 4
            for index in stride(from: 3, to: pixels.count, by: 4) { pixels[index] = 255 }
            for y in -8...8 {
                for x in -8...8 { pixels[centre + (y * side + x) * 4] = 255 }
            }
            let size = ImageSize(width: side, height: side)
            let image = try Image(size: size, hasAlpha: true, pixels: pixels)
            let blurred = ImageBlurring(radius: radius).process(image)
            func moments(_ image: Image) -> (sum: Double, variance: Double) {
                var (sum, squares) = (0.0, 0.0)
                for y in 0..<side {
                    for x in 0..<side {
                        let value = Double(image.pixels[(y * side + x) * 4])
                        sum += value
                        squares += value * Double((x - side / 2) * (x - side / 2))
                    }
                }
                return (sum, squares / sum)
            }
            let (before, after) = (moments(image), moments(blurred))
            #expect(abs(after.sum / before.sum - 1) < 0.05, "\(radius)")
            let deviation = max(0, after.variance - before.variance).squareRoot()
            #expect(abs(deviation - radius) < 0.2 * radius + 0.2, "\(radius): \(deviation)")
            #expect(blurred.pixels[centre] >= blurred.pixels[centre + 40])
        }
    }

    @Test func `a blur keeps plain areas, and transparent pixels contribute no colour`() throws {
        var generator = SystemRandomNumberGenerator()
        let image = try randomImage(7, 5, alpha: true, using: &generator)
        #expect(ImageBlurring(radius: 0).identifier != ImageBlurring(radius: 1).identifier)
        let plain = try Image(size: ImageSize(width: 3, height: 2), hasAlpha: false, pixels: Data(repeating: 77, count: 18))
        for radius in [0, 1, 40, .nan, -3, .infinity] {
            #expect(ImageBlurring(radius: radius).process(plain) == plain)
            #expect(ImageBlurring(radius: radius).process(image).size == image.size)
        }
        // The left half is opaque red, and the right half is transparent green.
        let pixels = (0..<20).flatMap { $0 < 10 ? [200, 0, 0, 255] : [0, 200, 0, 0] as [UInt8] }
        let row = try Image(size: ImageSize(width: 20, height: 1), hasAlpha: true, pixels: Data(pixels))
        let blurred = ImageBlurring(radius: 2).process(row)
        for pixel in stride(from: 0, to: blurred.pixels.count, by: 4) where blurred.pixels[pixel + 3] > 20 {
            #expect(blurred.pixels[pixel] > 180 && blurred.pixels[pixel + 1] == 0)
        }
    }

    @Test func `a tint blends colours and keeps the shape`() throws {
        let image = try Image(
            size: ImageSize(width: 2, height: 1), hasAlpha: true, pixels: Data([0, 100, 200, 255, 50, 60, 70, 9]))
        let tinted = ImageTinting(red: 10, green: 20, blue: 30).process(image)
        #expect(Array(tinted.pixels) == [10, 20, 30, 255, 10, 20, 30, 9])
        let half = ImageTinting(red: 100, green: 100, blue: 100, amount: 0.5).process(image)
        #expect(Array(half.pixels) == [50, 100, 150, 255, 75, 80, 85, 9])
        for amount in [0, -1, .nan] {
            #expect(ImageTinting(red: 1, green: 2, blue: 3, amount: amount).process(image) == image)
        }
    }
}
#endif
