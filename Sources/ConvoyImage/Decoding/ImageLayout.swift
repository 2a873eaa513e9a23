#if Images
/// The structure of an image, parsed without decoding pixels.
///
/// gdk-pixbuf's loaders accept most truncated images, and some report the size of an image only after allocating memory
/// for it. Each body is therefore parsed first, from its signature to its end. Parts that are not needed for the pixels
/// could be decompression bombs, so they are not passed to the decoder.
struct ImageLayout {
    /// A part of the decoder's input.
    enum Piece {
        /// A part of the body.
        case range(Range<Int>)
        /// Bytes that replace a part of the body.
        case bytes([UInt8])

        func withBytes<Result>(
            of body: UnsafeRawBufferPointer, _ use: (UnsafeRawBufferPointer) -> Result
        ) -> Result {
            switch self {
            case .range(let range): use(UnsafeRawBufferPointer(rebasing: body[range]))
            case .bytes(let bytes): bytes.withUnsafeBytes(use)
            }
        }
    }

    /// The format of the body.
    let format: ImageFormat
    /// The format passed to the decoder, which differs for an icon that contains a PNG.
    var decoder: ImageFormat
    var width: Int
    var height: Int
    var pieces: [Piece]
    /// Whether the decoder returns premultiplied colours.
    var isPremultiplied = false
    /// The number of pixels encoded in one number of an XBM.
    var bitsPerNumber = 8
    /// The durations of an animation's frames; empty for a single image.
    var timing = AnimationTiming()
    /// The decoder's input for an animation.
    var animationPieces: [Piece] = []
    /// Whether the decoder draws the frames on a larger canvas, because some extend beyond the image.
    var cropsFrames = false
    /// A second input, which must produce the same image; nil if that need not be checked.
    var checkPieces: [Piece]?
    /// The orientation, unless the decoder reports it.
    var orientation = ImageOrientation.upright
    /// The colour space, unless the decoder reports it.
    var colorSpace: ImageColorSpace?
    /// The samples of an image in cyan, magenta, yellow and black, which the decoder converts without a profile.
    var inks: ImageInks?
    /// The frames of an animated WebP, which are decoded one by one.
    var frames: [WebPFrame] = []

    init(_ format: ImageFormat, width: Int, height: Int, pieces: [Piece]) {
        self.format = format
        decoder = format
        self.width = width
        self.height = height
        self.pieces = pieces
    }

    /// Parses a body, whose first bytes determine the format. If the body may lack its end marker, the decoder gets one.
    init(_ body: ImageBytes, limits: ImageLimits, requiresEndMarker: Bool = true) throws(ImageFault) {
        switch try ImageLayout.format(of: body) {
        case .png: self = try .png(body, limits: limits, requiresEndMarker: requiresEndMarker)
        case .jpeg: self = try .jpeg(body, limits: limits, requiresEndMarker: requiresEndMarker)
        case .gif: self = try .gif(body, limits: limits, requiresEndMarker: requiresEndMarker)
        case .bmp: self = try .bmp(body, limits: limits)
        case .ico: self = try .ico(body, limits: limits)
        case .tiff: self = try .tiff(body, limits: limits)
        case .xbm: self = try .xbm(body, limits: limits)
        case .webp: self = try .webp(body, limits: limits)
        case .avif: self = try .avif(body, limits: limits)
        // Only the decoder knows the size, and reports it before it allocates memory.
        case .svg:
            guard limits.allowsSVG else { throw .unknownFormat }
            self.init(.svg, width: 1, height: 1, pieces: [.range(0..<body.count)])
        }
    }

    static let pngSignature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

    private static func format(of body: ImageBytes) throws(ImageFault) -> ImageFormat {
        if body.starts(with: pngSignature) { return .png }
        if body.starts(with: [0xFF, 0xD8]) { return .jpeg }
        if body.starts(with: Array("GIF87a".utf8)) || body.starts(with: Array("GIF89a".utf8)) { return .gif }
        if body.starts(with: Array("BM".utf8)) { return .bmp }
        if body.starts(with: [0, 0, 1, 0]) { return .ico }
        if body.starts(with: Array("II*\0".utf8)) || body.starts(with: Array("MM\0*".utf8)) { return .tiff }
        if body.starts(with: Array("#define".utf8)) || body.starts(with: Array("/*".utf8)) { return .xbm }
        if body.starts(with: Array("RIFF".utf8)), body.starts(with: Array("WEBP".utf8), at: 8) { return .webp }
        if body.starts(with: Array("ftyp".utf8), at: 4), isAVIF(body) { return .avif }
        if isSVG(body) { return .svg }
        throw .unknownFormat
    }

