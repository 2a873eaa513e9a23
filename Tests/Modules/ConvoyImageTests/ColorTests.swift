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
            return try ColorTests.bytes(of: handle)
        }
    }

    /// Returns the file of a profile.
    static func bytes(of profile: cmsHPROFILE) throws -> Data {
        var count: UInt32 = 0
        try #require(cmsSaveProfileToMem(profile, nil, &count) != 0)
        var data = Data(count: Int(count))
        try #require(data.withUnsafeMutableBytes { cmsSaveProfileToMem(profile, $0.baseAddress, &count) } != 0)
        return data
    }

    private static let hasReference = (try? ProcessRunner.run("transicc", [], timeout: 30)) != nil
    private static let greys: [UInt32] = [0x0000_00FF, 0x2828_28FF, 0x8080_80FF, 0xDCDC_DCFF, 0xFFFF_FFFF]
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
    static func converted(_ colors: [[UInt8]], by profile: Data, scale: Double = 1) throws -> [[Double]] {
        let directory = try TemporaryDirectory(prefix: "convoy-colors")
        let file = try directory.write(profile, to: "profile.icc")
        let input = colors.map { color in color.map { "\(Double($0) * scale)" }.joined(separator: " ") + "\n" }.joined()
        let result = try ProcessRunner.run(
            "transicc", ["-s", "-t0", "-i\(file.path)", "-o*sRGB"], input: Data(input.utf8), timeout: 30)
        let numbers = result.text.matches(of: /[RGB]=(-?[0-9.]+)/).compactMap { Double($0.1) }
        try #require(numbers.count == 3 * colors.count, "\(result.text) \(result.errorText)")
        return stride(from: 0, to: numbers.count, by: 3).map { Array(numbers[$0..<$0 + 3]) }
    }

    private func reference(_ colors: [[UInt8]], _ space: Space) throws -> [[Double]] {
        try Self.converted(space == .grey ? colors.map { [$0[0]] } : colors, by: space.profile())
    }

    /// Returns an AVIF with a profile instead of its code points, which libavif's loader cannot save.
    private static func tagged(avif: Data, _ profile: Data) throws -> Data {
        var tagged = avif
        func place(_ name: String) throws -> Int { try #require(avif.range(of: Data(name.utf8))).lowerBound }
        func add(_ delta: Int, at place: Int) {
            let value = tagged[place..<place + 4].reduce(0) { $0 << 8 | UInt32($1) }
            tagged.replaceSubrange(place..<place + 4, with: Samples.bigEndian(value + UInt32(delta)))
        }
        let color = try place("colrnclx") - 4
        let delta = profile.count + 12 - 19
        for box in ["meta", "iprp", "ipco"] { add(delta, at: try place(box) - 4) }
        // The locations of the items: offsets and lengths of four bytes, without a base.
        let items = try place("iloc") + 4
        try #require(Array(avif[items..<items + 6]) == [0, 0, 0, 0, 0x44, 0])
        for item in 0..<(Int(avif[items + 6]) << 8 | Int(avif[items + 7])) { add(delta, at: items + 8 + 14 * item + 6) }
        let box = Samples.bigEndian(UInt32(profile.count + 12)) + Data("colrprof".utf8) + profile
        tagged.replaceSubrange(color..<color + 19, with: box)
        return tagged
    }

    /// Returns an image of one colour without and with a profile.
    private static func bodies(
        _ format: ImageFormat, _ color: UInt32, _ space: Space
    ) throws -> (plain: Data, tagged: Data) {
        let profile = try space.profile()
        let grey = UInt8(color >> 24)
        switch format {
        case .png where space == .grey: return (try greyPNG([grey, grey]), try greyPNG([grey, grey], profile))
        case .jpeg where space == .grey:
            let plain = CMYKTests.Body(blocks: [[grey]])
            return (plain.data, CMYKTests.Body(blocks: plain.blocks, profile: profile).data)
        default: break
        }
        let options = format == .png || format == .tiff ? [:] : ["quality": "100"]
        let plain = try Samples.plain(format.rawValue, width: 16, height: 16, color: color, options: options)
        switch format {
        case .png: return (plain, tagged(plain, profile))
        case .avif: return (plain, try tagged(avif: plain, profile))
        default:
            let tagged = options.merging(["icc-profile": profile.base64EncodedString()]) { $1 }
            return (plain, try Samples.plain(format.rawValue, width: 16, height: 16, color: color, options: tagged))
        }
    }

    private static func greyPNG(_ row: [UInt8], _ profile: Data? = nil) throws -> Data {
        let header = Samples.bigEndian(UInt32(row.count)) + Samples.bigEndian(1) + Data([8, 0, 0, 0, 0])
        let tag = profile.map { [("iCCP", Data("grey\0\0".utf8) + stored($0))] } ?? []
        return Samples.png([("IHDR", header)] + tag + [("IDAT", stored(Data([0] + row))), ("IEND", Data())])
    }

    @Test(
        .enabled(if: hasReference, "transicc is not installed; Debian: apt-get install liblcms2-utils"),
        arguments: [ImageFormat.png, .jpeg, .tiff, .webp, .avif].filter(Samples.formats.contains), Space.allCases)
    func `an image with a profile is converted to sRGB`(format: ImageFormat, space: Space) throws {
        var stored: [[UInt8]] = []
        var converted: [[UInt8]] = []
        for color in space == .grey ? Self.greys : Self.colors {
            let bodies = try Self.bodies(format, color, space)
            stored.append(Array(try #require(try decode(bodies.plain)).pixels.prefix(3)))
            let image = try #require(try decode(bodies.tagged))
            converted.append(Array(image.pixels.prefix(3)))
            #expect(image.pixels.suffix(image.channels).elementsEqual(image.pixels.prefix(image.channels)))
            let small = try ImageDecoder.image(bodies.tagged, ImageDecoding(size: ImageSize(width: 4, height: 4)))
            #expect(zip(small.pixels, image.pixels).allSatisfy { abs(Int($0) - Int($1)) <= 1 })
        }
        for (index, expected) in try reference(stored, space).enumerated() {
            for channel in 0..<3 {
                let seen = Double(converted[index][channel])
                #expect(abs(seen - expected[channel]) < 2, "\(stored[index]): \(converted[index]) instead of \(expected)")
            }
        }
        #expect((converted == stored) == (space == .sRGB))
    }

    @Test func `a profile of grey is ignored in an image with colours`() throws {
        for format in [ImageFormat.jpeg, .tiff, .webp, .avif] where Samples.formats.contains(format) {
            // The grey JPEG of the table has one component.
            let plain = try Samples.plain(format.rawValue, width: 8, height: 8, color: 0x3CB4_4BFF)
            let profile = try Space.grey.profile()
            let tagged =
                format == .avif
                ? try Self.tagged(avif: plain, profile)
                : try Samples.plain(
                    format.rawValue, width: 8, height: 8, color: 0x3CB4_4BFF,
                    options: ["icc-profile": profile.base64EncodedString()])
            #expect(try decode(tagged) == decode(plain), "\(format)")
        }
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
        // Large profiles take a limited amount of memory.
        for number in 0..<10 {
            let large = profile + Data(repeating: UInt8(number), count: 3 << 20)
            _ = ColorConversion.convert(opaque, from: .profile(large))
            #expect((1...ColorConversion.mostRecentBytes).contains(ColorConversion.recentBytes))
        }
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
}
#endif
