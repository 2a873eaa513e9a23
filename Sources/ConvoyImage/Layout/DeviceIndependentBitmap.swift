#if Images
/// The header that bitmaps and icons share.
struct DeviceIndependentBitmap {
    let headerSize: Int
    let width: Int
    /// In an icon, the height of the colours and the mask together. Without the sign, which specifies the order of the
    /// rows.
    let height: Int
    let depth: Int
    let compression: Int
    let colors: Int

    /// The size of the header with its masks and colour table, which the pixels may follow directly.
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
