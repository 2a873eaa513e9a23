#if Images
extension ImageLayout {
    /// Parses a WebP (RFC 9649): a RIFF file that contains either a single bitstream, or a header followed by one
    /// bitstream per frame.
    static func webp(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let end = try 8 + body.number(4, at: 4)
        guard end >= 20, end % 2 == 0 else { throw .malformed("invalid file size (\(end) bytes)") }
        try body.require(end, at: 0)
        var layout: ImageLayout?
        var canvas: (width: Int, height: Int)?
        var isAnimation = false
        var timing = AnimationTiming()
        var frames: [WebPFrame] = []
        var orientation = ImageOrientation.upright
        var colorSpace: ImageColorSpace?
        var offset = 12
        while offset < end {
            guard end - offset >= 8 else { throw .malformed("incomplete chunk header") }
            let size = try body.number(4, at: offset + 4)
            let padded = size + size & 1
            guard padded <= end - offset - 8 else { throw .malformed("a chunk extends beyond the file") }
            let content = (offset + 8)..<(offset + 8 + size)
            switch body.text(offset..<(offset + 4)) {
            case "VP8X":
                guard offset == 12, size >= 10 else { throw .malformed("misplaced VP8X header") }
                let width = try body.number(3, at: offset + 12) + 1
                let height = try body.number(3, at: offset + 15) + 1
                try limits.check(width: width, height: height)
                canvas = (width, height)
                isAnimation = try body.byte(offset + 8) & 0x02 != 0
            case "ANIM":
                guard isAnimation, size >= 6 else { throw .malformed("misplaced ANIM chunk") }
                timing.loopCount = try body.number(2, at: offset + 12)
            case "ANMF":
                guard isAnimation, let canvas else { throw .malformed("misplaced animation frame") }
                let frame = try frame(body, content, canvas)
                timing.addFrame(milliseconds: frame.milliseconds)
                if frames.count < AnimationTiming.mostFrames { frames.append(frame) }
            case "VP8 ", "VP8L":
                guard layout == nil, !isAnimation else { throw .malformed("more than one image") }
                let (width, height) = try bitstreamSize(body, at: offset, size)
                try limits.check(width: width, height: height)
                if let canvas, canvas != (width, height) { throw .malformed("the image and canvas sizes differ") }
                layout = ImageLayout(.webp, width: width, height: height, pieces: [])
            case "EXIF": orientation = ImageOrientation(exif: body, content)
            case "ICCP" where colorSpace == nil: colorSpace = try .profile(of: body, content)
            default: break
            }
            offset += 8 + padded
        }
        if isAnimation, let canvas, !frames.isEmpty {
            layout = ImageLayout(.webp, width: canvas.width, height: canvas.height, pieces: [])
        }
        guard var layout else { throw .malformed("no image data") }
        layout.pieces = [.range(0..<end)]
        layout.frames = frames
        layout.timing = timing
        layout.orientation = orientation
        layout.colorSpace = colorSpace
        return layout
    }

    /// Parses a frame, which must lie within the canvas.
    private static func frame(
        _ body: ImageBytes, _ content: Range<Int>, _ canvas: (width: Int, height: Int)
    ) throws(ImageFault) -> WebPFrame {
        guard content.count >= 24 else { throw .malformed("an animation frame has no image") }
        let start = content.lowerBound
        let left = try body.number(3, at: start) * 2
        let top = try body.number(3, at: start + 3) * 2
        let width = try body.number(3, at: start + 6) + 1
        let height = try body.number(3, at: start + 9) + 1
        guard left + width <= canvas.width, top + height <= canvas.height else {
            throw .malformed("an animation frame extends beyond the canvas")
        }
        let flags = try body.byte(start + 15)
        var alpha: Range<Int>?
        var offset = start + 16
        while offset < content.upperBound {
            guard content.upperBound - offset >= 8 else { throw .malformed("incomplete chunk header") }
            let size = try body.number(4, at: offset + 4)
            guard size + size & 1 <= content.upperBound - offset - 8 else { throw .malformed("a chunk exceeds its frame") }
            let chunk = offset..<(offset + 8 + size + size & 1)
            switch body.text(offset..<(offset + 4)) {
            case "ALPH": alpha = chunk
            case "VP8 ", "VP8L":
                guard try bitstreamSize(body, at: offset, size) == (width, height) else {
                    throw .malformed("the size of a frame differs from that of its image")
                }
                let frameSize = ImageSize(width: width, height: height)
                return WebPFrame(
                    left: left, top: top, size: frameSize, isBlended: flags & 2 == 0, isDisposed: flags & 1 == 1,
                    milliseconds: try body.number(3, at: start + 12),
                    alpha: alpha, bitstream: chunk)
            default: break
            }
            offset = chunk.upperBound
        }
        throw .malformed("an animation frame has no image")
    }

    /// Returns the size in the header of a bitstream (RFC 6386, section 9.1; RFC 9649, section 3.4).
    private static func bitstreamSize(
        _ body: ImageBytes, at chunk: Int, _ size: Int
    ) throws(ImageFault) -> (width: Int, height: Int) {
        let start = chunk + 8
        if body.starts(with: Array("VP8L".utf8), at: chunk) {
            guard size >= 5, try body.byte(start) == 0x2F else { throw .malformed("no lossless image data") }
            let bits = try body.number(4, at: start + 1)
            guard bits >> 29 == 0 else { throw .malformed("unsupported version") }
            return (bits & 0x3FFF + 1, bits >> 14 & 0x3FFF + 1)
        }
        guard size >= 10, body.starts(with: [0x9D, 0x01, 0x2A], at: start + 3) else { throw .malformed("no image data") }
        let tag = try body.number(3, at: start)
        guard tag & 1 == 0 else { throw .malformed("no key frame") }
        guard tag >> 5 <= size - 10 else { throw .malformed("a partition extends beyond the image") }
        let width = try body.number(2, at: start + 6) & 0x3FFF
        let height = try body.number(2, at: start + 8) & 0x3FFF
        return (width, height)
    }
}
#endif
