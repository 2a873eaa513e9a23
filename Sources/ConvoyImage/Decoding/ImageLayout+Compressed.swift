#if Images
extension ImageLayout {
    /// Parses a PNG (W3C, third edition, section 5): chunks, from IHDR to IEND.
    ///
    /// Only the chunks that are needed for the pixels are passed on, and one profile. libpng would decompress text as well,
    /// up to 8 MB for each of a thousand chunks.
    static func png(
        _ body: ImageBytes, at start: Int = 0, limits: ImageLimits, requiresEndMarker: Bool = true
    ) throws(ImageFault) -> ImageLayout {
        guard body.starts(with: pngSignature, at: start) else {
            throw body.count - start < pngSignature.count ? .truncated : .malformed("the PNG signature is missing")
        }
        let header = start + pngSignature.count
        guard try body.number(4, at: header, bigEndian: true) == 13, body.starts(with: name("IHDR"), at: header + 4)
        else { throw try body.isShort(25, at: header) ? .truncated : .malformed("the first chunk is not IHDR") }
        let width = try body.number(4, at: header + 8, bigEndian: true)
        let height = try body.number(4, at: header + 12, bigEndian: true)
        try limits.check(width: width, height: height)

        var pieces: [Piece] = []
        var kept = start..<header
        var offset = header
        var hasData = false
        var orientation = ImageOrientation.upright
        var colors = PNGColors()
        while true {
            if !requiresEndMarker, hasData, isCut(endChunk, in: body, at: offset) {
                pieces.append(.range(kept))
                kept = 0..<0
                pieces.append(.bytes(endChunk))
                break
            }
            let length = try body.number(4, at: offset, bigEndian: true)
            guard length <= Int(Int32.max) else { throw .malformed("a chunk is larger than 2 GiB") }
            let size = length + 12
            try body.require(size, at: offset)
            let name = body.text((offset + 4)..<(offset + 8))
            if wanted.contains(name) || (!hasData && name == "iCCP" && colors.takesProfile(length)) {
                if kept.upperBound != offset {
                    pieces.append(.range(kept))
                    kept = offset..<offset
                }
                kept = kept.lowerBound..<(offset + size)
            }
            switch name {
            case "IDAT": hasData = true
            case "eXIf": orientation = ImageOrientation(exif: body, (offset + 8)..<(offset + 8 + length))
            case "cICP" where !hasData && length >= 2:
                colors.codePoints = (try body.byte(offset + 8), try body.byte(offset + 9))
            default: break
            }
            if name == "IEND" { break }
            offset += size
        }
        guard hasData else { throw .malformed("no IDAT chunk") }
        if !kept.isEmpty { pieces.append(.range(kept)) }
        var layout = ImageLayout(.png, width: width, height: height, pieces: pieces)
        layout.orientation = orientation
        layout.colorSpace = colors.space
        return layout
    }

    /// Returns whether a body ends within a chunk that would be its last.
    private static func isCut(_ chunk: [UInt8], in body: ImageBytes, at offset: Int) -> Bool {
        let left = body.count - offset
        return left < chunk.count && body.starts(with: Array(chunk.prefix(left)), at: offset)
    }

    private static let endChunk: [UInt8] = [0, 0, 0, 0] + name("IEND") + [0xAE, 0x42, 0x60, 0x82]
    private static let wanted: Set<Substring> = ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"]
    private static func name(_ text: String) -> [UInt8] { Array(text.utf8) }
}

/// The colour space of a PNG. The chunk cICP takes precedence over iCCP (section 4.3).
private struct PNGColors {
    var codePoints: (primaries: Int, transfer: Int)?
    private var hasProfile = false

    /// Returns whether the decoder gets a profile with this compressed size. libpng expands it to at most 8 MB.
    mutating func takesProfile(_ length: Int) -> Bool {
        guard !hasProfile, codePoints == nil, length <= 1 << 20 else { return false }
        hasProfile = true
        return true
    }

