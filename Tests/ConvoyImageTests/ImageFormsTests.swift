#if Images
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

/// Animations, sizes, and formats of other loaders.
@Suite(.serialized) struct ImageFormsTests {
    @Test(arguments: [ImageFormat.gif, .webp].filter(Samples.formats.contains))
    func `An animation has its frames, their durations and its loop count`(format: ImageFormat) throws {
        let body = format == .gif ? Samples.animatedGIF : Samples.animatedWebP
        let image = try ImageDecoder.image(body, ImageDecoding(allowsAnimation: true))
        let animation = try #require(image.animation)
        #expect(animation.frames.map(\.duration) == [0.05, 0.07, 0.09] && animation.loopCount == 3)
        #expect(image.format == format && image.size == ImageSize(width: 12, height: 8))
        let colors = animation.frames.map { [UInt8]($0.image.pixels.prefix(3)) }
        #expect(colors == [[255, 0, 0], [0, 255, 0], [0, 0, 255]])
        #expect(animation.frames.first?.image.pixels == image.pixels)
        #expect(image.byteCount == 3 * image.pixels.count)
        // Each at the size that is needed.
        let small = try ImageDecoder.image(
            body, ImageDecoding(size: ImageSize(width: 6, height: 6), allowsAnimation: true))
        #expect(small.animation?.frames.allSatisfy { $0.image.size == ImageSize(width: 6, height: 4) } == true)
        #expect(try decode(body)?.animation == nil)
        #expect(try decode(body)?.pixels.prefix(3) == Data([255, 0, 0]))
        // Beyond its limit it is its first frame; beyond that of an image it is an error.
        let limits = ImageLimits(maximumAnimationPixelCount: 12 * 8 * 3 - 1)
        let still = try ImageDecoder.image(body, ImageDecoding(limits: limits, allowsAnimation: true))
        #expect(still.animation == nil && still.pixels.prefix(3) == Data([255, 0, 0]))
        #expect(throws: ImageFault.self) {
            try ImageDecoder.image(
                body, ImageDecoding(limits: ImageLimits(maximumPixelCount: 95), allowsAnimation: true))
        }
    }

    @Test(arguments: [ImageFormat.gif, .webp].filter(Samples.formats.contains))
    func `A damaged animation is an error or an image, and never a crash`(format: ImageFormat) throws {
        let body = format == .gif ? Samples.animatedGIF : Samples.animatedWebP
        for length in 0..<body.count {
            #expect(throws: ImageFault.self) {
                try ImageDecoder.image(body.prefix(length), ImageDecoding(allowsAnimation: true))
            }
        }
        var generator = SplitMix64(seed: .random(in: 0...999_999))
        for _ in 0..<3_000 {
            var damaged = body
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                damaged[Int.random(in: 0..<body.count, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            let decoding = ImageDecoding(limits: ImageLimits(maximumPixelCount: 4_000_000), allowsAnimation: true)
            guard let image = try? ImageDecoder.image(damaged, decoding) else { continue }
            for frame in image.animation?.frames ?? [] {
                #expect(frame.image.pixels.count == frame.image.bytesPerRow * frame.image.height)
                #expect(frame.duration >= 0.02)
            }
        }
    }

    @Test func `WebP and AVIF are decoded`() throws {
        for format in [ImageFormat.webp, .avif] where Samples.formats.contains(format) {
            let body = try Samples.plain(format.rawValue, width: 40, height: 30)
            let image = try #require(try decode(body))
            #expect(image.format == format && image.size == ImageSize(width: 40, height: 30))
            for (channel, value) in [0x20, 0x40, 0x80].enumerated() {
                #expect(abs(Int(image.pixels[channel]) - value) <= 8, "\(format)")
            }
        }
    }

    @Test func `An AVIF whose bitstream is larger than it says is an error before it is decoded`() throws {
        guard Samples.formats.contains(.avif) else { return }
        var body = try Samples.plain("avif", width: 200, height: 100)
        let limits = ImageLimits(maximumDimension: 150)
        // The property says 100 x 100, and the bitstream 200 x 100.
        let property = try #require(body.range(of: Data("ispe".utf8)))
        body[property.upperBound + 7] = 100
        #expect(throws: ImageFault.dimension(200, 100, limit: 150)) {
            try ImageDecoder.image(body, ImageDecoding(limits: limits))
        }
    }

    @Test func `A loader that is missing is named, with its package`() {
        for format in [ImageFormat.webp, .avif] {
            let error = ImageFault.noLoader(format).error(for: nil, data: Data())
            #expect(error.code == NSURLErrorCannotDecodeContentData)
            #expect(error.localizedFailureReason?.contains(format.loaderPackage ?? "?") == true)
        }
    }

    @Test(
        arguments: ["jpeg", "png", "webp", "avif", "bmp"].filter(Samples.formats.map(\.rawValue).contains),
        [ImageContentMode.fit, .fill])
    func `An image is decoded at the size that is needed`(type: String, mode: ImageContentMode) throws {
        for (width, height) in [(401, 299), (1000, 10), (16, 16), (97, 640)] {
            let body = try Samples.plain(type, width: width, height: height)
            let whole = ImageSize(width: width, height: height)
            for side in [1, 13, 50, 200, 400] {
                let size = ImageSize(width: side, height: side / 2 + 1)
                let image = try ImageDecoder.image(body, ImageDecoding(size: size, contentMode: mode))
                #expect(image.size == size.limiting(whole, mode))
                #expect(abs(Int(image.pixels[2]) - 0x80) <= 8)
            }
        }
    }

    @Test func `Decoding ends early when the image is no longer wanted`() throws {
        let body = try Samples.plain("png", width: 50, height: 50)
        #expect(throws: ImageFault.cancelled) {
            try ImageDecoder.image(body, ImageDecoding(isCancelled: { true }))
        }
    }

    @Test func `A thumbnail of 24 megapixels never takes the memory of all pixels`() throws {
        let body = try Samples.plain("jpeg", width: 6000, height: 4000)
        // The first one loads what every other one needs, too.
        _ = try ImageDecoder.image(try Samples.plain("jpeg", width: 64, height: 64), ImageDecoding())
        guard ProcessMeters.resetPeak() else {
            print("ImageFormsTests: the kernel does not reset the peak of memory")
            return
        }
        func peak(_ decoding: ImageDecoding) throws -> (size: ImageSize, kilobytes: Int) {
            _ = ProcessMeters.resetPeak()
            let before = ProcessMeters.peakResidentKilobytes
            let image = try ImageDecoder.image(body, decoding)
            return (image.size, ProcessMeters.peakResidentKilobytes - before)
        }
        let thumbnail = try peak(ImageDecoding(size: ImageSize(width: 200, height: 200)))
        let whole = try peak(ImageDecoding())
        print(
            "ImageFormsTests: \(thumbnail.kilobytes) kB for a thumbnail of 24 megapixels, \(whole.kilobytes) for all of them"
        )
        #expect(thumbnail.size == ImageSize(width: 200, height: 133) && whole.size == ImageSize(width: 6000, height: 4000))
        #expect(thumbnail.kilobytes < 12_000 && (whole.kilobytes > 60_000 || ProcessMeters.holdsOnToFreedMemory))
    }
}
#endif
