#if Images
import Foundation
import Testing

@testable import ConvoyImage

@Suite struct ImageFormatTests {
    @Test(arguments: ["png", "bmp", "tiff"]) func `lossless formats decode to their exact pixels`(type: String) throws {
        let image = try #require(try decode(Samples.saved(type)))
        #expect(image.format.rawValue == type)
        #expect(image.width == Samples.width && image.height == Samples.height)
        #expect(image.bytesPerRow == Samples.width * image.channels && image.bitsPerSample == 8)
        #expect(image.pixels.count == image.bytesPerRow * image.height)
        #expect(rgb(image) == Samples.pixels())
    }

    @Test(arguments: ["png", "tiff", "ico"]) func `the alpha channel is preserved`(type: String) throws {
        let image = try #require(try decode(Samples.saved(type, alpha: true)))
        #expect(image.hasAlpha && image.channels == 4)
        let alpha = stride(from: 3, to: image.pixels.count, by: 4).map { image.pixels[$0] }
        let expected = Samples.pixels(alpha: true)
        #expect(alpha == stride(from: 3, to: expected.count, by: 4).map { expected[$0] })
    }

    @Test func `colours are not premultiplied by alpha`() throws {
        for type in ["png", "tiff"] {
            let image = try #require(try decode(Samples.saved(type, alpha: true, alphaValue: 128)))
            for (index, sample) in Samples.pixels(alpha: true, alphaValue: 128).enumerated() {
                #expect(abs(Int(image.pixels[index]) - Int(sample)) <= 2, "\(type), byte \(index)")
            }
        }
    }

    @Test func `a JPEG decodes to its size without alpha`() throws {
        let body = try Samples.saved("jpeg", width: 32, height: 24, options: ["quality": "100"])
        let image = try #require(try decode(body))
        #expect(image.format == .jpeg && image.width == 32 && image.height == 24 && !image.hasAlpha)
        #expect(image.pixels.count == 32 * 24 * 3)
    }

    @Test func `an icon decodes to its largest picture`() throws {
        let small = try Samples.saved("ico", width: 4, height: 4)
        let large = try Samples.saved("ico", width: 16, height: 16)
        let image = try #require(try decode(icon([small.dropFirst(22), large.dropFirst(22)].map { Data($0) })))
        #expect(image.format == .ico && image.width == 16 && image.height == 16)
        #expect(rgb(image) == Samples.pixels(width: 16, height: 16))
    }

    @Test func `an icon may contain a PNG`() throws {
        let image = try #require(try decode(icon([Samples.saved("png")])))
        #expect(image.format == .ico && rgb(image) == Samples.pixels())
    }

    @Test func `a GIF decodes to its first frame`() throws {
        #expect(rgb(try #require(try decode(Samples.gif))) == Samples.gifPixels)
        var frames = Samples.gif.dropLast()
        var second = Samples.gifFrame
        second[12] ^= 0x28
        for _ in 0..<3 { frames += second }
        #expect(rgb(try #require(try decode(frames + [0x3B]))) == Samples.gifPixels)
    }

    @Test func `an XBM is black where a bit is set`() throws {
        let image = try #require(try decode(Samples.xbm))
        #expect(image.format == .xbm && image.width == 10 && image.height == 2)
        let black = rgb(image).enumerated().filter { $0.offset % 3 == 0 && $0.element == 0 }.map { $0.offset / 3 }
        #expect(black == [0, 9] + Array(10..<18))
    }

    @Test func `an X10 bitmap has short values, which are hexadecimal with or without a prefix`() throws {
        let body = "#define a_width 17\n#define a_height 1\nstatic short a_bits[] = {0X8001 ,\n10};\n"
        let pixels = try #require(try decode(Data(body.utf8))).pixels
        #expect(stride(from: 0, to: 51, by: 3).filter { pixels[$0] == 0 } == [0, 45])
        for wrong in ["1,2,zz", "1,2,x3", "1,2,-3", "1"] {
            let body = "#define a_width 17\n#define a_height 1\nstatic short a_bits[] = {\(wrong)};\n"
            #expect(failure(Data(body.utf8))?.code == NSURLErrorCannotDecodeContentData)
        }
    }

    @Test func `a photograph is rotated by its orientation unless that is disabled`() throws {
        let body = try exifOriented(6)
        var serializer = ImageResponseSerializer()
        let turned = try #require(try decode(body, serializer))
        #expect(turned.width == 8 && turned.height == 16)
        serializer.appliesOrientation = false
        let plain = try #require(try decode(body, serializer))
        #expect(plain.width == 16 && plain.height == 8)
    }

    @Test func `images with equal pixels are equal, and changing a copy does not affect them`() throws {
        let body = try Samples.saved("bmp")
        let first = try #require(try decode(body))
        let second = try #require(try decode(body))
        #expect(first == second)
        var copy = first.pixels
        copy[0] = ~copy[0]
        copy.append(1)
        #expect(first == second && copy != first.pixels)
    }

    @Test func `other formats are not decoded, regardless of the installed loaders`() throws {
        let bodies = [
            "<html><svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/></html>",
            "/* XPM */ static char *a[] = {\"1 1\"};",
            "P6 1 1 255\nabc", "RIFF\u{4}\0\0\0ACON", "nothing",
        ]
        for body in bodies {
            let error = try #require(failure(Data(body.utf8)))
            #expect(error.domain == URLResponseSerializationErrorDomain)
            #expect(error.code == NSURLErrorCannotDecodeContentData)
        }
    }

    /// Returns the colours without alpha.
    private func rgb(_ image: Image) -> Data {
        guard image.hasAlpha else { return image.pixels }
        return Data(image.pixels.enumerated().filter { $0.offset % 4 != 3 }.map(\.element))
    }

    private func icon(_ pictures: [Data]) -> Data {
        var header = Data([0, 0, 1, 0, UInt8(pictures.count), 0])
        var offset = 6 + 16 * pictures.count
        for picture in pictures {
            header += Data([0, 0, 0, 0, 1, 0, 32, 0])
            header += Samples.littleEndian(UInt32(picture.count)) + Samples.littleEndian(UInt32(offset))
            offset += picture.count
        }
        return pictures.reduce(header, +)
    }

    /// Returns a JPEG of 16 x 8 with an EXIF segment that contains one field.
    private func exifOriented(_ orientation: UInt8) throws -> Data {
        var body = try Samples.saved("jpeg", width: 16, height: 8)
        let tiff: [UInt8] = [
            0x49, 0x49, 0x2A, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0, 0, 0, 0, 0,
        ]
        let content = Data("Exif\0\0".utf8) + tiff
        body.insert(contentsOf: [0xFF, 0xE1, 0, UInt8(content.count + 2)] + content, at: 2)
        return body
    }
}
#endif
