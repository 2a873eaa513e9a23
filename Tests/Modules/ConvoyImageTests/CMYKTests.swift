#if Images
import CLCMS
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

/// JPEGs in cyan, magenta, yellow and black.
@Suite struct CMYKTests {
    /// Returns the profile of a printer, as a table of the colours of ink on paper.
    ///
    /// - Parameter elementCount: The number of elements of a second table, D2B0, which makes all colours red.
    static func profile(_ space: cmsColorSpaceSignature = cmsSigCmykData, elementCount: Int = 0) throws -> Data {
        let handle = try #require(cmsCreateProfilePlaceholder(nil))
        defer { cmsCloseProfile(handle) }
        cmsSetProfileVersion(handle, 2.1)
        cmsSetDeviceClass(handle, cmsSigOutputClass)
        cmsSetColorSpace(handle, space)
        cmsSetPCS(handle, cmsSigLabData)
        let count = UInt32(cmsChannelsOfColorSpace(space))
        let pipeline = try #require(cmsPipelineAlloc(nil, count, 3))
        defer { cmsPipelineFree(pipeline) }
        let table = try #require(cmsStageAllocCLut16bit(nil, 5, count, 3, nil))
        let sampler: cmsSAMPLER16 = { inks, color, _ in
            guard let inks, let color else { return 0 }
            let ink = (0..<3).map { Double(inks[$0]) / 65535 }
            let black = 1 - Double(inks[3]) / 65535
            // Each ink absorbs mostly, but not only, one primary colour.
            let red = (1 - 0.95 * ink[0]) * (1 - 0.15 * ink[1]) * (1 - 0.02 * ink[2]) * black
            let green = (1 - 0.35 * ink[0]) * (1 - 0.9 * ink[1]) * (1 - 0.05 * ink[2]) * black
            let blue = (1 - 0.1 * ink[0]) * (1 - 0.4 * ink[1]) * (1 - 0.85 * ink[2]) * black
            var light = cmsCIEXYZ(
                X: 0.4361 * red + 0.3851 * green + 0.1431 * blue, Y: 0.2225 * red + 0.7169 * green + 0.0606 * blue,
                Z: 0.0139 * red + 0.0971 * green + 0.7141 * blue)
            var lab = cmsCIELab()
            cmsXYZ2Lab(nil, &lab, &light)
            cmsFloat2LabEncodedV2(color, &lab)
            return 1
        }
        try #require(cmsStageSampleCLut16bit(table, sampler, nil, 0) != 0)
        try #require(cmsPipelineInsertStage(pipeline, cmsAT_END, table) != 0)
        try #require(cmsWriteTag(handle, cmsSigAToB0Tag, UnsafeRawPointer(pipeline)) != 0)
        guard elementCount > 0 else { return try ColorTests.bytes(of: handle) }
        let elements = try #require(cmsPipelineAlloc(nil, count, 3))
        defer { cmsPipelineFree(elements) }
        let unchanged = (0..<count * count).map { $0 % (count + 1) == 0 ? 1.0 : 0 }
        for _ in 1..<elementCount {
            let stage = try #require(cmsStageAllocMatrix(nil, count, count, unchanged, nil))
            try #require(cmsPipelineInsertStage(elements, cmsAT_END, stage) != 0)
        }
        let nothing = [Double](repeating: 0, count: Int(3 * count))
        let red = try #require(cmsStageAllocMatrix(nil, 3, count, nothing, [53, 80, 67]))
        try #require(cmsPipelineInsertStage(elements, cmsAT_END, red) != 0)
        try #require(cmsWriteTag(handle, cmsSigDToB0Tag, UnsafeRawPointer(elements)) != 0)
        return try ColorTests.bytes(of: handle)
    }

    /// A JPEG (ITU T.81) of blocks in a single colour each, one below the other. Their samples are stored exactly.
    struct Body {
        /// The samples of each block of 8 x 8 pixels.
        var blocks: [[UInt8]]
        /// The colour transform in the marker of Adobe: 0 for CMYK, 2 for YCCK; nil for a file without the marker.
        var adobe: UInt8?
        var profile: Data?
        /// The size of a part of the profile.
        var partSize = 60_000
        /// Segments before the profile.
        var segments = Data()

