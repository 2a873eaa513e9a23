#if Images
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

/// Images that exceed the limits, and are rejected before memory is allocated for them.
@Suite(.serialized) struct BombTests {
    @Test func `a decompression bomb in any format fails without using memory`() throws {
        let bombs: [ImageFormat: Data] = [
            .png: Samples.pngBomb(width: 30_000, height: 30_000),
            .jpeg: try replaced(
                in: Samples.saved("jpeg"), after: [0xFF, 0xC0, 0, 17, 8], with: [0x75, 0x30, 0x75, 0x30]),
            .gif: replacing(Samples.gif, at: 6, with: [0x30, 0x75, 0x30, 0x75]),
            .bmp: replacing(try Samples.saved("bmp"), at: 18, with: [0x30, 0x75, 0, 0, 0x30, 0x75, 0, 0]),
            .ico: replacing(try Samples.saved("ico"), at: 26, with: [0x30, 0x75, 0, 0, 0x60, 0xEA, 0, 0]),
            .tiff: tiff(width: 30_000, height: 30_000),
            .webp: replacing(
                Samples.animatedWebP, at: 24, with: [0x2F, 0x75, 0, 0x2F, 0x75, 0]),
            .avif: try replaced(
                in: Samples.saved("avif"), after: Array("ispe".utf8) + [0, 0, 0, 0],
                with: [0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]),
            .svg: Data("<svg xmlns='http://www.w3.org/2000/svg' width='30000' height='30000'/>".utf8),
            .xbm: Data("#define a_width 30000\n#define a_height 30000\nstatic char a_bits[] = {0};".utf8),
        ]
        #expect(Set(bombs.keys).isSuperset(of: Samples.formats))
        let before = ProcessMeters.peakResidentKilobytes
        for (format, bomb) in bombs {
            for _ in 0..<20 {
                let error = try #require(failure(bomb))
                #expect(limit(error) == .pixelCount, "\(format): \(error)")
                #expect(error.code == NSURLErrorDataLengthExceedsMaximum)
            }
        }
        #expect(ProcessMeters.peakResidentKilobytes - before < 16_384)
    }

    /// The extents of an AVIF item need no bytes if its fields are declared to have none.
    @Test func `an AVIF with billions of extents is refused without using memory`() {
        func box(_ type: String, _ content: Data) -> Data {
            Data((0..<4).map { UInt8(truncatingIfNeeded: (content.count + 8) >> (24 - $0 * 8)) }) + Data(type.utf8) + content
        }
        var items = Data([0, 0, 0, 0, 0, 0, 0xFF, 0xFF])
        for number in 0..<65_535 { items += Data([UInt8(number >> 8), UInt8(number & 0xFF), 0, 0, 0xFF, 0xFF]) }
        let places = box("iloc", items)
        let body =
            box("ftyp", Data("avif".utf8) + Data([0, 0, 0, 0]) + Data("avifmif1".utf8))
            + box("meta", Data([0, 0, 0, 0]) + places) + box("mdat", Data([0]))
        let before = ProcessMeters.peakResidentKilobytes
        #expect(failure(body) != nil)
        #expect(ProcessMeters.peakResidentKilobytes - before < 65_536)
    }

    @Test func `a PNG of 60,000 x 60,000 exceeds the dimension limit`() {
        #expect(limit(failure(Samples.pngBomb(width: 60_000, height: 60_000))) == .imageDimension)
        #expect(limit(failure(Samples.pngBomb(width: 1, height: 0x7FFF_FFFF))) == .imageDimension)
    }

    @Test func `an image is decoded exactly up to its limits`() throws {
        let body = try Samples.saved("png")
        func passed(_ limits: ImageLimits) -> ResponseLimitExceeded? {
            limit(failure(body, ImageResponseSerializer(imageLimits: limits)))
        }
        #expect(passed(ImageLimits(maximumPixelCount: 14)) == .pixelCount)
        #expect(passed(ImageLimits(maximumDimension: 4)) == .imageDimension)
        let exact = ImageLimits(maximumPixelCount: 15, maximumDimension: 5)
        #expect(try decode(body, ImageResponseSerializer(imageLimits: exact)) != nil)
    }

    @Test func `the largest sizes are errors even without limits`() throws {
        let serializer = ImageResponseSerializer(
            imageLimits: ImageLimits(maximumPixelCount: .max, maximumDimension: .max))
        let most: [UInt8] = [0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0x7F]
        let bodies = [
            Samples.pngBomb(width: 0x7FFF_FFFF, height: 0x7FFF_FFFF),
            replacing(try Samples.saved("bmp"), at: 18, with: most),
            replacing(try Samples.saved("ico"), at: 26, with: most), tiff(width: .max, height: .max),
            Data("#define a_width \(Int.max)\n#define a_height \(Int.max)\nstatic char a_bits[] = {0};".utf8),
        ]
        for body in bodies { #expect(limit(failure(body, serializer)) == .pixelCount) }
    }

    @Test(arguments: Samples.formats)
    func `a decoder that finds a size over the limit stops before allocating`(
        format: ImageFormat
    ) throws {
        let body = try #require(try Samples.all()[format])
        #expect {
            try body.withUnsafeBytes { bytes in
                let layout = try ImageLayout(ImageBytes(bytes), limits: Samples.limits)
                return try ImageDecoder.image(
                    layout, in: bytes, limits: ImageLimits(maximumPixelCount: 1), appliesOrientation: true)
            }
        } throws: { error in
            if case .pixelCount? = error as? ImageFault { true } else { false }
        }
    }

