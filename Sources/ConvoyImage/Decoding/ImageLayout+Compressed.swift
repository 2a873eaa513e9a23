#if Images
extension ImageLayout {
    /// Parses a PNG (W3C, third edition, section 5): chunks, from IHDR to IEND.
    ///
    /// Only the chunks that are needed for the pixels are passed on. libpng would decompress text and profiles as well,
    /// up to 8 MB for each of a thousand chunks.
    static func png(_ body: ImageBytes, at start: Int = 0, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
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
        while true {
            let length = try body.number(4, at: offset, bigEndian: true)
            guard length <= Int(Int32.max) else { throw .malformed("a chunk is larger than 2 GiB") }
            let size = length + 12
            try body.require(size, at: offset)
            if wanted.contains(where: { body.starts(with: $0, at: offset + 4) }) {
                if kept.upperBound != offset {
                    pieces.append(.range(kept))
                    kept = offset..<offset
                }
                kept = kept.lowerBound..<(offset + size)
            }
            if body.starts(with: name("IDAT"), at: offset + 4) { hasData = true }
            if body.starts(with: name("IEND"), at: offset + 4) { break }
            offset += size
        }
        guard hasData else { throw .malformed("no IDAT chunk") }
        pieces.append(.range(kept))
        return ImageLayout(.png, width: width, height: height, pieces: pieces)
    }

    private static let wanted = ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"].map(name)
    private static func name(_ text: String) -> [UInt8] { Array(text.utf8) }
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
    static func jpeg(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        var size: (width: Int, height: Int)?
        var scans = 0
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
                return ImageLayout(
                    .jpeg, width: size.width, height: size.height, pieces: [.range(0..<(offset + 2))])
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
                }
                offset += 2 + length
                if marker == 0xDA {
                    scans += 1
                    // A scan of a few bytes costs a pass over the entire image.
                    guard let size else { throw .malformed("a scan precedes the frame header") }
                    guard scans <= maximumScans,
                        scans <= limits.maximumPassedPixelCount / (size.width * size.height)
                    else { throw .scans(scans, size.width, size.height) }
                    offset = try afterScan(body, at: offset)
                }
            }
        }
    }

    private static let maximumScans = 100

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

extension ImageLayout {
    /// Parses a GIF (89a specification): a screen, then blocks up to the trailer.
    ///
    /// Unless the animation is requested, the decoder gets only the bytes up to the end of the first frame, and a
    /// trailer. The other frames are only checked: a frame of any size may take only a few bytes in the body.
    static func gif(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let width = try body.number(2, at: 6)
        let height = try body.number(2, at: 8)
        try limits.check(width: width, height: height)
        var offset = try 13 + colors(body.byte(10))
        var firstEnd: Int?
        var timing = AnimationTiming()
        var delay = 0
        /// The flags of the first frame.
        var control: Int?
        var areFramesInside = true
        while true {
            switch try body.byte(offset) {
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
                if right > width || bottom > height || frameWidth == 0 || frameHeight == 0 { areFramesInside = false }
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
                if timing.durations.count > 1, areFramesInside {
                    layout.timing = timing
                    layout.animationPieces = [.range(0..<(offset + 1))]
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
