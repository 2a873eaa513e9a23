#if Images
import CJPEG
import Foundation

/// A decoder of JPEGs in cyan, magenta, yellow and black that have a profile.
///
/// gdk-pixbuf converts such colours without the profile, after which the original colours are unknown.
enum CMYKDecoder {
    /// Returns an image in sRGB, as stored and at a fraction of its size; nil if it has no profile that describes inks.
    static func image(
        _ layout: ImageLayout, _ pieces: [ImageLayout.Piece], in body: UnsafeRawBufferPointer, _ decoding: ImageDecoding
    ) throws(ImageFault) -> Image? {
        guard let inks = layout.inks, let space = layout.colorSpace,
            let conversion = ColorConversion.conversion(from: space, inks)
        else { return nil }
        let stored = ImageSize(width: layout.width, height: layout.height)
        let divisor = decoding.divisor(of: stored)
        let size = stored.divided(by: divisor)
        var pixels = Data(count: size.width * size.height * 3)
        let isDecoded = pixels.withUnsafeMutableBytes { target in
            let rows = CMYKRows(target, width: size.width, conversion, isCancelled: decoding.isCancelled)
            return withBytes(of: pieces, in: body) { bytes in
                withExtendedLifetime(rows) {
                    convoy_jpeg_decode_cmyk(
                        bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count, UInt32(divisor), UInt32(size.width),
                        UInt32(size.height), { CMYKRows.at($0)?.isCancelled() == true ? 1 : 0 },
                        { context, row in CMYKRows.at(context)?.add(row) }, Unmanaged.passUnretained(rows).toOpaque())
                }
            }
        }
        if decoding.isCancelled() { throw .cancelled }
        guard isDecoded != 0 else { throw .decoder("The JPEG cannot be decoded.") }
        return Image(format: .jpeg, width: size.width, height: size.height, hasAlpha: false, pixels: pixels)
    }

    private static func withBytes<Result>(
        of pieces: [ImageLayout.Piece], in body: UnsafeRawBufferPointer, _ use: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        if pieces.count == 1 { return pieces[0].withBytes(of: body, use) }
        var joined: [UInt8] = []
        for piece in pieces { piece.withBytes(of: body) { joined.append(contentsOf: $0) } }
        return joined.withUnsafeBytes(use)
    }
}

/// The rows of an image that are converted while it is decoded. Used by a single thread.
private final class CMYKRows {
    private let target: UnsafeMutableRawBufferPointer
    private let width: Int
    private let conversion: ColorConversion
    private var end = 0
    let isCancelled: () -> Bool

    init(
        _ target: UnsafeMutableRawBufferPointer, width: Int, _ conversion: ColorConversion,
        isCancelled: @escaping () -> Bool
    ) {
        self.target = target
        self.width = width
        self.conversion = conversion
        self.isCancelled = isCancelled
    }

    /// Converts the next row.
    func add(_ row: UnsafePointer<UInt8>?) {
        guard let row, let base = target.baseAddress, end + width * 3 <= target.count else { return }
        conversion.convert(row, to: base + end, count: width)
        end += width * 3
    }

    static func at(_ context: UnsafeMutableRawPointer?) -> CMYKRows? {
        context.map { Unmanaged<CMYKRows>.fromOpaque($0).takeUnretainedValue() }
    }
}
#endif
