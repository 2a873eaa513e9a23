#if Images
import Foundation

/// A decoder for X bitmaps.
///
/// gdk-pixbuf is not used: its loader parses the header differently, aborts the program if it cannot allocate
/// memory for the size, and uses a temporary file.
struct XBMDecoder {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    /// Decodes an image in which set bits are black and others white. The least significant bit of a number is the
    /// leftmost pixel.
    static func image(
        _ layout: ImageLayout, in body: UnsafeRawBufferPointer, limits: ImageLimits
    ) throws(ImageFault) -> Image {
        try limits.check(width: layout.width, height: layout.height)
        guard case .range(let range)? = layout.pieces.first else { throw .truncated }
        var decoder = XBMDecoder(bytes: UnsafeRawBufferPointer(rebasing: body[range]))
        let perRow = (layout.width + layout.bitsPerNumber - 1) / layout.bitsPerNumber
        // A number takes at least two bytes: a digit and a separator.
        guard perRow * layout.height <= (range.count + 1) / 2 else { throw .truncated }
        var pixels = [UInt8](repeating: 255, count: layout.width * 3 * layout.height)
        for row in 0..<layout.height {
            for number in 0..<perRow {
                guard let bits = try decoder.next() else { throw .truncated }
                let left = number * layout.bitsPerNumber
                for bit in 0..<min(layout.bitsPerNumber, layout.width - left) where bits >> bit & 1 == 1 {
                    let pixel = (row * layout.width + left + bit) * 3
                    pixels[pixel] = 0
                    pixels[pixel + 1] = 0
                    pixels[pixel + 2] = 0
                }
            }
        }
        while try decoder.next() != nil {}
        return Image(format: .xbm, width: layout.width, height: layout.height, hasAlpha: false, pixels: Data(pixels))
    }

    private init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Returns the next number, or nil at the end. All numbers are hexadecimal, even without `0x`, as in X's own
    /// reader.
    private mutating func next() throws(ImageFault) -> Int? {
        var value: Int?
        func append(_ digit: UInt8) { value = ((value ?? 0) << 4 | Int(digit)) & 0xFFFF }
        while offset < bytes.count {
            let byte = bytes[offset]
            offset += 1
            switch byte {
            case 0x30...0x39: append(byte - 0x30)
            case 0x41...0x46, 0x61...0x66: append((byte | 0x20) - 0x61 + 10)
            case 0x58, 0x78: guard value == 0 else { throw .malformed("invalid number") }
            case 0x20, 0x2C, 0x09, 0x0A, 0x0D: if let value { return value }
            default: throw .malformed("invalid number")
            }
        }
        return value
    }
}
#endif