        static func segment(_ marker: UInt8, _ content: Data) -> Data {
            Data([0xFF, marker]) + Data([UInt8((content.count + 2) >> 8), UInt8((content.count + 2) & 255)]) + content
        }

        static func part(_ number: Int, of count: Int, _ profile: Data) -> Data {
            segment(0xE2, Data("ICC_PROFILE\0".utf8) + [UInt8(number), UInt8(count)] + profile)
        }

        var data: Data {
            let components = blocks[0].count
            var data = Data([0xFF, 0xD8]) + segments
            if let adobe {
                data += Self.segment(0xEE, Data("Adobe".utf8) + [0, 100, 0, 0, 0, 0, adobe])
            }
            if let profile {
                let count = max(1, (profile.count + partSize - 1) / partSize)
                for number in 1...count {
                    let part = Data(profile.dropFirst((number - 1) * partSize).prefix(partSize))
                    data += Self.part(number, of: count, part)
                }
            }
            data += Self.segment(0xDB, [0] + Data(repeating: 1, count: 64))
            let sides: [UInt8] = [UInt8(blocks.count >> 5), UInt8((blocks.count * 8) & 255), 0, 8]
            var frame = Data([8] + sides + [UInt8(components)])
            var scan = Data([UInt8(components)])
            for number in 1...UInt8(components) {
                frame += [number, 0x11, 0]
                scan += [number, 0]
            }
            data += Self.segment(0xC0, frame)
            // Codes of four bits for the lengths of differences, and of one bit for the end of a block.
            data += Self.segment(0xC4, [0] + [0, 0, 0, 12] + Data(count: 12) + Data(0..<12))
            data += Self.segment(0xC4, [0x10] + [1] + Data(count: 15) + [0])
            return data + Self.segment(0xDA, scan + [0, 63, 0]) + entropy + [0xFF, 0xD9]
        }

        private var entropy: Data {
            var bits: [Bool] = []
            func append(_ value: Int, _ count: Int) {
                for bit in stride(from: count - 1, through: 0, by: -1) { bits.append(value >> bit & 1 == 1) }
            }
            var last = [Int](repeating: 0, count: blocks[0].count)
            for block in blocks {
                for (component, sample) in block.enumerated() {
                    let level = 8 * (Int(sample) - 128)
                    let difference = level - last[component]
                    last[component] = level
                    let length = Int.bitWidth - abs(difference).leadingZeroBitCount
                    append(length, 4)
                    append(difference < 0 ? difference + (1 << length) - 1 : difference, length)
                    append(0, 1)
                }
            }
            while bits.count % 8 != 0 { bits.append(true) }
            var data = Data()
            for start in stride(from: 0, to: bits.count, by: 8) {
                let byte = bits[start..<start + 8].reduce(UInt8(0)) { $0 << 1 | ($1 ? 1 : 0) }
                data += byte == 0xFF ? [0xFF, 0] : [byte]
            }
            return data
        }
    }

    private static let hasReference = (try? ProcessRunner.run("transicc", [], timeout: 30)) != nil
    private static let inks: [[UInt8]] = [
        [0, 0, 0, 0], [255, 0, 0, 0], [0, 255, 0, 0], [0, 0, 255, 0], [0, 0, 0, 255], [40, 120, 200, 10], [180, 30, 90, 60],
    ]

    private static func pixels(_ image: Image?, block: Int) -> [UInt8] {
        image.map { Array($0.pixels.dropFirst($0.bytesPerRow * 8 * block).prefix(3)) } ?? []
    }