    @Test(arguments: ["#definea_width", "#define\u{B}a_width", "#define\u{A0}a_width"])
    func `an XBM has the size that was checked even if gdk-pixbuf would read a larger one`(
        definition: String
    ) throws {
        // gdk-pixbuf's XBM loader would request 2 GB, and terminates the program if it gets no memory.
        let huge = "\(definition) 131072\n\(definition.replacing("width", with: "height")) 131072\n"
        let body = "#define a_width 1\n#define a_height 1\n\(huge)static char a_bits[] = {1};\n"
        let image = try #require(try decode(Data(body.utf8)))
        #expect(image.width == 1 && image.height == 1 && image.pixels == Data([0, 0, 0]))
    }

    @Test func `compressed text in a PNG is not unpacked`() throws {
        // Each chunk is 8 kB that expand to 8 MB, which libpng would do up to a thousand times.
        let body = try Samples.saved("png")
        let end = body.count - 12
        var chunk = Data("zTXtnote\0\0".utf8)
        chunk += try deflated(8_000_000 - 1000)
        let whole = Samples.bigEndian(UInt32(chunk.count - 4)) + chunk + Samples.bigEndian(Samples.crc(chunk))
        var bomb = body.prefix(end)
        for _ in 0..<60 { bomb += whole }
        bomb += body.suffix(12)
        let before = ProcessMeters.peakResidentKilobytes
        #expect(try decode(bomb) == decode(body))
        #expect(ProcessMeters.peakResidentKilobytes - before < 8192)
    }

    @Test func `the unused frames of an animation are neither decoded nor kept`() throws {
        var body = Samples.gif.dropLast()
        let frame = Data(Samples.gifFrame)
        for _ in 0..<100_000 { body += frame }
        body.append(0x3B)
        let before = ProcessMeters.peakResidentKilobytes
        let start = ContinuousClock.now
        #expect(try decode(body) == decode(Samples.gif))
        #expect(ProcessMeters.peakResidentKilobytes - before < 16_384)
        // Measure wall-clock time, because gdk-pixbuf has no clock. Decoding all of the images would take half a
        // minute.
        #expect(ContinuousClock.now - start < .seconds(15))
    }

    @Test func `a JPEG with very many scans is an error`() throws {
        let body = try Samples.saved("jpeg")
        let scan = try #require(body.range(of: Data([0xFF, 0xDA])))
        var bomb = body.prefix(body.count - 2)
        for _ in 0..<100 { bomb += body[scan.lowerBound..<(body.count - 2)] }
        #expect(limit(failure(bomb + [0xFF, 0xD9])) == .pixelCount)
    }

    @Test func `the product of scans and pixels of a JPEG is limited`() throws {
        let body = try Samples.saved("jpeg")
        let scan = try #require(body.range(of: Data([0xFF, 0xDA])))
        func scanned(_ count: Int, size: [UInt8]) throws -> Data {
            let sized = try replaced(in: body, after: [0xFF, 0xC0, 0, 17, 8], with: size)
            var result = sized.prefix(sized.count - 2)
            for _ in 1..<count { result += sized[scan.lowerBound..<(sized.count - 2)] }
            return result + [0xFF, 0xD9]
        }
        // One image has the default maximum of 8,000 x 8,000 pixels with one scan per component, and the other 4,000 x
        // 4,000 pixels with as much work.
        for (count, size) in [(4, [0x1F, 0x40, 0x1F, 0x40]), (16, [0x0F, 0xA0, 0x0F, 0xA0])] as [(Int, [UInt8])] {
            let most = try scanned(count, size: size)
            _ = try most.withUnsafeBytes { try ImageLayout(ImageBytes($0), limits: .standard) }
            #expect(limit(failure(try scanned(count + 1, size: size))) == .pixelCount)
        }
    }

    @Test func `a small progressive JPEG with many pixels is an error, and a normal one is decoded`() throws {
        let bomb = progressive(size: 8_000)
        #expect(bomb.count < 200_000)
        let before = ProcessMeters.peakResidentKilobytes
        #expect(limit(failure(bomb)) == .pixelCount)
        #expect(ProcessMeters.peakResidentKilobytes - before < 4096)
        let image = try #require(try decode(progressive(size: 1_600)))
        #expect(image.width == 1_600 && image.height == 1_600)
        #expect(image.pixels.allSatisfy { $0 == 128 })
        // A camera image has 24 million pixels, and the ten scans that libjpeg writes.
        let photograph = try replaced(
            in: progressive(size: 4_896), after: [0xFF, 0xC2, 0, 17, 8], with: [0x0F, 0xA0, 0x17, 0x70])
        _ = try photograph.withUnsafeBytes { try ImageLayout(ImageBytes($0), limits: .standard) }
    }

