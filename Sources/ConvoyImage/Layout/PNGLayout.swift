#if Images
extension ImageLayout {
    /// PNG (W3C, third edition, section 5): chunks, from IHDR to IEND.
    ///
    /// Only the chunks that the pixels need are passed on: libpng would decompress text and profiles, up to 8 MB for
    /// each of a thousand chunks.
    static func png(_ body: ImageBytes, at start: Int = 0, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        guard body.starts(with: pngSignature, at: start) else {
            throw body.count - start < pngSignature.count ? .truncated : .malformed("no PNG signature")
        }
        let header = start + pngSignature.count
        guard try body.number(4, at: header, bigEndian: true) == 13, body.starts(with: name("IHDR"), at: header + 4)
        else { throw try body.isShort(25, at: header) ? .truncated : .malformed("no IHDR first") }
        let width = try body.number(4, at: header + 8, bigEndian: true)
        let height = try body.number(4, at: header + 12, bigEndian: true)
        try limits.check(width: width, height: height)

        var pieces: [Piece] = []
        var kept = start..<header
        var offset = header
        var hasData = false
        while true {
            let length = try body.number(4, at: offset, bigEndian: true)
            guard length <= Int(Int32.max) else { throw .malformed("a chunk of more than 2 GiB") }
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
        guard hasData else { throw .malformed("no IDAT") }
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
#endif