    /// Returns whether the first element of an XML document is `svg`. Declarations and comments may precede it.
    private static func isSVG(_ body: ImageBytes) -> Bool {
        let text = body.text(0..<min(body.count, 4096))
        let start = text.drop { $0.isWhitespace || $0 == "\u{FEFF}" }
        guard start.hasPrefix("<") else { return false }
        // The group is atomic, because otherwise each comment could end in many places.
        let markup = /\A(?>(?:<\?[^>]*\?>|<!--(?s:.*?)-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\]\s*)?>|\s)*)<(?:\w+:)?svg[\s>\/]/
        return start.firstMatch(of: markup) != nil
    }
}

/// The timing of an animation, as specified by its body.
struct AnimationTiming {
    /// The duration of each frame in seconds; empty if there are too many frames.
    private(set) var durations: [Double] = []
    private var isTooLong = false
    /// The maximum number of frames. A frame may take only ten bytes in a body, and thousands of times as much when
    /// decoded.
    static let mostFrames = 10_000
    /// The number of times the animation is played; 0 if it repeats forever.
    var loopCount = 1

    /// Adds a frame. Browsers show frames of 10 ms or less for 100 ms, and animations rely on that.
    mutating func addFrame(milliseconds: Int) {
        if durations.count == Self.mostFrames {
            durations = []
            isTooLong = true
        }
        if isTooLong { return }
        durations.append(milliseconds <= 10 ? 0.1 : max(0.02, Double(milliseconds) / 1000))
    }
}

/// The bytes of a body. Reading past the end throws ``ImageFault/truncated``.
struct ImageBytes {
    private let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var count: Int { bytes.count }

    /// Throws an error unless the body contains `count` bytes at an offset.
    func require(_ count: Int, at offset: Int) throws(ImageFault) {
        guard offset >= 0, count >= 0, offset <= bytes.count, count <= bytes.count - offset else { throw .truncated }
    }

    func byte(_ offset: Int) throws(ImageFault) -> Int {
        try require(1, at: offset)
        return Int(bytes[offset])
    }

    /// Returns an unsigned number of one to four bytes.
    func number(_ size: Int, at offset: Int, bigEndian: Bool = false) throws(ImageFault) -> Int {
        try require(size, at: offset)
        var value = 0
        for index in 0..<size { value = value << 8 | Int(bytes[offset + (bigEndian ? index : size - 1 - index)]) }
        return value
    }

    /// Returns a signed little-endian number of four bytes.
    func signed(at offset: Int) throws(ImageFault) -> Int {
        Int(Int32(truncatingIfNeeded: try number(4, at: offset)))
    }

    func starts(with prefix: [UInt8], at offset: Int = 0) -> Bool {
        guard offset >= 0, offset <= bytes.count, bytes.count - offset >= prefix.count else { return false }
        return prefix.indices.allSatisfy { bytes[offset + $0] == prefix[$0] }
    }

    /// Returns the first offset of a byte at or after an offset.
    func first(_ byte: UInt8, from offset: Int) throws(ImageFault) -> Int {
        guard offset <= bytes.count, let found = bytes[offset...].firstIndex(of: byte) else { throw .truncated }
        return found
    }

    /// Returns a range of the bytes as a string, replacing invalid UTF-8.
    func text(_ range: Range<Int>) -> Substring {
        Substring(decoding: UnsafeRawBufferPointer(rebasing: bytes[range.clamped(to: 0..<bytes.count)]), as: UTF8.self)
    }

    /// Returns a range of the bytes as an array.
    func array(_ range: Range<Int>) throws(ImageFault) -> [UInt8] {
        try require(range.count, at: range.lowerBound)
        return Array(bytes[range])
    }
}
#endif
