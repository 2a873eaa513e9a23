#if Images
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

/// Files as cameras, programs and servers produce them, which violate a specification or use a rare part of it.
@Suite struct RealWorldTests {
    // MARK: Orientation

    /// EXIF data with only an orientation.
    private static func exif(_ orientation: Int, bigEndian: Bool) -> Data {
        let value = UInt8(orientation)
        return bigEndian
            ? Data([0x4D, 0x4D, 0, 0x2A, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, value, 0, 0, 0, 0, 0, 0])
            : Data([0x49, 0x49, 0x2A, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, value, 0, 0, 0, 0, 0, 0, 0])
    }

    private static func chunk(_ name: String, _ content: Data) -> Data {
        let body = Data(name.utf8) + content
        return Samples.bigEndian(UInt32(content.count)) + body + Samples.bigEndian(Samples.crc(body))
    }

    /// Returns a WebP with an additional chunk after the image.
    private static func extended(_ webp: Data, flag: UInt8, _ name: String, _ content: Data, size: ImageSize) -> Data {
        func number(_ value: Int, _ count: Int) -> Data { Data((0..<count).map { UInt8(value >> ($0 * 8) & 255) }) }
        var body = Data("WEBPVP8X".utf8) + number(10, 4) + Data([flag, 0, 0, 0])
        body += number(size.width - 1, 3) + number(size.height - 1, 3)
        let extra = Data(name.utf8) + number(content.count, 4) + content + Data(count: content.count % 2)
        body += name == "ICCP" ? extra + webp.dropFirst(12) : webp.dropFirst(12) + extra
        return Data("RIFF".utf8) + number(body.count, 4) + body
    }

    private static func oriented(_ format: ImageFormat, _ orientation: Int, bigEndian: Bool = false) throws -> Data {
        var body = try Samples.saved(format.rawValue)
        let exif = exif(orientation, bigEndian: bigEndian)
        if format == .webp {
            return extended(
                body, flag: 8, "EXIF", bigEndian ? exif : Data("Exif\0\0".utf8) + exif,
                size: ImageSize(width: Samples.width, height: Samples.height))
        }
        if format == .jpeg {
            body.insert(contentsOf: CMYKTests.Body.segment(0xE1, Data("Exif\0\0".utf8) + exif), at: 2)
            return body
        }
        // The chunk may precede or follow the pixels.
        let place = bigEndian ? body.count - 12 : 33
        body.insert(contentsOf: chunk("eXIf", exif), at: place)
        return body
    }

    /// Returns where a stored pixel appears (EXIF 2.32, section 4.6.4).
    private static func place(_ x: Int, _ y: Int, _ width: Int, _ height: Int, _ orientation: Int) -> (x: Int, y: Int) {
        switch orientation {
        case 2: (width - 1 - x, y)
        case 3: (width - 1 - x, height - 1 - y)
        case 4: (x, height - 1 - y)
        case 5: (y, x)
        case 6: (height - 1 - y, x)
        case 7: (height - 1 - y, width - 1 - x)
        case 8: (y, width - 1 - x)
        default: (x, y)
        }
    }

