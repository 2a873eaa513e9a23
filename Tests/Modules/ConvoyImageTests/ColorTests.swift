#if Images
import CLCMS
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

/// Images with a colour space, compared with the program of Little CMS that converts numbers.
@Suite struct ColorTests {
    /// The spaces of the table.
    enum Space: String, CaseIterable, CustomTestStringConvertible {
        case sRGB, displayP3, adobeRGB, grey
        var testDescription: String { rawValue }

        private static let white = cmsCIExyY(x: 0.3127, y: 0.3290, Y: 1)

        /// The ICC profile.
        func profile() throws -> Data {
            let gamma = try #require(cmsBuildGamma(nil, self == .grey ? 1.8 : 563.0 / 256))
            var parameters = [2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045]
            let curve = try #require(cmsBuildParametricToneCurve(nil, 4, &parameters))
            defer {
                cmsFreeToneCurve(gamma)
                cmsFreeToneCurve(curve)
            }
            func rgb(_ corners: [(Double, Double)], _ curve: OpaquePointer) -> cmsHPROFILE? {
                var white = Self.white
                let points = corners.map { cmsCIExyY(x: $0.0, y: $0.1, Y: 1) }
                var triple = cmsCIExyYTRIPLE(Red: points[0], Green: points[1], Blue: points[2])
                var curves: [OpaquePointer?] = [curve, curve, curve]
                return cmsCreateRGBProfile(&white, &triple, &curves)
            }
            var white = Self.white
            let made =
                switch self {
                case .sRGB: cmsCreate_sRGBProfile()
                case .displayP3: rgb([(0.680, 0.320), (0.265, 0.690), (0.150, 0.060)], curve)
                case .adobeRGB: rgb([(0.640, 0.330), (0.210, 0.710), (0.150, 0.060)], gamma)
                case .grey: cmsCreateGrayProfile(&white, gamma)
                }
            let handle = try #require(made)
            defer { cmsCloseProfile(handle) }
            var count: UInt32 = 0
            try #require(cmsSaveProfileToMem(handle, nil, &count) != 0)
            var data = Data(count: Int(count))
            try #require(data.withUnsafeMutableBytes { cmsSaveProfileToMem(handle, $0.baseAddress, &count) } != 0)
            return data
        }
    }

    private static let hasReference = (try? ProcessRunner.run("transicc", [], timeout: 30)) != nil
    private static let colors: [UInt32] = [0x3CB4_4BFF, 0xC828_1EFF, 0x1450_DCFF, 0x8080_80FF, 0xFFFF_FFFF, 0x0A14_05FF]

    /// Returns bytes as zlib data without compression (RFC 1950).
    private static func stored(_ bytes: Data) -> Data {
        var sums: (UInt32, UInt32) = (1, 0)
        for byte in bytes {
            sums.0 = (sums.0 + UInt32(byte)) % 65521
            sums.1 = (sums.1 + sums.0) % 65521
        }
        let count = [UInt8(bytes.count & 255), UInt8(bytes.count >> 8)]
        return Data([0x78, 0x01, 1] + count + count.map { ~$0 }) + bytes + Samples.bigEndian(sums.1 << 16 | sums.0)
    }

    /// Returns a PNG with a profile. gdk-pixbuf saves the profile before it knows the colours.
    private static func tagged(_ png: Data, _ profile: Data) -> Data {
        let content = Data("iCCPprofile\0\0".utf8) + stored(profile)
        var tagged = png
        let length = Samples.bigEndian(UInt32(content.count - 4))
        tagged.insert(contentsOf: length + content + Samples.bigEndian(Samples.crc(content)), at: 33)
        return tagged
    }

    /// Converts colours with `transicc`.
    private func reference(_ colors: [[UInt8]], _ space: Space) throws -> [[Double]] {
        let directory = try TemporaryDirectory(prefix: "convoy-colors")
        let file = try directory.write(try space.profile(), to: "profile.icc")
        let input = colors.map { color in
            (space == .grey ? "\(color[0])" : color.map { "\($0)" }.joined(separator: " ")) + "\n"
        }.joined()
        let result = try ProcessRunner.run(
            "transicc", ["-s", "-t0", "-i\(file.path)", "-o*sRGB"], input: Data(input.utf8), timeout: 30)
        let numbers = result.text.matches(of: /[RGB]=(-?[0-9.]+)/).compactMap { Double($0.1) }
        try #require(numbers.count == 3 * colors.count, "\(result.text) \(result.errorText)")
        return stride(from: 0, to: numbers.count, by: 3).map { Array(numbers[$0..<$0 + 3]) }
    }

