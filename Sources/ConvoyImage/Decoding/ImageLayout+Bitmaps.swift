#if Images
extension ImageLayout {
    /// Parses a BMP: a file header, one of the information headers, and rows or runs of pixels.
    static func bmp(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let pixels = try body.number(4, at: 10)
        let bitmap = try DeviceIndependentBitmap(body, at: 14)
        try limits.check(width: bitmap.width, height: bitmap.height)
        guard pixels >= 14 + bitmap.headerSize else { throw .malformed("the pixels overlap the header") }
        switch bitmap.compression {
        case 0, 3: try body.require(bitmap.bytesPerRow * bitmap.height, at: max(pixels, 14 + bitmap.sizeBeforePixels))
        case 1, 2: try walkRuns(body, at: pixels, areNibbles: bitmap.compression == 2)
        default: throw .malformed("unsupported compression")
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

extension ImageLayout {
    /// Parses a Windows icon: a directory of pictures, each of which is a bitmap without a file header or a complete
    /// PNG.
    ///
    /// The decoder gets an icon that contains only the largest picture, so it decodes the picture that was checked.
    /// gdk-pixbuf's icon loader does not support PNG pictures; these are passed to the PNG loader.
    static func ico(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let count = try body.number(2, at: 4)
        guard count > 0 else { throw .malformed("the icon is empty") }
        try body.require(count * 16, at: 6)
        // Read only the headers of the pictures here, because all entries could point to the same large picture.
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
        // A height of 1 means 0 rows of colours, which the decoder treats as 256.
        guard bitmap.headerSize == 40, bitmap.compression == 0, bitmap.width > 0, bitmap.height > 1 else {
            throw .malformed("unsupported picture type")
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

/// The information header shared by bitmaps and icons.
struct DeviceIndependentBitmap {
    let headerSize: Int
    let width: Int
    /// The absolute height; the sign specifies the order of the rows. In an icon, it counts the rows of colours and
    /// mask.
    let height: Int
    let depth: Int
    let compression: Int
    let colors: Int

    /// The size of the header with its masks and colour table, where the pixels may begin.
    var sizeBeforePixels: Int {
        let masks = compression == 3 && headerSize == 40 ? 12 : 0
        return headerSize + masks + (depth <= 8 ? colors * (headerSize == 12 ? 3 : 4) : 0)
    }

    var bytesPerRow: Int { DeviceIndependentBitmap.bytesPerRow(width, depth: depth) }

    static func bytesPerRow(_ width: Int, depth: Int) -> Int { (width * depth + 31) / 32 * 4 }

    init(_ body: ImageBytes, at offset: Int) throws(ImageFault) {
        headerSize = try body.number(4, at: offset)
        guard [12, 40, 52, 56, 64, 108, 124].contains(headerSize) else { throw .malformed("unsupported header") }
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
        guard [1, 4, 8, 16, 24, 32].contains(depth) else { throw .malformed("unsupported colour depth") }
        if depth <= 8 {
            guard declared <= 1 << depth else { throw .malformed("too many colours") }
            colors = declared == 0 ? 1 << depth : declared
        } else {
            colors = declared
        }
    }
}

extension ImageLayout {
    /// Parses an X bitmap: C source, with the size in two definitions and the bits in an array.
    static func xbm(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let brace = try body.first(0x7B, from: 0)
        // This is a generous limit for definitions and comments.
        guard brace <= 4096 else { throw .malformed("the header is too long") }
        var sizes: [String: Int] = [:]
        let header = body.text(0..<brace)
        for line in header.split(whereSeparator: \.isNewline) {
            let words = line.split { $0 == " " || $0 == "\t" }
            guard words.count >= 3, words[0] == "#define", let value = Int(words[2]) else { continue }
            let name = words[1].split(separator: "_").last.map(String.init) ?? ""
            guard sizes.updateValue(value, forKey: name) == nil else { throw .malformed("duplicate definition") }
        }
        guard let width = sizes["width"], let height = sizes["height"] else { throw .malformed("the size is missing") }
        try limits.check(width: width, height: height)

        let end = try body.first(0x7D, from: brace)
        // X10 wrote two-byte numbers.
        var layout = ImageLayout(.xbm, width: width, height: height, pieces: [.range((brace + 1)..<end)])
        layout.bitsPerNumber = header.contains(" short ") ? 16 : 8
        return layout
    }
}

extension ImageLayout {
    /// Parses a TIFF 6.0: a directory of fields, which specify the locations of the strips or tiles. Only the first
    /// directory is used.
    ///
    /// libtiff decompresses a complete strip or tile in one step, so the size of strips and tiles is limited as well.
    static func tiff(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let directory = try TIFFDirectory(body)
        guard let width = try directory.first(256), let height = try directory.first(257) else {
            throw .malformed("the size is missing")
        }
        try limits.check(width: width, height: height)
        let samples = try directory.first(277) ?? 1
        let depth = try directory.values(258)?.max() ?? 1
        guard (1...64).contains(samples), (1...64).contains(depth), samples * depth <= 64 else {
            throw .malformed("too many samples")
        }

        if let tileWidth = try directory.first(322), let tileHeight = try directory.first(323) {
            // Tiles may extend beyond the edges. A tile much larger than the image is rejected, as it may be a
            // decompression bomb.
            let (count, overflow) = tileWidth.multipliedReportingOverflow(by: tileHeight)
            guard tileWidth > 0, tileHeight > 0, !overflow, count <= max(1 << 20, 4 * width * height) else {
                throw .malformed("invalid tile size")
            }
        }
        var offsets = try directory.values(273)
        if offsets == nil { offsets = try directory.values(324) }
        var counts = try directory.values(279)
        if counts == nil { counts = try directory.values(325) }
        guard let offsets, let counts, offsets.count == counts.count else { throw .malformed("the strips are missing") }
        for (offset, count) in zip(offsets, counts) { try body.require(count, at: offset) }
        var layout = ImageLayout(.tiff, width: width, height: height, pieces: [.range(0..<body.count)])
        // The pixels are premultiplied for either kind of alpha: libtiff premultiplies them if the file does not, and
        // gdk-pixbuf does not undo that.
        if let extra = try directory.first(338) { layout.isPremultiplied = extra == 1 || extra == 2 }
        return layout
    }
}

/// The first directory of a TIFF.
private struct TIFFDirectory {
    private struct Field {
        let size: Int
        let count: Int
        let offset: Int
    }

    private let body: ImageBytes
    private let isBigEndian: Bool
    private var fields: [Int: Field] = [:]

    init(_ body: ImageBytes) throws(ImageFault) {
        self.body = body
        isBigEndian = body.starts(with: [0x4D])
        let start = try body.number(4, at: 4, bigEndian: isBigEndian)
        let count = try body.number(2, at: start, bigEndian: isBigEndian)
        try body.require(count * 12, at: start + 2)
        for index in 0..<count {
            let entry = start + 2 + index * 12
            let tag = try body.number(2, at: entry, bigEndian: isBigEndian)
            guard TIFFDirectory.wanted.contains(tag) else { continue }
            // Readers differ in which of two duplicate fields they use, so this parser might disagree with libtiff.
            guard fields[tag] == nil else { throw .malformed("duplicate field") }
            let size: Int
            switch try body.number(2, at: entry + 2, bigEndian: isBigEndian) {
            case 1: size = 1
            case 3: size = 2
            case 4: size = 4
            default: throw .malformed("unknown field type")
            }
            let values = try body.number(4, at: entry + 4, bigEndian: isBigEndian)
            guard values > 0 else { throw .malformed("a field has no values") }
            let isInline = values * size <= 4
            let offset = isInline ? entry + 8 : try body.number(4, at: entry + 8, bigEndian: isBigEndian)
            try body.require(values * size, at: offset)
            fields[tag] = Field(size: size, count: values, offset: offset)
        }
    }

    /// The tags of width, height, bits, offsets of strips, samples, rows per strip, lengths of strips, the same for
    /// tiles, and alpha.
    private static let wanted: Set<Int> = [256, 257, 258, 273, 277, 278, 279, 322, 323, 324, 325, 338]

    func first(_ tag: Int) throws(ImageFault) -> Int? {
        guard let field = fields[tag] else { return nil }
        return try body.number(field.size, at: field.offset, bigEndian: isBigEndian)
    }

    func values(_ tag: Int) throws(ImageFault) -> [Int]? {
        guard let field = fields[tag] else { return nil }
        guard field.count <= 1 << 20 else { throw .malformed("too many strips") }
        var result: [Int] = []
        result.reserveCapacity(field.count)
        for index in 0..<field.count {
            result.append(
                try body.number(field.size, at: field.offset + index * field.size, bigEndian: isBigEndian))
        }
        return result
    }
}
#endif