    /// The colour space; nil for that of the profile, or else sRGB.
    var space: ImageColorSpace? {
        codePoints.map { .codePoints(primaries: $0.primaries, transfer: $0.transfer) }
    }
}

extension ImageBytes {
    func isShort(_ count: Int, at offset: Int) throws(ImageFault) -> Bool {
        do throws(ImageFault) {
            try require(count, at: offset)
            return false
        } catch {
            return true
        }
    }
}

extension ImageLayout {
    /// Parses a JPEG (ITU T.81, annex B): segments and scans, from SOI to EOI. Bytes after EOI are ignored.
    static func jpeg(
        _ body: ImageBytes, limits: ImageLimits, requiresEndMarker: Bool = true
    ) throws(ImageFault) -> ImageLayout {
        var size: (width: Int, height: Int)?
        var scans = 0
        var detail = JPEGDetail()
        var segments = JPEGSegments()
        var offset = 2
        while true {
            guard try body.byte(offset) == 0xFF else { throw .malformed("a marker is missing") }
            let marker = try body.byte(offset + 1)
            switch marker {
            case 0xFF:  // a marker may be preceded by any number of these
                offset += 1
            case 0x01, 0xD0...0xD7:
                offset += 2
            case 0xD9:
                guard let size, scans > 0 else { throw .malformed("no frame") }
                return try .jpeg(body, size, segments, segments.pieces(to: offset + 2))
            case 0x00, 0xD8:
                throw .malformed("misplaced marker")
            default:
                let length = try body.number(2, at: offset + 2, bigEndian: true)
                guard length >= 2 else { throw .malformed("invalid segment length") }
                try body.require(length, at: offset + 2)
                if 0xC0...0xCF ~= marker, marker != 0xC4, marker != 0xC8, marker != 0xCC {
                    guard size == nil, length >= 8 else { throw .malformed("invalid or second frame header") }
                    let height = try body.number(2, at: offset + 5, bigEndian: true)
                    let width = try body.number(2, at: offset + 7, bigEndian: true)
                    try limits.check(width: width, height: height)
                    size = (width, height)
                    segments.componentCount = try body.byte(offset + 9)
                    try detail.readFrame(body, at: offset + 4, isProgressive: marker == 0xC2)
                }
                if marker == 0xDA { try detail.readScan(body, at: offset + 4) }
                try segments.read(body, marker: marker, offset..<(offset + 2 + length))
                offset += 2 + length
                if marker == 0xDA {
                    scans += 1
                    // A scan of a few bytes costs a pass over the entire image.
                    guard let size else { throw .malformed("a scan precedes the frame header") }
                    guard scans <= maximumScans,
                        scans <= limits.maximumPassedPixelCount / (size.width * size.height)
                    else { throw .scans(scans, size.width, size.height) }
                    do throws(ImageFault) {
                        offset = try afterScan(body, at: offset)
                    } catch {
                        // No marker follows the scan.
                        guard !requiresEndMarker, detail.isComplete else { throw error }
                        return try .jpeg(withoutEnd: body, size, segments)
                    }
                }
            }
        }
    }

    private static func jpeg(
        _ body: ImageBytes, _ size: (width: Int, height: Int), _ segments: JPEGSegments, _ pieces: [Piece]
    ) throws(ImageFault) -> ImageLayout {
        var layout = ImageLayout(.jpeg, width: size.width, height: size.height, pieces: pieces)
        layout.orientation = segments.orientation
        layout.colorSpace = try segments.space(in: body)
        layout.inks = segments.inks
        return layout
    }

    private static let maximumScans = 100

    /// Returns the layout of a JPEG that ends with the data of a scan.
    ///
    /// libjpeg fills missing data with grey. If bytes that follow the data change the image, some of its data is missing.
    private static func jpeg(
        withoutEnd body: ImageBytes, _ size: (width: Int, height: Int), _ segments: JPEGSegments
    ) throws(ImageFault) -> ImageLayout {
        let pieces = segments.pieces(to: body.starts(with: [0xFF], at: body.count - 1) ? body.count - 1 : body.count)
        let marker: [UInt8] = [0xFF, 0xD9]
        var layout = try jpeg(body, size, segments, pieces + [.bytes(marker)])
        let excess = (0..<64).map { UInt8(($0 * 37 + 90) % 254) }
        layout.checkPieces = pieces + [.bytes(excess + marker)]
        return layout
    }

