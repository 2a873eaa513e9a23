#if Images
import Foundation

/// The meaning of the samples of an image in cyan, magenta, yellow and black.
enum ImageInks {
    /// 255 is full ink.
    case direct
    /// 255 is no ink, as in files with the marker of Adobe. libjpeg uses the same rule.
    case inverted
}

/// The segments of a JPEG that describe its colours and its orientation.
///
/// The decoder gets neither these segments nor comments: gdk-pixbuf 2.42 writes out of bounds if another segment is between
/// the parts of a profile.
struct JPEGSegments {
    /// The number of components, such as red, green and blue.
    var componentCount = 0
    private(set) var orientation = ImageOrientation.upright
    private var isInverted = false
    /// The parts of the profile, by their numbers (ISO 15076-1, annex B.4).
    private var parts: [Int: Range<Int>] = [:]
    private var partCount = 0
    /// The input of the decoder, up to a segment that it does not get.
    private var pieces: [ImageLayout.Piece] = []
    private var start = 0
    /// The maximum number of pieces. A piece takes more memory than a segment of four bytes.
    private static let mostPieces = 10_000

    private static let exif = Array("Exif\0\0".utf8)
    private static let profile = Array("ICC_PROFILE\0".utf8)
    private static let adobe = Array("Adobe".utf8)

    /// Reads a segment, from its marker to its end.
    mutating func read(_ body: ImageBytes, marker: Int, _ segment: Range<Int>) throws(ImageFault) {
        let content = (segment.lowerBound + 4)..<segment.upperBound
        func begins(with name: [UInt8], length: Int) -> Bool {
            content.count >= length && body.starts(with: name, at: content.lowerBound)
        }
        switch marker {
        case 0xE1 where begins(with: Self.exif, length: Self.exif.count):
            // Long data continues in further segments, which have no orientation.
            if orientation == .upright { orientation = ImageOrientation(exif: body, content) }
        case 0xE2 where begins(with: Self.profile, length: Self.profile.count + 2):
            let numbers = content.lowerBound + Self.profile.count
            partCount = try body.byte(numbers + 1)
            parts[try body.byte(numbers)] = (numbers + 2)..<content.upperBound
        case 0xEE where begins(with: Self.adobe, length: 12): isInverted = true
        default: break
        }
        // The markers of JFIF (APP0) and Adobe (APP14) determine the colours of the decoder.
        guard 0xE1...0xED ~= marker || marker == 0xEF || marker == 0xFE else { return }
        if start < segment.lowerBound { pieces.append(.range(start..<segment.lowerBound)) }
        start = segment.upperBound
        guard pieces.count <= Self.mostPieces else { throw .malformed("too many segments") }
    }

    /// Returns the input of the decoder up to an offset.
    func pieces(to end: Int) -> [ImageLayout.Piece] { start < end ? pieces + [.range(start..<end)] : pieces }

    /// The meaning of the samples, if the image has four components.
    var inks: ImageInks? { componentCount == 4 ? isInverted ? .inverted : .direct : nil }

    /// Returns the space of the profile; nil if it is missing, incomplete or too large.
    func space(in body: ImageBytes) throws(ImageFault) -> ImageColorSpace? {
        guard partCount > 0, parts.count == partCount,
            parts.values.reduce(0, { $0 + $1.count }) <= ImageColorSpace.mostProfileBytes
        else { return nil }
        var profile = Data()
        for number in 1...partCount {
            guard let part = parts[number] else { return nil }
            profile.append(contentsOf: try body.array(part))
        }
        return .profile(profile)
    }
}
#endif
