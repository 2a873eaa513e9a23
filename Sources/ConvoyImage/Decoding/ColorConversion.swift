#if Images
import CLCMS
import ConvoySupport
import Foundation

/// The colour space in which an image is stored.
enum ImageColorSpace: Hashable, Sendable {
    /// The space described by an ICC profile (ISO 15076-1).
    case profile(Data)
    /// The space described by two code points of ITU-T H.273: the primaries and the transfer characteristics.
    case codePoints(primaries: Int, transfer: Int)

    /// The size of the largest profile that is used. Profiles with tables for printing are smaller.
    static let mostProfileBytes = 4 << 20

    /// The size of the profile.
    fileprivate var byteCount: Int { if case .profile(let data) = self { data.count } else { 0 } }

    /// Returns the space of a profile in a body; nil if the profile is too large.
    static func profile(of body: ImageBytes, _ range: Range<Int>) throws(ImageFault) -> ImageColorSpace? {
        range.count <= mostProfileBytes ? .profile(Data(try body.array(range))) : nil
    }
}

/// A conversion of pixels to sRGB, by Little CMS.
final class ColorConversion: Sendable {
    // A transform that is created without its own cache can be used from several threads.
    private nonisolated(unsafe) let transform: cmsHTRANSFORM
    /// Whether the profile describes only grey.
    private let isGrey: Bool

    private init(_ transform: cmsHTRANSFORM, isGrey: Bool) {
        self.transform = transform
        self.isGrey = isGrey
    }

    deinit { cmsDeleteTransform(transform) }

    /// The samples of a pixel.
    private enum Samples: Hashable {
        /// Red, green and blue, and possibly alpha.
        case screen(channels: Int)
        /// Cyan, magenta, yellow and black.
        case inks(ImageInks)
    }

    private struct Key: Hashable {
        var space: ImageColorSpace
        var samples: Samples
    }

    /// The conversions used last, because all pictures of a camera have the same profile. A value is nil if pixels do not
    /// change or the profile is invalid.
    private static let recent = Locked<[Key: ColorConversion?]>([:])
    private static let mostRecent = 16
    /// The maximum size of the profiles that are kept, because hostile images can have large ones.
    static let mostRecentBytes = 8 << 20
    /// The size of the profiles that are kept.
    static var recentBytes: Int { recent.withLock { $0.keys.reduce(0) { $0 + $1.space.byteCount } } }

    /// Returns an image in sRGB. If the profile is damaged or for other colours than those of the image, the image is
    /// unchanged.
    static func convert(_ image: Image, from space: ImageColorSpace?) -> Image {
        guard let space, let conversion = conversion(for: Key(space: space, samples: .screen(channels: image.channels))),
            !conversion.isGrey || image.isGrey
        else { return image }
        // Alpha is copied here, because a transform leaves extra samples as they are.
        var pixels = Data(image.pixels)
        pixels.withUnsafeMutableBytes { bytes in
            // A transform takes at most 4 billion pixels.
            cmsDoTransform(conversion.transform, bytes.baseAddress, bytes.baseAddress, UInt32(image.width * image.height))
        }
        return Image(
            format: image.format, width: image.width, height: image.height, hasAlpha: image.hasAlpha, pixels: pixels)
    }

    /// Returns the conversion of cyan, magenta, yellow and black; nil if the space is not one of inks.
    static func conversion(from space: ImageColorSpace, _ inks: ImageInks) -> ColorConversion? {
        conversion(for: Key(space: space, samples: .inks(inks)))
    }

    /// Converts pixels with four inks to pixels with red, green and blue.
    func convert(_ inks: UnsafePointer<UInt8>, to colors: UnsafeMutableRawPointer, count: Int) {
        cmsDoTransform(transform, inks, colors, UInt32(count))
    }

    private static func conversion(for key: Key) -> ColorConversion? {
        if let known = recent.withLock({ $0[key] }) { return known }
        let made = make(key)
        recent.withLock { recent in
            let size = recent.keys.reduce(key.space.byteCount) { $0 + $1.space.byteCount }
            if recent.count >= mostRecent || size > mostRecentBytes { recent = [:] }
            recent[key] = .some(made)
        }
        return made
    }

    private static func make(_ key: Key) -> ColorConversion? {
        guard let source = profile(of: key.space) else { return nil }
        defer { cmsCloseProfile(source) }
        let space = cmsGetColorSpace(source)
        guard let formats = formats(of: key.samples, in: space), let target = cmsCreate_sRGBProfile() else { return nil }
        defer { cmsCloseProfile(target) }
        guard
            let transform = cmsCreateTransform(
                source, formats.input, target, formats.output, UInt32(INTENT_PERCEPTUAL), UInt32(cmsFLAGS_NOCACHE))
        else { return nil }
        let conversion = ColorConversion(transform, isGrey: space == cmsSigGrayData)
        if case .screen(let channels) = key.samples, conversion.isIdentity(channels: channels) { return nil }
        return conversion
    }