    /// Returns the number of complete scans of a progressive JPEG and the offset of their end, or nil if the image is
    /// not progressive or no scan is complete. The bytes up to that offset, followed by an end marker, form a JPEG with
    /// less detail.
    static func wholeScans(ofProgressive body: ImageBytes) -> (end: Int, count: Int)? {
        guard body.starts(with: [0xFF, 0xD8]) else { return nil }
        var whole: (end: Int, count: Int)?
        var offset = 2
        var scans = 0
        var isProgressive = false
        do throws(ImageFault) {
            while try body.byte(offset) == 0xFF {
                let marker = try body.byte(offset + 1)
                switch marker {
                case 0xFF: offset += 1
                case 0x01, 0xD0...0xD7: offset += 2
                case 0xD9, 0x00, 0xD8: return whole
                default:
                    let length = try body.number(2, at: offset + 2, bigEndian: true)
                    guard length >= 2 else { return whole }
                    if marker == 0xC2 { isProgressive = true }
                    offset += 2 + length
                    guard marker == 0xDA else { continue }
                    guard isProgressive else { return nil }
                    offset = try afterScan(body, at: offset)
                    scans += 1
                    whole = (offset, scans)
                }
            }
        } catch {
            // More bytes have yet to arrive.
        }
        return whole
    }

    /// Returns the offset of the next marker that is not part of the scan's data.
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

/// The detail with which the scans of a JPEG describe its components.
private struct JPEGDetail {
    /// The number of bits that are missing of each coefficient of a component.
    private var missingBits: [Int: [Int]] = [:]
    private var isProgressive = false

    /// Reads the components in a frame header (T.81, B.2.2).
    mutating func readFrame(_ body: ImageBytes, at offset: Int, isProgressive: Bool) throws(ImageFault) {
        self.isProgressive = isProgressive
        for component in 0..<(try body.byte(offset + 5)) {
            missingBits[try body.byte(offset + 6 + 3 * component)] = [Int](repeating: 16, count: 64)
        }
    }

    /// Reads a scan header (T.81, B.2.3). Only progressive scans contain parts of the coefficients.
    mutating func readScan(_ body: ImageBytes, at offset: Int) throws(ImageFault) {
        let count = try body.byte(offset)
        let end = offset + 1 + 2 * count
        let first = isProgressive ? try body.byte(end) : 0
        let last = isProgressive ? try body.byte(end + 1) : 63
        let bits = isProgressive ? try body.byte(end + 2) & 15 : 0
        guard first <= last, last < 64 else { throw .malformed("invalid scan header") }
        for component in 0..<count {
            let name = try body.byte(offset + 1 + 2 * component)
            for coefficient in first...last { missingBits[name]?[coefficient] = bits }
        }
    }