    @Test(arguments: [ImageFormat.png, .jpeg, .webp].filter(Samples.formats.contains), Array(1...8))
    func `an image is turned upright by its EXIF orientation`(format: ImageFormat, orientation: Int) throws {
        var plain = ImageResponseSerializer()
        plain.appliesOrientation = false
        for bigEndian in [false, true] {
            let body = try Self.oriented(format, orientation, bigEndian: bigEndian)
            let stored = try #require(try decode(body, plain))
            #expect(stored.size == ImageSize(width: Samples.width, height: Samples.height))
            let upright = try #require(try decode(body))
            try #require(
                upright.size == (orientation < 5 ? stored.size : ImageSize(width: stored.height, height: stored.width)))
            for y in 0..<stored.height {
                for x in 0..<stored.width {
                    let to = Self.place(x, y, stored.width, stored.height, orientation)
                    let (from, target) = (y * stored.bytesPerRow + x * 3, to.y * upright.bytesPerRow + to.x * 3)
                    #expect(upright.pixels[target..<target + 3] == stored.pixels[from..<from + 3])
                }
            }
            // The size limits the upright image.
            let small = try ImageDecoder.image(body, ImageDecoding(size: ImageSize(width: 2, height: 100)))
            #expect(small.width == 2)
        }
        for wrong in [0, 9] {
            #expect(
                try decode(Self.oriented(format, wrong))?.size == ImageSize(width: Samples.width, height: Samples.height))
        }
    }

    // MARK: Missing ends

    private func lenient(_ body: Data) -> Result<Image, ImageFault> {
        Result { () throws(ImageFault) in
            try ImageDecoder.image(body, ImageDecoding(requiresEndMarker: false, allowsAnimation: true))
        }
    }

    @Test func `a file that lacks only its end marker is decoded if the setting permits it`() throws {
        let bodies: [(Data, marker: Int)] = [
            (try Samples.saved("jpeg", width: 40, height: 30, options: ["quality": "90"]), 2), (Samples.progressive, 2),
            (Samples.gif, 1), (Samples.animatedGIF, 1), (try Samples.saved("png"), 12),
        ]
        for (body, marker) in bodies {
            let whole = try lenient(body).get()
            for missing in 1...marker {
                let cut = body.dropLast(missing)
                #expect(try lenient(cut).get() == whole, "\(whole.format) without \(missing) bytes")
                #expect(failure(cut)?.code == NSURLErrorCannotDecodeContentData)
                var serializer = ImageResponseSerializer()
                serializer.requiresEndMarker = false
                #expect(try decode(cut, serializer)?.size == whole.size)
            }
        }
    }

    @Test func `a truncated file is an error even if the end marker may be missing`() throws {
        let jpeg = try Samples.saved("jpeg", width: 40, height: 30, options: ["quality": "90"])
        for body in [jpeg, Samples.progressive, Samples.gif, try Samples.saved("png")] {
            let whole = try lenient(body).get()
            var refused = 0
            for length in 1..<body.count {
                switch lenient(body.prefix(length)) {
                case .success(let image): #expect(image == whole, "\(whole.format), \(length) bytes")
                case .failure: refused += 1
                }
            }
            #expect(refused > body.count - 20, "\(whole.format)")
        }
    }

    // MARK: Sequences and animations

    @Test func `an AVIF sequence decodes to its first image`() throws {
        guard Samples.formats.contains(.avif) else { return }
        let image = try #require(try decode(Samples.avifSequence))
        #expect(image.format == .avif && image.size == ImageSize(width: 12, height: 8))
        let color = image.pixels.prefix(3)
        #expect(color[0] > 250 && color[1] < 5 && color[2] < 5)
        for length in 1..<Samples.avifSequence.count {
            #expect(failure(Samples.avifSequence.prefix(length)) != nil)
        }
    }

    @Test func `a GIF with a frame beyond its screen keeps its animation, and the frame is cropped`() throws {
        var body = Samples.animatedGIF
        // Move the second frame to the right and down.
        let descriptor = Data([0x2C, 0, 0, 0, 0, 12, 0, 8, 0])
        let first = try #require(body.range(of: descriptor)).upperBound
        let second = try #require(body[first...].range(of: descriptor)).lowerBound
        body[second + 1] = 4
        body[second + 3] = 3
        let image = try ImageDecoder.image(body, ImageDecoding(allowsAnimation: true))
        let frames = try #require(image.animation?.frames)
        #expect(frames.count == 3 && frames.allSatisfy { $0.image.size == ImageSize(width: 12, height: 8) })
        let moved = frames[1].image
        func pixel(_ x: Int, _ y: Int) -> [UInt8] {
            let start = y * moved.bytesPerRow + x * moved.channels
            return Array(moved.pixels[start..<start + 3])
        }
        #expect(pixel(11, 7) == [0, 255, 0] && pixel(4, 3) == [0, 255, 0])
        #expect(pixel(3, 3) == [255, 0, 0] && pixel(4, 2) == [255, 0, 0])
        // A canvas over the limit is not allocated.
        body[second + 2] = 0x7F
        body[second + 4] = 0x7F
        #expect(try ImageDecoder.image(body, ImageDecoding(allowsAnimation: true)).animation == nil)
    }
}