    /// Returns the formats of the samples; nil if the space of a profile has other samples.
    private static func formats(of samples: Samples, in space: cmsColorSpaceSignature) -> (input: UInt32, output: UInt32)? {
        switch samples {
        case .screen(let channels) where space == cmsSigRgbData || space == cmsSigGrayData:
            // The decoder delivers grey as three equal samples.
            let isGrey = space == cmsSigGrayData
            let input = convoy_color_format(isGrey ? 1 : 0, Int32(channels) - (isGrey ? 1 : 3))
            return (input, convoy_color_format(0, Int32(channels) - 3))
        case .inks(let inks) where space == cmsSigCmykData:
            return (convoy_ink_format(inks == .inverted ? 1 : 0), convoy_color_format(0, 0))
        default: return nil
        }
    }

    /// Whether no colour changes by more than rounding, as with a profile of sRGB itself.
    private func isIdentity(channels: Int) -> Bool {
        let steps: [UInt8] = [0, 64, 128, 192, 255]
        var before: [UInt8] = []
        for red in steps {
            for green in steps {
                for blue in steps { before += [red, green, blue, 255].prefix(channels) }
            }
        }
        var after = before
        after.withUnsafeMutableBytes { bytes in
            cmsDoTransform(transform, bytes.baseAddress, bytes.baseAddress, UInt32(bytes.count / channels))
        }
        return zip(before, after).allSatisfy { abs(Int($0) - Int($1)) <= 1 }
    }

    // MARK: Profiles

    private static func profile(of space: ImageColorSpace) -> cmsHPROFILE? {
        switch space {
        case .profile(let data):
            guard data.count <= ImageColorSpace.mostProfileBytes else { return nil }
            let profile = data.withUnsafeBytes { cmsOpenProfileFromMem($0.baseAddress, UInt32($0.count)) }
            // This tag can describe a pipeline of half a million elements, which is evaluated for each point of a table.
            // Little CMS then uses the tag AToB0.
            if let profile { _ = cmsWriteTag(profile, cmsSigDToB0Tag, nil) }
            return profile
        case .codePoints(let primaries, let transfer):
            guard let corners = corners[primaries], let curve = curve(transfer) else { return nil }
            defer { cmsFreeToneCurve(curve) }
            var white = cmsCIExyY(x: 0.3127, y: 0.3290, Y: 1)
            var triple = cmsCIExyYTRIPLE(
                Red: cmsCIExyY(x: corners[0].x, y: corners[0].y, Y: 1),
                Green: cmsCIExyY(x: corners[1].x, y: corners[1].y, Y: 1),
                Blue: cmsCIExyY(x: corners[2].x, y: corners[2].y, Y: 1))
            var curves: [OpaquePointer?] = [curve, curve, curve]
            return cmsCreateRGBProfile(&white, &triple, &curves)
        }
    }

    /// The chromaticities of red, green and blue of the primaries with white D65 (H.273, table 2).
    private static let corners: [Int: [(x: Double, y: Double)]] = [
        1: [(0.640, 0.330), (0.300, 0.600), (0.150, 0.060)],
        9: [(0.708, 0.292), (0.170, 0.797), (0.131, 0.046)],
        12: [(0.680, 0.320), (0.265, 0.690), (0.150, 0.060)],
    ]

    /// Returns a transfer function (H.273, table 3); nil for unspecified functions and for those of high dynamic range.
    /// Images with the function of television (1, 6, 14, 15) are made for screens, so they get that of sRGB, as in browsers.
    private static func curve(_ transfer: Int) -> OpaquePointer? {
        switch transfer {
        case 1, 6, 13, 14, 15:
            var parameters = [2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045]
            return cmsBuildParametricToneCurve(nil, 4, &parameters)
        case 4: return cmsBuildGamma(nil, 2.2)
        case 5: return cmsBuildGamma(nil, 2.8)
        case 8: return cmsBuildGamma(nil, 1)
        default: return nil
        }
    }
}

extension Image {
    /// Whether all pixels are shades of grey.
    fileprivate var isGrey: Bool {
        pixels.withUnsafeBytes { bytes in
            stride(from: 0, to: bytes.count - 2, by: channels).allSatisfy {
                bytes[$0] == bytes[$0 + 1] && bytes[$0] == bytes[$0 + 2]
            }
        }
    }
}
#endif
