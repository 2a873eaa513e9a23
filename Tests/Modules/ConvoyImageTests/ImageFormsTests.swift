#if Images
import ConvoyTestSupport
import CGdkPixbuf
import Foundation
import Synchronization
import Testing

@testable import ConvoyImage

/// Animations, sizes, and formats with external loaders.
@Suite(.serialized) struct ImageFormsTests {
    @Test(arguments: [ImageFormat.gif, .webp].filter(Samples.formats.contains))
    func `an animation has frames, durations and a loop count`(format: ImageFormat) throws {
        let body = format == .gif ? Samples.animatedGIF : Samples.animatedWebP
        let image = try ImageDecoder.image(body, ImageDecoding(allowsAnimation: true))
        let animation = try #require(image.animation)
        #expect(animation.frames.map(\.duration) == [0.05, 0.07, 0.09] && animation.loopCount == 3)
        #expect(image.format == format && image.size == ImageSize(width: 12, height: 8))
        let colors = animation.frames.map { [UInt8]($0.image.pixels.prefix(3)) }
        #expect(colors == [[255, 0, 0], [0, 255, 0], [0, 0, 255]])
        #expect(animation.frames.first?.image.pixels == image.pixels)
        #expect(image.byteCount == 3 * image.pixels.count)
        // Decode each animation at the required size.
        let small = try ImageDecoder.image(
            body, ImageDecoding(size: ImageSize(width: 6, height: 6), allowsAnimation: true))
        #expect(small.animation?.frames.allSatisfy { $0.image.size == ImageSize(width: 6, height: 4) } == true)
        #expect(try decode(body)?.animation == nil)
        #expect(try decode(body)?.pixels.prefix(3) == Data([255, 0, 0]))
        // An animation beyond its limit is reduced to its first frame; an image beyond the image limit is an error.
        let limits = ImageLimits(maximumAnimationPixelCount: 12 * 8 * 3 - 1)
        let still = try ImageDecoder.image(body, ImageDecoding(limits: limits, allowsAnimation: true))
        #expect(still.animation == nil && still.pixels.prefix(3) == Data([255, 0, 0]))
        #expect(throws: ImageFault.self) {
            try ImageDecoder.image(
                body, ImageDecoding(limits: ImageLimits(maximumPixelCount: 95), allowsAnimation: true))
        }
    }

    @Test func `the frames of a WebP are drawn at their positions`() throws {
        guard Samples.formats.contains(.webp) else { return }
        let image = try ImageDecoder.image(Samples.movingWebP, ImageDecoding(allowsAnimation: true))
        let frames = try #require(image.animation?.frames)
        #expect(frames.count == 4 && image.animation?.loopCount == 0)
        for (number, frame) in frames.enumerated() {
            for y in 0..<16 {
                for x in 0..<20 {
                    let isInside =
                        (3 * number..<3 * number + 6).contains(x) && (2 * number..<2 * number + 6).contains(y)
                    let pixel = [UInt8](frame.image.pixels[(y * 20 + x) * 4..<(y * 20 + x) * 4 + 4])
                    let expected = isInside ? [200, UInt8(60 * number), 50, UInt8(255 - 60 * number)] : [0]
                    #expect(isInside ? pixel == expected : pixel[3] == 0, "frame \(number), \(x), \(y): \(pixel)")
                }
            }
        }
    }

    @Test func `WebP blending and disposal follow the specification`() throws {
        var canvas = WebPCanvas(ImageSize(width: 2, height: 1))
        func draw(_ pixel: [UInt8], at left: Int, blended: Bool, disposed: Bool = false) throws -> [UInt8] {
            let size = ImageSize(width: 1, height: 1)
            let frame = WebPFrame(
                left: left, top: 0, size: size, isBlended: blended, isDisposed: disposed, milliseconds: 0,
                bitstream: 0..<0)
            canvas.draw(frame, try Image(size: size, hasAlpha: pixel.count == 4, pixels: Data(pixel)))
            return [UInt8](canvas.image.pixels)
        }
        #expect(try draw([10, 20, 30], at: 0, blended: true) == [10, 20, 30, 255, 0, 0, 0, 0])
        #expect(try draw([110, 120, 130, 0], at: 0, blended: true) == [10, 20, 30, 255, 0, 0, 0, 0])
        #expect(try draw([110, 120, 130, 51], at: 0, blended: true) == [30, 40, 50, 255, 0, 0, 0, 0])
        #expect(try draw([110, 120, 130, 51], at: 0, blended: false) == [110, 120, 130, 51, 0, 0, 0, 0])
        #expect(try draw([1, 2, 3, 255], at: 1, blended: true, disposed: true) == [110, 120, 130, 51, 1, 2, 3, 255])
        #expect(try draw([7, 7, 7, 128], at: 0, blended: false) == [7, 7, 7, 128, 0, 0, 0, 0])
        #expect(try draw([7, 7, 7, 127], at: 1, blended: true) == [7, 7, 7, 128, 7, 7, 7, 127])
    }

    @Test func `decoding an animation uses the memory of two frames besides the delivered ones`() throws {
        guard Samples.formats.contains(.webp), ProcessMeters.resetPeak() else { return }
        let still = try Samples.plain("webp", width: 1000, height: 1000)
        let chunk = still.dropFirst(12)
        try #require(chunk.starts(with: Data("VP8 ".utf8)))
        func number(_ value: Int, _ count: Int) -> Data { Data((0..<count).map { UInt8(value >> ($0 * 8) & 255) }) }
        var content = Data("WEBPVP8X".utf8) + number(10, 4) + number(2, 4) + number(999, 3) + number(999, 3)
        content += Data("ANIM".utf8) + number(6, 4) + number(0, 6)
        for _ in 0..<24 {
            content += Data("ANMF".utf8) + number(16 + chunk.count, 4) + number(0, 6) + number(999, 3) + number(999, 3)
            content += number(40, 3) + number(0, 1) + chunk
        }
        let body = Data("RIFF".utf8) + number(content.count, 4) + content
        let before = ProcessMeters.peakResidentKilobytes
        let image = try ImageDecoder.image(
            body, ImageDecoding(size: ImageSize(width: 100, height: 100), allowsAnimation: true))
        #expect(image.animation?.frames.count == 24 && image.size == ImageSize(width: 100, height: 100))
        let taken = ProcessMeters.peakResidentKilobytes - before
        print("ImageFormsTests: \(taken) kB for an animation whose frames have 96,000")
        #expect(taken < 60_000 || ProcessMeters.holdsOnToFreedMemory)
    }

    @Test func `an animation with too many frames is reduced to its first one`() throws {
        // The frames of this one-pixel GIF take twenty bytes each.
        let gif = Samples.animatedGIF
        let start = try #require(gif.range(of: Data([0x21, 0xF9, 4]))?.lowerBound)
        let next = try #require(gif[(start + 3)...].range(of: Data([0x21, 0xF9, 4]))?.lowerBound)
        var body = gif.prefix(start)
        for _ in 0..<AnimationTiming.mostFrames + 1 { body += gif[start..<next] }
        let image = try ImageDecoder.image(
            body + [0x3B], ImageDecoding(limits: ImageLimits(maximumAnimationPixelCount: .max), allowsAnimation: true))
        #expect(image.animation == nil && image.pixels.prefix(3) == Data([255, 0, 0]))
    }

    @Test(arguments: [ImageFormat.gif, .webp].filter(Samples.formats.contains))
    func `a damaged animation never causes a crash`(format: ImageFormat) throws {
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

    @Test func `a frame that extends beyond its GIF is cropped, and the decoder reads nothing out of bounds`() throws {
        let complaints = Complaints.count.load(ordering: .relaxed)
        let handler = g_log_set_handler(
            "GdkPixbuf", G_LOG_LEVEL_CRITICAL, { _, _, _, _ in Complaints.count.add(1, ordering: .relaxed) }, nil)
        defer { g_log_remove_handler("GdkPixbuf", handler) }
        let body = Samples.animatedGIF
        let frame = try #require(body.firstIndex(of: 0x2C))
        for (offset, value) in [(1, 1), (3, 1), (5, 20), (7, 20), (3, 200)] {
            var lying = body
            lying[frame - 5] |= 0x0C
            lying[frame + offset] = UInt8(value)
            let image = try? ImageDecoder.image(lying, ImageDecoding(allowsAnimation: true))
            let frames = image?.animation?.frames ?? []
            #expect(frames.allSatisfy { $0.image.size == ImageSize(width: 12, height: 8) })
            if offset < 5 { #expect(frames.count == 3) }
        }
        #expect(Complaints.count.load(ordering: .relaxed) == complaints)
    }

    private enum Complaints {
        static let count = Atomic<Int>(0)
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

    @Test func `an AVIF with an oversized bitstream is rejected before decoding`() throws {
        guard Samples.formats.contains(.avif) else { return }
        var body = try Samples.plain("avif", width: 200, height: 100)
        let limits = ImageLimits(maximumDimension: 150)
        // The property declares 100 x 100, and the bitstream 200 x 100.
        let property = try #require(body.range(of: Data("ispe".utf8)))
        body[property.upperBound + 7] = 100
        #expect(throws: ImageFault.dimension(200, 100, limit: 150)) {
            try ImageDecoder.image(body, ImageDecoding(limits: limits))
        }
    }

    @Test func `the error for a missing loader names its package`() {
        for format in [ImageFormat.webp, .avif] {
            let error = ImageFault.noLoader(format).error(for: nil, data: Data())
            #expect(error.code == NSURLErrorCannotDecodeContentData)
            #expect(error.localizedFailureReason?.contains(format.loaderPackage ?? "?") == true)
        }
    }

    @Test(
        arguments: ["jpeg", "png", "webp", "avif", "bmp"].filter(Samples.formats.map(\.rawValue).contains),
        [ImageContentMode.fit, .fill])
    func `an image is decoded at the required size`(type: String, mode: ImageContentMode) throws {
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

    @Test func `decoding stops early if the load is cancelled`() throws {
        let body = try Samples.plain("png", width: 50, height: 50)
        #expect(throws: ImageFault.cancelled) {
            try ImageDecoder.image(body, ImageDecoding(isCancelled: { true }))
        }
    }

    @Test func `a thumbnail of a 24-megapixel image does not need memory for all pixels`() throws {
        let body = try Samples.plain("jpeg", width: 6000, height: 4000)
        // The first decoding also loads everything that later ones need.
        _ = try ImageDecoder.image(try Samples.plain("jpeg", width: 64, height: 64), ImageDecoding())
        guard ProcessMeters.resetPeak() else {
            print("ImageFormsTests: the kernel cannot reset the peak memory")
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