extension Samples {
    /// Three images of 12 x 8 pixels: red, green and blue.
    static let avifSequence =
        Data(
            base64Encoded: """
                AAAALGZ0eXBhdmlzAAAAAGF2aWZhdmlzbXNmMWlzbzhtaWYxbWlhZk1BMUEAAAGNbWV0YQAAAAAAAAAoaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAA
                AGxpYmF2aWYAAAAADnBpdG0AAAAAAAEAAAAsaWxvYwAAAABEAAACAAEAAAABAAAG/gAAACcAAgAAAAEAAAbEAAAAGgAAAEJpaW5mAAAAAAACAAAAGmlu
                ZmUCAAAAAAEAAGF2MDFDb2xvcgAAAAAaaW5mZQIAAAAAAgAAYXYwMUFscGhhAAAAABppcmVmAAAAAAAAAA5hdXhsAAIAAQABAAAAw2lwcnAAAACdaXBj
                bwAAABRpc3BlAAAAAAAAAAwAAAAIAAAAEHBpeGkAAAAAAwgICAAAAAxhdjFDgSAAAAAAABNjb2xybmNseAABAA0AAIAAAAAOcGl4aQAAAAABCAAAAAxh
                djFDgQAcAAAAADhhdXhDAAAAAHVybjptcGVnOm1wZWdCOmNpY3A6c3lzdGVtczphdXhpbGlhcnk6YWxwaGEAAAAAHmlwbWEAAAAAAAAAAgABBAECgwQA
                AgQBBYYHAAAFA21vb3YAAAB4bXZoZAEAAAAAAAAA5zIbIwAAAADnMhsjAAAACgAAAAAAAAADAAEAAAEAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAA
                AQAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIAAAIldHJhawAAAGh0a2hkAQAAAQAAAADnMhsjAAAAAOcyGyMAAAAB
                AAAAAAAAAAAAAAADAAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAQAAAAAAMAAAACAAAAAABtW1kaWEAAAAsbWRo
                ZAEAAAAAAAAA5zIbIwAAAADnMhsjAAAACgAAAAAAAAADVcQAAAAAAChoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAbGliYXZpZgAAAAFZbWluZgAA
                ABR2bWhkAAAAAQAAAAAAAAAAAAAAJGRpbmYAAAAcZHJlZgAAAAAAAAABAAAADHVybCAAAAABAAABGXN0YmwAAAAUc3RjbwAAAAAAAAABAAAG/gAAABxz
                dHNjAAAAAAAAAAEAAAABAAAAAwAAAAEAAAAgc3RzegAAAAAAAAAAAAAAAwAAACcAAAAdAAAAHAAAABRzdHNzAAAAAAAAAAEAAAABAAAAGHN0dHMAAAAA
                AAAAAQAAAAMAAAABAAAAlXN0c2QAAAAAAAAAAQAAAIVhdjAxAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAwACABIAAAASAAAAAAAAAABCkFPTSBDb2Rp
                bmcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAGP//AAAADGF2MUOBIAAAAAAAE2NvbHJuY2x4AAEADQAAgAAAABBjY3N0AAAAAHwAAAAAAAJedHJhawAAAGh0
                a2hkAQAAAQAAAADnMhsjAAAAAOcyGyMAAAACAAAAAAAAAAAAAAADAAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAA
                QAAAAAAMAAAACAAAAAAAFHRyZWYAAAAMYXV4bAAAAAEAAAHabWRpYQAAACxtZGhkAQAAAAAAAADnMhsjAAAAAOcyGyMAAAAKAAAAAAAAAANVxAAAAAAA
                KGhkbHIAAAAAAAAAAGF1eHYAAAAAAAAAAAAAAABsaWJhdmlmAAAAAX5taW5mAAAAFHZtaGQAAAABAAAAAAAAAAAAAAAkZGluZgAAABxkcmVmAAAAAAAA
                AAEAAAAMdXJsIAAAAAEAAAE+c3RibAAAABRzdGNvAAAAAAAAAAEAAAbEAAAAHHN0c2MAAAAAAAAAAQAAAAEAAAADAAAAAQAAACBzdHN6AAAAAAAAAAAA
                AAADAAAAGgAAABAAAAAQAAAAFHN0c3MAAAAAAAAAAQAAAAEAAAAYc3R0cwAAAAAAAAABAAAAAwAAAAEAAAC6c3RzZAAAAAAAAAABAAAAqmF2MDEAAAAA
                AAAAAQAAAAAAAAAAAAAAAAAAAAAADAAIAEgAAABIAAAAAAAAAAEKQU9NIENvZGluZwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAY//8AAAAMYXYxQ4EAHAAA
                AAAQY2NzdAAAAAB8AAAAAAAAOGF1eGkAAAAAdXJuOm1wZWc6bXBlZ0I6Y2ljcDpzeXN0ZW1zOmF1eGlsaWFyeTphbHBoYQAAAACibWRhdBIACgkAAAAB
                lfNr5KgyCxAAgAC2/xt5fX7gEgAyDDADgID9+EaABACysBIAMgwwBAEFffhGgAQAqkASAAoMIAAAAZXza+SAhoAQMhUQAIAAtvwyijvydeKPCoJje5R3
                gdcSADIZMAOAgP34RoABAANMuCtD06WdHpT7qLORgRIAMhgwBAEFffhGgAEACS3ZaSmc6BcfGdm43PY=
                """, options: .ignoreUnknownCharacters) ?? Data()
}
#endif
