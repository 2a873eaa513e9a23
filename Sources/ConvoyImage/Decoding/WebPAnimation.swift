#if Images
import CGdkPixbuf
import Foundation

/// A frame of an animated WebP (RFC 9649, section 2.7.1.1).
struct WebPFrame {
    let left: Int
    let top: Int
    let size: ImageSize
    /// Whether the frame is alpha-blended onto the canvas; otherwise it replaces the canvas.
    let isBlended: Bool
    /// Whether the area of the frame is cleared before the next frame.
    let isDisposed: Bool
    let milliseconds: Int
    /// The chunk with the alpha channel; nil for an opaque frame.
    var alpha: Range<Int>?
    /// The chunk with the image.
    var bitstream: Range<Int>

    /// Returns a file with the frame as its only image, as a single piece because the loader needs all headers at once.
    func file(in body: UnsafeRawBufferPointer) -> ImageLayout.Piece {
        func number(_ value: Int, _ count: Int) -> [UInt8] { (0..<count).map { UInt8(value >> ($0 * 8) & 255) } }
        var content = Array("WEBP".utf8)
        if let alpha {
            content += Array("VP8X".utf8) + number(10, 4) + number(0x10, 4)
            content += number(size.width - 1, 3) + number(size.height - 1, 3)
            content += body[alpha]
        }
        content += body[bitstream]
        return .bytes(Array("RIFF".utf8) + number(content.count, 4) + content)
    }
}

/// The canvas of an animation, onto which its frames are drawn. Pixels are red, green, blue and alpha.
///
/// gdk-pixbuf's WebP loader decodes all frames of an animation at once, each at the size of the canvas. Convoy decodes
/// them one by one, so that only two are in memory.
struct WebPCanvas {
    private let size: ImageSize
    private var pixels: [UInt8]
    /// The area that is cleared before the next frame.
    private var disposed: WebPFrame?

    init(_ size: ImageSize) {
        self.size = size
        pixels = [UInt8](repeating: 0, count: size.width * size.height * 4)
    }

    /// The current image of the canvas.
    var image: Image {
        Image(format: .webp, width: size.width, height: size.height, hasAlpha: true, pixels: Data(pixels))
    }

    /// Draws a frame, which must lie within the canvas.
    mutating func draw(_ frame: WebPFrame, _ image: Image) {
        if let disposed { clear(disposed) }
        disposed = frame.isDisposed ? frame : nil
        let channels = image.channels
        let width = size.width
        pixels.withUnsafeMutableBufferPointer { target in
            image.pixels.withUnsafeBytes { (source: UnsafeRawBufferPointer) in
                for y in 0..<frame.size.height {
                    var from = y * image.bytesPerRow
                    var to = ((frame.top + y) * width + frame.left) * 4
                    for _ in 0..<frame.size.width {
                        let alpha = channels == 4 ? Int(source[from + 3]) : 255
                        if alpha == 255 || !frame.isBlended {
                            for channel in 0..<3 { target[to + channel] = source[from + channel] }
                            target[to + 3] = UInt8(alpha)
                        } else if alpha > 0 {
                            // The colours of the frame and of the canvas are not premultiplied.
                            let below = (Int(target[to + 3]) * (255 - alpha) + 127) / 255
                            let sum = alpha + below
                            for channel in 0..<3 {
                                let color = Int(source[from + channel]) * alpha + Int(target[to + channel]) * below
                                target[to + channel] = UInt8((color + sum / 2) / sum)
                            }
                            target[to + 3] = UInt8(sum)
                        }
                        from += channels
                        to += 4
                    }
                }
            }
        }
    }

    private mutating func clear(_ frame: WebPFrame) {
        for y in frame.top..<(frame.top + frame.size.height) {
            let start = (y * size.width + frame.left) * 4
            for index in start..<(start + frame.size.width * 4) { pixels[index] = 0 }
        }
    }
}
#endif