    @Test(
        .enabled(if: hasReference, "transicc is not installed; Debian: apt-get install liblcms2-utils"),
        arguments: [ImageFormat.png, .jpeg, .tiff, .webp].filter(Samples.formats.contains), Space.allCases)
    func `an image with a profile is converted to sRGB`(format: ImageFormat, space: Space) throws {
        // libpng rejects a profile of grey in an image that has colours.
        if space == .grey, format == .png { return }
        let profile = try space.profile()
        var stored: [[UInt8]] = []
        var converted: [[UInt8]] = []
        for color in Self.colors {
            var options = ["jpeg": ["quality": "100"], "webp": ["quality": "100"]][format.rawValue] ?? [:]
            let plain = try Samples.plain(format.rawValue, width: 16, height: 16, color: color, options: options)
            options["icc-profile"] = profile.base64EncodedString()
            let tagged =
                format == .png
                ? Self.tagged(plain, profile)
                : try Samples.plain(format.rawValue, width: 16, height: 16, color: color, options: options)
            stored.append(Array(try #require(try decode(plain)).pixels.prefix(3)))
            let image = try #require(try decode(tagged))
            converted.append(Array(image.pixels.prefix(3)))
            #expect(image.pixels.suffix(image.channels).elementsEqual(image.pixels.prefix(image.channels)))
            let small = try ImageDecoder.image(tagged, ImageDecoding(size: ImageSize(width: 4, height: 4)))
            #expect(zip(small.pixels, image.pixels).allSatisfy { abs(Int($0) - Int($1)) <= 1 })
        }
        for (index, expected) in try reference(stored, space).enumerated() {
            for channel in 0..<3 {
                let seen = Double(converted[index][channel])
                #expect(abs(seen - expected[channel]) < 2, "\(stored[index]): \(converted[index]) instead of \(expected)")
            }
        }
        if space == .sRGB { #expect(converted == stored) }
    }

    @Test func `alpha is unchanged by a profile, and a damaged profile is ignored`() throws {
        let profile = try Space.displayP3.profile()
        let plain = try #require(try decode(Samples.saved("png", alpha: true, alphaValue: 100)))
        let tagged = Self.tagged(try Samples.saved("png", alpha: true, alphaValue: 100), profile)
        let image = try #require(try decode(tagged))
        #expect(image.pixels != plain.pixels)
        for index in stride(from: 3, to: image.pixels.count, by: 4) { #expect(image.pixels[index] == plain.pixels[index]) }

        let opaque = try #require(try decode(Samples.plain("jpeg", width: 8, height: 8)))
        var generator = SplitMix64(seed: 11)
        for round in 0..<200 {
            var damaged = profile
            if round % 4 == 0 { damaged = damaged.prefix(Int(generator.next() % UInt64(damaged.count))) }
            for _ in 0..<(round == 0 ? 0 : 4) where !damaged.isEmpty {
                damaged[Int(generator.next() % UInt64(damaged.count))] = UInt8(truncatingIfNeeded: generator.next())
            }
            let converted = ColorConversion.convert(opaque, from: .profile(damaged))
            #expect(converted.pixels.count == opaque.pixels.count)
        }
        #expect(ColorConversion.convert(opaque, from: .profile(Data("nothing".utf8))) == opaque)
    }

    @Test(.enabled(if: hasReference, "transicc is not installed"))
    func `code points of a PNG or AVIF are converted to sRGB, and unknown ones are ignored`() throws {
        let color: UInt32 = 0x3CB4_4BFF
        let png = try Samples.plain("png", width: 8, height: 8, color: color)
        var bodies = [
            (
                body: png,
                tagged: { (primaries: UInt8, transfer: UInt8) -> Data in
                    let content = Data("cICP".utf8) + [primaries, transfer, 0, 1]
                    var tagged = png
                    let chunk = Samples.bigEndian(4) + content + Samples.bigEndian(Samples.crc(content))
                    tagged.insert(contentsOf: chunk, at: 33)
                    return tagged
                }
            )
        ]
        if Samples.formats.contains(.avif) {
            let avif = try Samples.plain("avif", width: 8, height: 8, color: color, options: ["quality": "100"])
            let place = try #require(avif.range(of: Data("nclx".utf8))).upperBound
            bodies.append(
                (
                    avif,
                    { primaries, transfer in
                        var tagged = avif
                        tagged.replaceSubrange(place..<(place + 4), with: [0, primaries, 0, transfer])
                        return tagged
                    }
                ))
        }
        for (body, tagged) in bodies {
            let stored = try #require(try decode(tagged(1, 13)))
            #expect(stored.pixels == (try decode(body))?.pixels)
            for (primaries, transfer) in [(2, 2), (12, 16), (12, 18), (200, 13), (0, 0)] as [(UInt8, UInt8)] {
                #expect(try decode(tagged(primaries, transfer)) == stored)
            }
            let converted = try #require(try decode(tagged(12, 13)))
            let expected = try reference([Array(stored.pixels.prefix(3))], .displayP3)[0]
            for channel in 0..<3 {
                #expect(abs(Double(converted.pixels[channel]) - expected[channel]) < 2, "\(converted.format): \(expected)")
            }
        }
    }

    @Test func `a grey PNG has its own profile`() throws {
        let profile = try Space.grey.profile()
        let header = Samples.bigEndian(2) + Samples.bigEndian(1) + Data([8, 0, 0, 0, 0])
        let pixels = Self.stored(Data([0, 60, 200]))
        let plain = Samples.png([("IHDR", header), ("IDAT", pixels), ("IEND", Data())])
        let tagged = Samples.png([
            ("IHDR", header), ("iCCP", Data("grey\0\0".utf8) + Self.stored(profile)), ("IDAT", pixels), ("IEND", Data()),
        ])
        #expect(try decode(plain)?.pixels == Data([60, 60, 60, 200, 200, 200]))
        let image = try #require(try decode(tagged))
        // A gamma of 1.8 is lighter than that of sRGB.
        #expect(image.pixels[0] == image.pixels[1] && image.pixels[1] == image.pixels[2])
        #expect(image.pixels[0] > 70 && image.pixels[3] > 205)
    }
}
#endif