    @Test func `decoding images leaks no memory`() throws {
        let bodies = try Samples.all().values + [Samples.saved("png", width: 200, height: 200, alpha: true)]
        let damaged = bodies.map { $0.prefix($0.count * 2 / 3) }
        func round(_ count: Int) {
            for _ in 0..<count {
                for body in bodies { _ = try? decode(body) }
                for body in damaged { _ = try? decode(body) }
            }
        }
        round(100)
        let before = ProcessMeters.residentKilobytes
        round(300)
        // There are 2,400 images and as many failures. Leaking the largest image would take 160 kB each time.
        #expect(ProcessMeters.residentKilobytes - before < 2048)
    }
}

extension BombTests {
    private func replacing(_ body: Data, at offset: Int, with bytes: [UInt8]) -> Data {
        body.prefix(offset) + bytes + body.dropFirst(offset + bytes.count)
    }

    private func replaced(in body: Data, after marker: [UInt8], with bytes: [UInt8]) throws -> Data {
        replacing(body, at: try #require(body.range(of: Data(marker))).upperBound, with: bytes)
    }

    /// Returns a grey square in ten scans, as written by libjpeg: the lowest frequency of all components, then three
    /// bands of each. A block of the first scan takes one bit per component, and 16,384 blocks of the other scans take
    /// two bytes.
    ///
    /// - Parameter size: A multiple of 16.
    private func progressive(size: Int) -> Data {
        func segment(_ marker: UInt8, _ content: [UInt8]) -> [UInt8] {
            [0xFF, marker, UInt8((content.count + 2) >> 8), UInt8((content.count + 2) & 255)] + content
        }
        let sides = [UInt8(size >> 8), UInt8(size & 255)]
        // Each table has one code, a single 0. It means no difference, or the end of 16,384 or more blocks.
        let code: [UInt8] = [1] + [UInt8](repeating: 0, count: 15)
        var data = Data([0xFF, 0xD8])
        data += segment(0xDB, [0] + [UInt8](repeating: 1, count: 64))
        data += segment(0xC2, [8] + sides + sides + [3, 1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0])
        data += segment(0xC4, [0x00] + code + [0])
        data += segment(0xC4, [0x10] + code + [0xE0])
        data += segment(0xDA, [3, 1, 0, 2, 0, 3, 0, 0, 0, 0])
        let units = (size / 16) * (size / 16)
        data += Data(count: (units * 6 + 7) / 8)
        for component in 1...3 {
            let blocks = component == 1 ? units * 4 : units
            for (first, last) in [(1, 5), (6, 20), (21, 63)] as [(UInt8, UInt8)] {
                data += segment(0xDA, [1, UInt8(component), 0, first, last, 0])
                data += Data(count: ((blocks / 16_384 + 1) * 15 + 7) / 8)
            }
        }
        return data + [0xFF, 0xD9]
    }

    /// Returns a TIFF with a directory and one empty strip.
    private func tiff(width: UInt32, height: UInt32, samples: UInt32 = 1, depth: UInt32 = 8) -> Data {
        let fields: [(UInt16, UInt32)] = [
            (256, width), (257, height), (258, depth), (259, 1), (262, 1), (273, 8), (277, samples), (278, height), (279, 1),
        ]
        var data = Data([0x49, 0x49, 0x2A, 0, 8, 0, 0, 0, UInt8(fields.count), 0])
        for (tag, value) in fields {
            data += Data([UInt8(tag & 255), UInt8(tag >> 8), 4, 0, 1, 0, 0, 0]) + Samples.littleEndian(value)
        }
        return data + Data(count: 4)
    }

    @Test func `a TIFF whose size overflows is an error`() throws {
        #expect(failure(tiff(width: 1, height: 1, samples: .max, depth: .max)) != nil)
        #expect(failure(tiff(width: 1, height: 1, samples: 1 << 31, depth: 1 << 31)) != nil)
    }

    /// Returns this number of zeros, compressed as by zlib: blocks with fixed codes, each of which repeats 258 bytes.
    private func deflated(_ count: Int) throws -> Data {
        var output = Data([0x78, 0x9C])
        var bits: UInt64 = 0
        var used: UInt64 = 0
        func put(_ value: UInt64, _ size: UInt64) {
            bits |= value << used
            used += size
            while used >= 8 {
                output.append(UInt8(bits & 255))
                bits >>= 8
                used -= 8
            }
        }
        put(1, 1)  // the last block
        put(1, 2)  // with fixed codes
        put(0b00001100, 8)  // a zero: 0x30, the highest bit first
        let runs = (count - 1) / 258
        for _ in 0..<runs {
            put(0b10100011, 8)  // 258 bytes: 0xC5, the highest bit first
            put(0, 5)  // from one byte before
        }
        put(0, 7)  // the end of the block
        put(0, 7)
        // The Adler-32 checksum of zeros consists of 1 and their number.
        return output + Samples.bigEndian(UInt32((1 + runs * 258) % 65521) << 16 | 1)
    }
}
#endif