    @Test(
        .enabled(if: hasReference, "transicc is not installed; Debian: apt-get install liblcms2-utils"),
        arguments: [
            nil, 0, 2,
        ] as [UInt8?])
    func `a profile of inks is applied to a JPEG`(adobe: UInt8?) throws {
        let profile = try Self.profile()
        // YCCK is stored as the luma and chroma of the opposite colours. Without chroma, the inks are equal.
        let stored: [[UInt8]] =
            adobe == nil
            ? Self.inks
            : adobe == 0
                ? Self.inks.map { $0.map { 255 - $0 } } : [[0, 128, 128, 255], [200, 128, 128, 100], [90, 128, 128, 255]]
        let inks = adobe == 2 ? stored.map { [$0[0], $0[0], $0[0], 255 - $0[3]] } : Self.inks
        let image = try decode(Body(blocks: stored, adobe: adobe, profile: profile).data)
        let expected = try ColorTests.converted(inks, by: profile, scale: 100.0 / 255)
        for (block, color) in expected.enumerated() {
            let seen = Self.pixels(image, block: block)
            try #require(seen.count == 3)
            for channel in 0..<3 {
                #expect(abs(Double(seen[channel]) - color[channel]) < 2, "\(inks[block]): \(seen) instead of \(color)")
            }
        }
        #expect(image?.format == .jpeg && image?.hasAlpha == false)
        // The profile matters, and its parts are joined.
        let plain = try decode(Body(blocks: stored, adobe: adobe).data)
        #expect(plain?.size == image?.size && plain?.pixels != image?.pixels)
        #expect(try decode(Body(blocks: stored, adobe: adobe, profile: profile, partSize: 700).data) == image)
    }

