#if Images
extension ImageLayout {
    /// A Windows icon: a directory of pictures, each a bitmap without a file header or a complete PNG.
    ///
    /// The decoder gets an icon with only the largest picture, so that it decodes the one that was checked.
    /// gdk-pixbuf's icon loader does not support PNG pictures, which are passed to the PNG loader.
    static func ico(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let count = try body.number(2, at: 4)
        guard count > 0 else { throw .malformed("an icon without pictures") }
        try body.require(count * 16, at: 6)
        // Only the pictures' headers are read for this: all entries could point to the same long picture.
        var best: (rank: (area: Int, depth: Int), entry: Int)?
        for index in 0..<count {
            let entry = 6 + index * 16
            let rank = try rank(body, at: body.number(4, at: entry + 12))
            if best.map({ $0.rank < rank }) ?? true { best = (rank, entry) }
        }
        let entry = best?.entry ?? 6
        let size = try body.number(4, at: entry + 8)
        let offset = try body.number(4, at: entry + 12)
        try body.require(size, at: offset)
        guard body.starts(with: pngSignature, at: offset) else {
            return try bitmap(body, entry: entry, at: offset, size: size, limits: limits)
        }
        let picture = try png(body, at: offset, limits: limits)
        var layout = ImageLayout(.ico, width: picture.width, height: picture.height, pieces: picture.pieces)
        layout.decoder = .png
        return layout
    }

    private static func rank(_ body: ImageBytes, at offset: Int) throws(ImageFault) -> (area: Int, depth: Int) {
        if body.starts(with: pngSignature, at: offset) {
            let width = try body.number(4, at: offset + 16, bigEndian: true)
            return (area(width, try body.number(4, at: offset + 20, bigEndian: true)), 32)
        }
        let bitmap = try DeviceIndependentBitmap(body, at: offset)
        return (area(bitmap.width, bitmap.height / 2), bitmap.depth)
    }

    private static func area(_ width: Int, _ height: Int) -> Int {
        let (area, overflow) = width.multipliedReportingOverflow(by: height)
        return overflow ? .max : area
    }

    private static func bitmap(
        _ body: ImageBytes, entry: Int, at offset: Int, size: Int, limits: ImageLimits
    ) throws(ImageFault) -> ImageLayout {
        let bitmap = try DeviceIndependentBitmap(body, at: offset)
        // A height of 1 would mean 0 rows of colours, which the decoder takes for 256.
        guard bitmap.headerSize == 40, bitmap.compression == 0, bitmap.width > 0, bitmap.height > 1 else {
            throw .malformed("a picture of an unknown kind")
        }
        let height = bitmap.height / 2
        try limits.check(width: bitmap.width, height: height)
        let colors = bitmap.bytesPerRow * height
        // With 32 bits the alpha is in the pixels, and the mask is sometimes omitted.
        let mask = bitmap.depth == 32 ? 0 : DeviceIndependentBitmap.bytesPerRow(bitmap.width, depth: 1) * height
        guard bitmap.depth <= 8 || bitmap.colors <= 256 else { throw .malformed("too many colours") }
        guard bitmap.headerSize + bitmap.colors * 4 + colors + mask <= size else { throw .truncated }
        // The size in the directory is often wrong, but the decoder relies on it. A byte of 0 means 256.
        var header: [UInt8] = [0, 0, 1, 0, 1, 0]
        header += [bitmap.width, height].map { $0 < 256 ? UInt8($0) : 0 }
        header += try body.array((entry + 2)..<(entry + 12))
        header += [22, 0, 0, 0]
        return ImageLayout(
            .ico, width: bitmap.width, height: height, pieces: [.bytes(header), .range(offset..<(offset + size))])
    }
}
#endif
