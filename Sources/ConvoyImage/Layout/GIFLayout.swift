#if Images
extension ImageLayout {
    /// GIF (89a specification): a screen, then blocks to the trailer.
    ///
    /// The decoder gets everything up to the end of the first frame, and a trailer. The other frames are only checked:
    /// gdk-pixbuf would keep every frame of an animation in memory, and a frame may take only a few bytes in the body.
    static func gif(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let width = try body.number(2, at: 6)
        let height = try body.number(2, at: 8)
        try limits.check(width: width, height: height)
        var offset = try 13 + colors(body.byte(10))
        var firstEnd: Int?
        while true {
            switch try body.byte(offset) {
            case 0x21:  // an extension: a label, then blocks
                offset = try afterBlocks(body, at: offset + 2)
            case 0x2C:  // a frame: nine bytes, colours, the code size, then blocks
                let frameWidth = try body.number(2, at: offset + 5)
                let frameHeight = try body.number(2, at: offset + 7)
                if firstEnd == nil { try limits.check(width: frameWidth, height: frameHeight) }
                let start = try offset + 10 + colors(body.byte(offset + 9))
                guard try body.byte(start) <= 11 else { throw .malformed("codes of too many bits") }
                offset = try afterBlocks(body, at: start + 1)
                if firstEnd == nil { firstEnd = offset }
            case 0x3B:
                guard let firstEnd else { throw .malformed("no frame") }
                return ImageLayout(
                    .gif, width: width, height: height, pieces: [.range(0..<firstEnd), .bytes([0x3B])])
            default:
                throw .malformed("an unknown block")
            }
        }
    }

    /// The length of the colour table that the flags specify.
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
