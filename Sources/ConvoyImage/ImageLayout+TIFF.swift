#if Images
extension ImageLayout {
    /// TIFF 6.0: a directory of fields, which specify where the strips or tiles are. Only the first directory is used.
    ///
    /// libtiff decompresses a strip or a tile at a time, so these must be small enough too.
    static func tiff(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let directory = try TIFFDirectory(body)
        guard let width = try directory.first(256), let height = try directory.first(257) else {
            throw .malformed("no size")
        }
        try limits.check(width: width, height: height)
        let samples = try directory.first(277) ?? 1
        let depth = try directory.values(258)?.max() ?? 1
        guard (1...64).contains(samples), (1...64).contains(depth), samples * depth <= 64 else {
            throw .malformed("too many samples")
        }

        if let tileWidth = try directory.first(322), let tileHeight = try directory.first(323) {
            // Tiles may extend beyond the edges, but one that is much larger than the image is refused, as it may be a
            // bomb.
            let (count, overflow) = tileWidth.multipliedReportingOverflow(by: tileHeight)
            guard tileWidth > 0, tileHeight > 0, !overflow, count <= max(1 << 20, 4 * width * height) else {
                throw .malformed("tiles of a wrong size")
            }
        }
        var offsets = try directory.values(273)
        if offsets == nil { offsets = try directory.values(324) }
        var counts = try directory.values(279)
        if counts == nil { counts = try directory.values(325) }
        guard let offsets, let counts, offsets.count == counts.count else { throw .malformed("no strips") }
        for (offset, count) in zip(offsets, counts) { try body.require(count, at: offset) }
        var layout = ImageLayout(.tiff, width: width, height: height, pieces: [.range(0..<body.count)])
        // With alpha of either kind: libtiff premultiplies if the file does not, and gdk-pixbuf does not undo that.
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
            // Readers differ in which of two equal fields counts, and this parser might differ from libtiff.
            guard fields[tag] == nil else { throw .malformed("a field twice") }
            let size: Int
            switch try body.number(2, at: entry + 2, bigEndian: isBigEndian) {
            case 1: size = 1
            case 3: size = 2
            case 4: size = 4
            default: throw .malformed("a field of an unknown type")
            }
            let values = try body.number(4, at: entry + 4, bigEndian: isBigEndian)
            guard values > 0 else { throw .malformed("a field of no values") }
            let isInline = values * size <= 4
            let offset = isInline ? entry + 8 : try body.number(4, at: entry + 8, bigEndian: isBigEndian)
            try body.require(values * size, at: offset)
            fields[tag] = Field(size: size, count: values, offset: offset)
        }
    }

    /// Width, height, bits, offsets of strips, samples, rows per strip, lengths of strips, the same for tiles, and
    /// alpha.
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
