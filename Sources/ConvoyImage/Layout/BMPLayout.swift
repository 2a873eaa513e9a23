#if Images
extension ImageLayout {
    /// BMP: a file header, one of the information headers, and rows or runs of pixels.
    static func bmp(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let pixels = try body.number(4, at: 10)
        let bitmap = try DeviceIndependentBitmap(body, at: 14)
        try limits.check(width: bitmap.width, height: bitmap.height)
        guard pixels >= 14 + bitmap.headerSize else { throw .malformed("pixels inside of the header") }
        switch bitmap.compression {
        case 0, 3: try body.require(bitmap.bytesPerRow * bitmap.height, at: max(pixels, 14 + bitmap.sizeBeforePixels))
        case 1, 2: try walkRuns(body, at: pixels, areNibbles: bitmap.compression == 2)
        default: throw .malformed("an unknown compression")
        }
        return ImageLayout(.bmp, width: bitmap.width, height: bitmap.height, pieces: [.range(0..<body.count)])
    }

    /// Goes through runs to the mark of the bitmap's end.
    private static func walkRuns(_ body: ImageBytes, at start: Int, areNibbles: Bool) throws(ImageFault) {
        var offset = start
        while true {
            let count = try body.byte(offset)
            let value = try body.byte(offset + 1)
            offset += 2
            guard count == 0 else { continue }
            switch value {
            case 0: break
            case 1: return
            case 2: offset += 2
            default: offset += areNibbles ? (value + 3) / 4 * 2 : (value + 1) / 2 * 2
            }
        }
    }
}

/// The header that bitmaps and icons share.
struct DeviceIndependentBitmap {
    let headerSize: Int
    let width: Int
    /// In an icon the colours and the mask together. Without the sign that tells the order of the rows.
    let height: Int
    let depth: Int
    let compression: Int
    let colors: Int

    /// The header and what follows it up to the pixels, if nothing stands in between.
    var sizeBeforePixels: Int {
        let masks = compression == 3 && headerSize == 40 ? 12 : 0
        return headerSize + masks + (depth <= 8 ? colors * (headerSize == 12 ? 3 : 4) : 0)
    }

    var bytesPerRow: Int { DeviceIndependentBitmap.bytesPerRow(width, depth: depth) }

    static func bytesPerRow(_ width: Int, depth: Int) -> Int { (width * depth + 31) / 32 * 4 }

    init(_ body: ImageBytes, at offset: Int) throws(ImageFault) {
        headerSize = try body.number(4, at: offset)
        guard [12, 40, 52, 56, 64, 108, 124].contains(headerSize) else { throw .malformed("an unknown header") }
        try body.require(headerSize, at: offset)
        let declared: Int
        if headerSize == 12 {
            width = try body.number(2, at: offset + 4)
            height = try body.number(2, at: offset + 6)
            depth = try body.number(2, at: offset + 10)
            compression = 0
            declared = 0
        } else {
            width = try body.signed(at: offset + 4)
            height = abs(try body.signed(at: offset + 8))
            depth = try body.number(2, at: offset + 14)
            compression = try body.number(4, at: offset + 16)
            declared = try body.number(4, at: offset + 32)
        }
        guard [1, 4, 8, 16, 24, 32].contains(depth) else { throw .malformed("an unknown depth") }
        if depth <= 8 {
            guard declared <= 1 << depth else { throw .malformed("too many colours") }
            colors = declared == 0 ? 1 << depth : declared
        } else {
            colors = declared
        }
    }
}
#endif
