#if Images
/// What an image says of itself, read from its own structure without decoding anything.
///
/// gdk-pixbuf's loaders accept most images that are cut short, and some report the size of an image only after they
/// have made room for it. So each body is walked through beforehand, from its signature to its end. What the
/// pixels do not need is left out of what the decoder gets: it can be as good a bomb as the pixels.
struct ImageLayout {
    /// A part of what the decoder gets.
    enum Piece {
        /// A part of the body.
        case range(Range<Int>)
        /// Bytes that stand in for some of the body.
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

    /// What the body is.
    let format: ImageFormat
    /// What decodes it: an icon can have a PNG in it.
    var decoder: ImageFormat
    var width: Int
    var height: Int
    var pieces: [Piece]
    /// Whether the decoder gives colours that are multiplied by the alpha.
    var isPremultiplied = false
    /// How many pixels a number of an XBM stands for.
    var bitsPerNumber = 8

    init(_ format: ImageFormat, width: Int, height: Int, pieces: [Piece]) {
        self.format = format
        decoder = format
        self.width = width
        self.height = height
        self.pieces = pieces
    }

    /// The layout of a body whose format is found out by its first bytes.
    init(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) {
        switch try ImageLayout.format(of: body) {
        case .png: self = try .png(body, limits: limits)
        case .jpeg: self = try .jpeg(body, limits: limits)
        case .gif: self = try .gif(body, limits: limits)
        case .bmp: self = try .bmp(body, limits: limits)
        case .ico: self = try .ico(body, limits: limits)
        case .tiff: self = try .tiff(body, limits: limits)
        case .xbm: self = try .xbm(body, limits: limits)
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
        throw .unknownFormat
    }
}
#endif
