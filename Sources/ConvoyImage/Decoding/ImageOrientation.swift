#if Images
import Foundation

/// The orientation in which an image is stored, as in the EXIF field of this name.
struct ImageOrientation: Equatable {
    /// The value of the field, from 1 to 8.
    let value: Int

    static let upright = ImageOrientation(value: 1)

    init(value: Int) { self.value = (1...8).contains(value) ? value : 1 }

    /// Whether the stored width is the height of the upright image.
    var swapsSides: Bool { value >= 5 }

    /// Reads the orientation of EXIF data (CIPA DC-008, section 4.6): a TIFF header, then a directory. Returns upright if
    /// the data has no orientation or is damaged, because the image can be shown nonetheless.
    init(exif body: ImageBytes, _ range: Range<Int>) {
        self = (try? Self.read(body, range)) ?? .upright
    }

    private static func read(_ body: ImageBytes, _ range: Range<Int>) throws(ImageFault) -> ImageOrientation {
        // Some programs keep the prefix with which a JPEG segment begins.
        let start = range.lowerBound + (body.starts(with: Array("Exif\0\0".utf8), at: range.lowerBound) ? 6 : 0)
        let isBigEndian = body.starts(with: Array("MM".utf8), at: start)
        guard isBigEndian || body.starts(with: Array("II".utf8), at: start) else { return .upright }
        let directory = try start + body.number(4, at: start + 4, bigEndian: isBigEndian)
        for entry in 0..<(try body.number(2, at: directory, bigEndian: isBigEndian)) {
            let offset = directory + 2 + 12 * entry
            guard offset + 12 <= range.upperBound else { break }
            guard try body.number(2, at: offset, bigEndian: isBigEndian) == 0x0112 else { continue }
            return ImageOrientation(value: try body.number(2, at: offset + 8, bigEndian: isBigEndian))
        }
        return .upright
    }
}

extension ImageSize {
    /// Returns the size after the image has been turned upright, or the inverse.
    func turned(_ orientation: ImageOrientation) -> ImageSize {
        orientation.swapsSides ? ImageSize(width: height, height: width) : self
    }
}

extension Image {
    /// Returns the image turned upright.
    func turned(upright orientation: ImageOrientation) -> Image {
        guard orientation != .upright else { return self }
        let target = size.turned(orientation)
        let (width, height, channels) = (width, height, channels)
        var turned = Data(count: pixels.count)
        turned.withUnsafeMutableBytes { (to: UnsafeMutableRawBufferPointer) in
            pixels.withUnsafeBytes { (from: UnsafeRawBufferPointer) in
                var offset = 0
                for y in 0..<target.height {
                    for x in 0..<target.width {
                        let (column, row) =
                            switch orientation.value {
                            case 2: (width - 1 - x, y)
                            case 3: (width - 1 - x, height - 1 - y)
                            case 4: (x, height - 1 - y)
                            case 5: (y, x)
                            case 6: (y, height - 1 - x)
                            case 7: (width - 1 - y, height - 1 - x)
                            default: (width - 1 - y, x)
                            }
                        let source = (row * width + column) * channels
                        for channel in 0..<channels { to[offset + channel] = from[source + channel] }
                        offset += channels
                    }
                }
            }
        }
        return Image(format: format, width: target.width, height: target.height, hasAlpha: hasAlpha, pixels: turned)
    }

    /// Returns a part of the image.
    func cropped(to size: ImageSize, left: Int, top: Int) -> Image {
        guard size != self.size else { return self }
        let perRow = size.width * channels
        var part = Data(capacity: perRow * size.height)
        pixels.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            for row in top..<(top + size.height) {
                let start = row * bytesPerRow + left * channels
                part.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[start..<(start + perRow)]))
            }
        }
        return Image(format: format, width: size.width, height: size.height, hasAlpha: hasAlpha, pixels: part)
    }
}
#endif
