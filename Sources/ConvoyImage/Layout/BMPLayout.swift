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

    /// Skips the runs up to the end-of-bitmap marker.
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
#endif
