#if Images
extension ImageLayout {
    /// JPEG (ITU T.81, annex B): segments and scans, from SOI to EOI. Anything after that is ignored.
    static func jpeg(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        var size: (width: Int, height: Int)?
        var scans = 0
        var offset = 2
        while true {
            guard try body.byte(offset) == 0xFF else { throw .malformed("no marker where one must be") }
            let marker = try body.byte(offset + 1)
            switch marker {
            case 0xFF:  // a marker may be preceded by any number of these
                offset += 1
            case 0x01, 0xD0...0xD7:
                offset += 2
            case 0xD9:
                guard let size, scans > 0 else { throw .malformed("no frame") }
                return ImageLayout(
                    .jpeg, width: size.width, height: size.height, pieces: [.range(0..<(offset + 2))])
            case 0x00, 0xD8:
                throw .malformed("a marker out of place")
            default:
                let length = try body.number(2, at: offset + 2, bigEndian: true)
                guard length >= 2 else { throw .malformed("a segment of no length") }
                try body.require(length, at: offset + 2)
                if 0xC0...0xCF ~= marker, marker != 0xC4, marker != 0xC8, marker != 0xCC {
                    guard size == nil, length >= 8 else { throw .malformed("a second frame") }
                    let height = try body.number(2, at: offset + 5, bigEndian: true)
                    let width = try body.number(2, at: offset + 7, bigEndian: true)
                    try limits.check(width: width, height: height)
                    size = (width, height)
                }
                offset += 2 + length
                if marker == 0xDA {
                    scans += 1
                    // A scan of a few bytes costs a pass over the whole image.
                    guard let size, scans <= maximumScans,
                        scans <= limits.maximumPassedPixelCount / (size.width * size.height)
                    else { throw .malformed("too many scans") }
                    offset = try afterScan(body, at: offset)
                }
            }
        }
    }

    private static let maximumScans = 100

    /// The offset of the next marker that is not part of the scan's data.
    private static func afterScan(_ body: ImageBytes, at start: Int) throws(ImageFault) -> Int {
        var offset = start
        while true {
            offset = try body.first(0xFF, from: offset)
            switch try body.byte(offset + 1) {
            case 0x00, 0xD0...0xD7: offset += 2
            case 0xFF: offset += 1
            default: return offset
            }
        }
    }
}
#endif
