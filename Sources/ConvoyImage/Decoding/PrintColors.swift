#if Images
import Foundation

/// The colours of a JPEG in cyan, magenta, yellow and black, and its orientation.
struct PrintColors {
    /// The space described by the image's profile.
    let space: ImageColorSpace
    /// Whether 255 is no ink, as in files with the marker of Adobe. libjpeg uses the same rule.
    let isInverted: Bool
    let orientation: ImageOrientation
}

/// The segments of a JPEG that describe its colours and its orientation. They are needed only for an image with four
/// components; gdk-pixbuf reads them for the others.
struct JPEGSegments {
    /// The number of components, such as red, green and blue.
    var componentCount = 0
    private var isInverted = false
    private var orientation = ImageOrientation.upright
    /// The parts of the profile, by their numbers (ISO 15076-1, annex B.4).
    private var parts: [Int: Range<Int>] = [:]
    private var partCount = 0

    private static let exif = Array("Exif\0\0".utf8)
    private static let profile = Array("ICC_PROFILE\0".utf8)
    private static let adobe = Array("Adobe".utf8)

    /// Reads the content of a segment.
    mutating func read(_ body: ImageBytes, marker: Int, _ content: Range<Int>) throws(ImageFault) {
        func begins(with name: [UInt8], length: Int) -> Bool {
            content.count >= length && body.starts(with: name, at: content.lowerBound)
        }
        switch marker {
        case 0xE1 where begins(with: Self.exif, length: Self.exif.count):
            orientation = ImageOrientation(exif: body, content)
        case 0xE2 where begins(with: Self.profile, length: Self.profile.count + 2):
            let numbers = content.lowerBound + Self.profile.count
            let (number, count) = (try body.byte(numbers), try body.byte(numbers + 1))
            partCount = count
            parts[number] = (numbers + 2)..<content.upperBound
        case 0xEE where begins(with: Self.adobe, length: 12): isInverted = true
        default: break
        }
    }

    /// Returns the colours of an image with four components; nil if its profile is missing, incomplete or too large.
    func printColors(in body: ImageBytes) throws(ImageFault) -> PrintColors? {
        guard componentCount == 4, partCount > 0, parts.count == partCount,
            parts.values.reduce(0, { $0 + $1.count }) <= ImageColorSpace.mostProfileBytes
        else { return nil }
        var profile = Data()
        for number in 1...partCount {
            guard let part = parts[number] else { return nil }
            profile.append(contentsOf: try body.array(part))
        }
        return PrintColors(space: .profile(profile), isInverted: isInverted, orientation: orientation)
    }
}
#endif
