#if Images
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

/// Truncated or damaged bodies, which cause errors but never crashes.
@Suite struct DamageTests {
    @Test(arguments: Samples.formats)
    func `a body truncated at any length is an error`(format: ImageFormat) throws {
        let body = try #require(try Samples.all()[format])
        let whole = try #require(try decode(body))
        for length in 1..<body.count {
            let part = body.prefix(length)
            do {
                // The removed part may be only a final newline, or a comment after the pixels.
                let image = try #require(try decode(part))
                #expect(image == whole && length >= body.count - 3 && format == .xbm, "\(format), \(length) bytes")
            } catch let error as NSError {
                #expect(error.code == NSURLErrorCannotDecodeContentData, "\(format), \(length) bytes: \(error)")
            }
        }
    }

    @Test(arguments: Samples.formats)
    func `an image with a wrong header byte fails to decode or has a consistent size`(format: ImageFormat) throws {
        let body = try #require(try Samples.all()[format])
        // The directory of a TIFF follows the pixels.
        let header = format == .tiff ? body.indices.suffix(120) : body.indices.prefix(80)
        for place in header {
            for lie: UInt8 in [0, 1, 0x7F, 0x80, 0xFF] {
                var lying = body
                lying[place] = lie
                for length in [body.count, body.count - 1, body.count / 2, place + 1] {
                    do {
                        guard let image = try decode(lying.prefix(length)) else { continue }
                        #expect(image.pixels.count == image.bytesPerRow * image.height)
                    } catch let error as NSError {
                        let codes = [NSURLErrorCannotDecodeContentData, NSURLErrorDataLengthExceedsMaximum]
                        #expect(codes.contains(error.code), "\(format), \(lie) at \(place), \(length) bytes: \(error)")
                    }
                }
            }
        }
    }

    @Test func `truncated pixels inside a valid file are an error`() throws {
        // The samples are a PNG of 5 x 3 whose compressed data ends after one row, and a BMP with fewer rows than
        // declared.
        var row = Data([0]) + Samples.pixels(height: 1)
        var sums: (UInt32, UInt32) = (1, 0)
        for byte in row {
            sums.0 = (sums.0 + UInt32(byte)) % 65521
            sums.1 = (sums.1 + sums.0) % 65521
        }
        let count = UInt8(row.count)
        row = Data([0x78, 0x01, 1, count, 0, ~count, 0xFF]) + row + Samples.bigEndian(sums.1 << 16 | sums.0)
        let header = Samples.bigEndian(5) + Samples.bigEndian(3) + Data([8, 2, 0, 0, 0])
        let png = Samples.png([("IHDR", header), ("IDAT", row), ("IEND", Data())])
        #expect(failure(png)?.code == NSURLErrorCannotDecodeContentData)

        var whole = Samples.png([("IHDR", header), ("IDAT", row), ("IEND", Data())])
        whole.replaceSubrange(20..<24, with: Samples.bigEndian(1))
        whole.replaceSubrange(29..<33, with: Samples.bigEndian(Samples.crc(whole[12..<29])))
        #expect(try decode(whole)?.pixels == Samples.pixels(height: 1))

        let bmp = try Samples.saved("bmp")
        #expect(failure(bmp.prefix(22) + [4] + bmp.dropFirst(23))?.code == NSURLErrorCannotDecodeContentData)
    }

    @Test func `a run-length encoded bitmap is decoded, and is an error without its end`() throws {
        var bmp = Data("BM".utf8) + Data(count: 8) + Samples.littleEndian(62)
        bmp += Samples.littleEndian(40) + Samples.littleEndian(4) + Samples.littleEndian(2)
        bmp += Data([1, 0, 8, 0]) + Samples.littleEndian(1) + Data(count: 12) + Samples.littleEndian(2) + Data(count: 4)
        bmp += Data([0, 0, 0, 0, 0x30, 0x20, 0x10, 0])
        let runs: [UInt8] = [4, 1, 0, 0, 0, 4, 0, 1, 1, 0, 0, 1]
        let image = try #require(try decode(bmp + runs))
        #expect(image.width == 4 && image.height == 2)
        #expect(image.pixels.suffix(4) == Data([0x10, 0x20, 0x30, 0xFF]))
        for length in 0..<runs.count {
            #expect(failure(bmp + runs.prefix(length))?.code == NSURLErrorCannotDecodeContentData)
        }
    }

    @Test func `random and mutated bodies never cause a crash`() throws {
        var generator = SplitMix64(seed: 2_016_04_01)
        let seeds =
            try Samples.all().sorted { $0.key.rawValue < $1.key.rawValue }.map(\.value)
            + ["png", "tiff", "ico"].map { try Samples.saved($0, alpha: true) }
        var images = 0
        for round in 0..<12_000 {
            var body: Data
            if round % 10 == 0 {
                // The start is valid, so that more than the first bytes are read.
                body = seeds[Int(generator.next() % UInt64(seeds.count))].prefix(Int(generator.next() % 40))
                body += generator.data(count: Int(generator.next() % 400))
            } else {
                body = seeds[round % seeds.count]
                for _ in 0...(generator.next() % 6) {
                    let place = Int(generator.next() % UInt64(body.count))
                    switch generator.next() % 8 {
                    case 0: body.remove(at: place)
                    case 1: body.insert(UInt8(truncatingIfNeeded: generator.next()), at: place)
                    case 2: body[place] = [0, 1, 0x7F, 0x80, 0xFF][Int(generator.next() % 5)]
                    case 3: body[place] ^= 1 << UInt8(generator.next() % 8)
                    case 4 where body.count > 60:
                        body[Int(generator.next() % 60)] = UInt8(truncatingIfNeeded: generator.next())
                    default: body[place] = UInt8(truncatingIfNeeded: generator.next())
                    }
                }
            }
            do {
                guard let image = try decode(body) else { continue }
                images += 1
                #expect(image.pixels.count == image.bytesPerRow * image.height)
            } catch let error as NSError {
                #expect(error.domain == URLResponseSerializationErrorDomain)
                #expect([NSURLErrorCannotDecodeContentData, NSURLErrorDataLengthExceedsMaximum].contains(error.code))
            }
        }
        // Fewer images would mean that the decoders were not reached.
        #expect(images > 1000)
    }
}
#endif