    /// Whether no further scan is needed.
    var isComplete: Bool { missingBits.values.allSatisfy { $0.allSatisfy { $0 == 0 } } }
}

extension ImageLayout {
    /// Parses a GIF (89a specification): a screen, then blocks up to the trailer.
    ///
    /// Unless the animation is requested, the decoder gets only the bytes up to the end of the first frame, and a
    /// trailer. The other frames are only checked: a frame of any size may take only a few bytes in the body.
    static func gif(
        _ body: ImageBytes, limits: ImageLimits, requiresEndMarker: Bool = true
    ) throws(ImageFault) -> ImageLayout {
        let width = try body.number(2, at: 6)
        let height = try body.number(2, at: 8)
        try limits.check(width: width, height: height)
        var offset = try 13 + colors(body.byte(10))
        var firstEnd: Int?
        var timing = AnimationTiming()
        var delay = 0
        /// The flags of the first frame.
        var control: Int?
        var hasEmptyFrame = false
        /// The size of a canvas that contains all frames.
        var extent = ImageSize(width: width, height: height)
        while true {
            let lacksEnd = !requiresEndMarker && firstEnd != nil && offset == body.count
            switch lacksEnd ? 0x3B : try body.byte(offset) {
            case 0x21:  // an extension: a label, then blocks
                let label = try body.byte(offset + 1)
                // The graphics control extension contains the duration of the next frame, in hundredths of a second.
                if label == 0xF9, try body.byte(offset + 2) >= 4 {
                    delay = try body.number(2, at: offset + 4) * 10
                    if firstEnd == nil { control = offset + 3 }
                }
                // Netscape's loop count is the number of times that the animation repeats.
                if label == 0xFF, body.starts(with: netscape, at: offset + 2), try body.byte(offset + 14) == 3,
                    try body.byte(offset + 15) == 1
                {
                    let count = try body.number(2, at: offset + 16)
                    timing.loopCount = count == 0 ? 0 : count + 1
                }
                offset = try afterBlocks(body, at: offset + 2)
            case 0x2C:  // a frame: nine bytes, colours, the code size, then blocks
                let frameWidth = try body.number(2, at: offset + 5)
                let frameHeight = try body.number(2, at: offset + 7)
                if firstEnd == nil { try limits.check(width: frameWidth, height: frameHeight) }
                let right = try body.number(2, at: offset + 1) + frameWidth
                let bottom = try body.number(2, at: offset + 3) + frameHeight
                if frameWidth == 0 || frameHeight == 0 { hasEmptyFrame = true }
                extent = ImageSize(width: max(extent.width, right), height: max(extent.height, bottom))
                let start = try offset + 10 + colors(body.byte(offset + 9))
                guard try body.byte(start) <= 11 else { throw .malformed("the code size is too large") }
                offset = try afterBlocks(body, at: start + 1)
                if firstEnd == nil { firstEnd = offset }
                timing.addFrame(milliseconds: delay)
                delay = 0
            case 0x3B:
                guard let firstEnd else { throw .malformed("no frame") }
                var pieces = [Piece.range(0..<firstEnd), .bytes([0x3B])]
                if let control {
                    // No frame follows, so the disposal method does not matter. If it requests restoring the area under
                    // a frame that extends beyond the image, the decoder reads out of bounds and logs a warning.
                    let flags = UInt8(try body.byte(control) & ~0x1C)
                    pieces = [.range(0..<control), .bytes([flags]), .range((control + 1)..<firstEnd), .bytes([0x3B])]
                }
                var layout = ImageLayout(.gif, width: width, height: height, pieces: pieces)
                let isExtended = extent != ImageSize(width: width, height: height)
                if timing.durations.count > 1, !hasEmptyFrame, !isExtended || limits.allows(extent) {
                    layout.timing = timing
                    layout.animationPieces = [.range(0..<offset), .bytes([0x3B])]
                }
                if isExtended, !layout.animationPieces.isEmpty {
                    // The decoder reads out of bounds if a frame extends beyond the canvas.
                    layout.cropsFrames = true
                    let sides = [extent.width & 255, extent.width >> 8, extent.height & 255, extent.height >> 8]
                    let canvas = sides.map { UInt8(truncatingIfNeeded: $0) }
                    layout.animationPieces = [.range(0..<6), .bytes(canvas), .range(10..<offset), .bytes([0x3B])]
                }
                return layout
            default:
                throw .malformed("unknown block type")
            }
        }
    }

    private static let netscape = [11] + Array("NETSCAPE2.0".utf8)

    /// Returns the length of the colour table, as specified by the flags.
    private static func colors(_ flags: Int) -> Int { flags & 0x80 == 0 ? 0 : 3 << (flags & 7 + 1) }

    private static func afterBlocks(_ body: ImageBytes, at start: Int) throws(ImageFault) -> Int {
        var offset = start
        while true {
            let size = try body.byte(offset)
            offset += 1 + size
            if size == 0 { return offset }
        }
    }
}
#endif