    @Test func `a JPEG with inks is reduced and turned upright`() throws {
        let exif = Data("Exif\0\0MM\0*".utf8) + [0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0]
        var body = Body(blocks: (0..<40).map { _ in [0, 255, 255, 0] }, profile: try Self.profile())
        let stored = try #require(try decode(body.data))
        #expect(stored.size == ImageSize(width: 8, height: 320))
        body.segments = Body.segment(0xE1, exif)
        let turned = try #require(try decode(body.data))
        #expect(turned.size == ImageSize(width: 320, height: 8))
        var serializer = ImageResponseSerializer()
        serializer.appliesOrientation = false
        #expect(try decode(body.data, serializer) == stored)
        for width in [320, 200, 80, 40, 7] {
            let image = try ImageDecoder.image(body.data, ImageDecoding(size: ImageSize(width: width, height: 100)))
            #expect(image.width == width && image.pixels.prefix(3) == stored.pixels.prefix(3))
        }
        // Without its end marker.
        let cut = Data(body.data.dropLast(2))
        #expect(failure(cut)?.code == NSURLErrorCannotDecodeContentData)
        #expect(try ImageDecoder.image(cut, ImageDecoding(requiresEndMarker: false)) == turned)
        #expect(throws: ImageFault.cancelled) {
            try ImageDecoder.image(body.data, ImageDecoding(isCancelled: { true }))
        }
    }

    @Test func `EXIF data in two segments keeps the orientation of the first`() throws {
        let exif = Data("Exif\0\0MM\0*".utf8) + [0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0]
        let rest = Data("Exif\0\0".utf8) + Data(repeating: 0xFF, count: 60)
        for segments in [[exif, rest], [rest, exif]] {
            var body = Body(blocks: (0..<4).map { _ in [0, 255, 255, 0] })
            for segment in segments { body.segments += Body.segment(0xE1, segment) }
            #expect(try decode(body.data)?.size == ImageSize(width: 32, height: 8))
        }
    }

    /// lcms would prefer this table, and evaluates each of its elements for each pixel: 60,000 elements took 54 seconds.
    @Test func `the table of floating-point elements of a profile is not used`() throws {
        let blocks: [[UInt8]] = [[10, 200, 30, 40], [250, 1, 2, 3]]
        let expected = try decode(Body(blocks: blocks, profile: try Self.profile()).data)
        let profile = try Self.profile(elementCount: 100)
        #expect(try decode(Body(blocks: blocks, profile: profile).data) == expected)
    }

    @Test func `a damaged profile, or one for other colours, is ignored`() throws {
        let blocks: [[UInt8]] = [[10, 200, 30, 40], [250, 1, 2, 3]]
        let plain = try #require(try decode(Body(blocks: blocks).data))
        let profile = try Self.profile()
        var others = try ColorTests.Space.allCases.map { try $0.profile() }
        others += [Data(), profile.prefix(100), Data("nothing".utf8)]
        for other in others { #expect(try decode(Body(blocks: blocks, profile: other).data) == plain) }
        // Two halves of the profile, numbered wrongly, and then correctly.
        let halves = [profile.prefix(profile.count / 2), profile.dropFirst(profile.count / 2)]
        for (numbers, count) in [([1, 2], 3), ([0, 1], 2), ([2, 3], 2), ([1, 2], 0), ([2, 1], 2), ([1, 2], 2)] {
            var body = Body(blocks: blocks)
            for (half, number) in zip(halves, numbers) { body.segments += Body.part(number, of: count, Data(half)) }
            #expect((try decode(body.data) == plain) == (numbers != [1, 2] || count != 2), "\(numbers) of \(count)")
        }
        // Three components with a profile of inks.
        let colors = Body(blocks: [[10, 200, 30]])
        let inks = Body(blocks: colors.blocks, profile: profile)
        #expect(try decode(inks.data) == decode(colors.data))
        // No colours have two or five components.
        for count in [2, 5] {
            #expect(failure(Body(blocks: [[UInt8](repeating: 9, count: count)], profile: profile).data) != nil)
        }
    }

    @Test(arguments: [1, 3, 4])
    func `parts of a profile that do not belong together do not reach the decoder`(componentCount: Int) throws {
        let blocks = [[UInt8](repeating: 90, count: componentCount)]
        let plain = try #require(try decode(Body(blocks: blocks).data))
        let numbers = [0, 1, 2, 3, 128, 255]
        for count in numbers {
            for (first, second) in [(3, 1), (0, 255), (255, 1), (2, 2), (1, 0)] {
                var body = Body(blocks: blocks)
                body.segments = Body.part(first, of: count, Data(repeating: 7, count: 60_000))
                body.segments += Body.part(second, of: count, Data(repeating: 7, count: 900))
                body.segments += Body.segment(0xE1, Data("Exif\0\0II*\0".utf8) + Data(repeating: 0xFF, count: 40))
                #expect(try decode(body.data) == plain, "\(first), \(second) of \(count)")
            }
        }
        // gdk-pixbuf forgets its memory for a profile when it finds a segment of another kind, but not its size.
        var body = Body(blocks: blocks)
        body.segments =
            Body.part(1, of: 3, Data(repeating: 7, count: 1500)) + Body.segment(0xE2, Data(repeating: 1, count: 1500))
        body.segments += Body.part(3, of: 3, Data(repeating: 7, count: 900))
        #expect(try decode(body.data) == plain)
    }

    @Test func `a JPEG with a million segments is refused`() throws {
        var body = Body(blocks: [[90, 20, 200]])
        let plain = try decode(body.data)
        // A restart interval of zero, which the decoder gets, and a comment, which it does not get.
        let pair = Body.segment(0xDD, Data([0, 0])) + Body.segment(0xFE, Data())
        body.segments = Data((0..<1000).map { _ in pair }.joined())
        #expect(try decode(body.data) == plain)
        body.segments = Data((0..<500_000).map { _ in pair }.joined())
        #expect(failure(body.data)?.localizedFailureReason == "The image is damaged: too many segments.")
    }

    @Test func `damaged JPEGs with inks never cause a crash`() throws {
        let whole = Body(blocks: Self.inks, adobe: 0, profile: try Self.profile(), partSize: 2000).data
        let head = try #require(whole.range(of: Data([0xFF, 0xDB]))).lowerBound
        var generator = SplitMix64(seed: 60)
        var images = 0
        for round in 0..<PropertyBudget.rounds(100) {
            var body = whole
            for _ in 0...(generator.next() % 4) {
                // Half of the changes are after the profile.
                let start = round % 2 == 0 ? head : 0
                let place = start + Int(generator.next() % UInt64(body.count - start))
                switch generator.next() % 4 {
                case 0: body.remove(at: place)
                case 1: body.insert(UInt8(truncatingIfNeeded: generator.next()), at: place)
                default: body[place] = UInt8(truncatingIfNeeded: generator.next())
                }
            }
            if round % 10 == 0 { body = body.prefix(Int(generator.next() % UInt64(body.count))) }
            do {
                guard let image = try decode(body) else { continue }
                images += 1
                #expect(image.pixels.count == image.bytesPerRow * image.height)
            } catch let error as NSError {
                #expect([NSURLErrorCannotDecodeContentData, NSURLErrorDataLengthExceedsMaximum].contains(error.code))
            }
        }
        #expect(images > 2)
    }
}
#endif
