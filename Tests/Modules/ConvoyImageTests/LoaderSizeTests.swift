#if Images
import CGdkPixbuf
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

/// The size in a body's layout, which equals the size that the loader reports for its input.
@Suite struct LoaderSizeTests {
    struct Size: Equatable {
        var width: Int
        var height: Int
    }

    /// Returns the size that a loader reports before decoding; nil if it reports none. The XBM loader must decode
    /// first.
    private func loaderSize(_ type: ImageFormat, _ pieces: [Data]) throws -> Size? {
        let loader = try #require(gdk_pixbuf_loader_new_with_type(type.rawValue, nil))
        defer { convoy_loader_unref(loader) }
        var size: Size?
        withUnsafeMutablePointer(to: &size) { size in
            convoy_loader_on_size(
                loader,
                { loader, width, height, context in
                    guard let size = context?.assumingMemoryBound(to: Size?.self) else { return }
                    if size.pointee == nil { size.pointee = Size(width: Int(width), height: Int(height)) }
                    gdk_pixbuf_loader_set_size(loader, 0, 0)
                }, size)
            for piece in pieces {
                let isWritten = piece.withUnsafeBytes {
                    gdk_pixbuf_loader_write(
                        loader, $0.bindMemory(to: UInt8.self).baseAddress, gsize($0.count), nil) != 0
                }
                if !isWritten { break }
            }
            gdk_pixbuf_loader_close(loader, nil)
        }
        if size == nil, let pixbuf = gdk_pixbuf_loader_get_pixbuf(loader) {
            size = Size(width: Int(gdk_pixbuf_get_width(pixbuf)), height: Int(gdk_pixbuf_get_height(pixbuf)))
        }
        return size
    }

    /// Returns the size in the layout of a body, and the size that the loader reports for its input.
    private func sizes(_ body: Data) throws -> (ours: Size, loader: Size?)? {
        let found = body.withUnsafeBytes { bytes -> (ImageLayout, [Data])? in
            let limits = ImageLimits(maximumPixelCount: 4_000_000)
            guard let layout = try? ImageLayout(ImageBytes(bytes), limits: limits) else { return nil }
            return (layout, layout.pieces.map { $0.withBytes(of: bytes) { Data($0) } })
        }
        guard let (layout, pieces) = found else { return nil }
        let given = layout.format == .xbm ? [body] : pieces
        return (Size(width: layout.width, height: layout.height), try loaderSize(layout.decoder, given))
    }

    /// Returns complete bodies of different sizes and kinds, with their own or with other numbers in their headers.
    private func bodies(_ format: ImageFormat, _ generator: inout SplitMix64) throws -> Data {
        let width = Int.random(in: 1...40, using: &generator)
        let height = Int.random(in: 1...40, using: &generator)
        let alpha = Bool.random(using: &generator)
        var body: Data
        switch format {
        case .gif: body = Samples.gif
        case .svg: body = Samples.svg
        case .xbm:
            let kinds = ["static char", "static unsigned char", "static short", "static const char"]
            let kind = kinds.randomElement(using: &generator) ?? ""
            let digits = repeatElement("0x7,", count: (width + 15) / 8 * height).joined()
            return Data(
                "#define x_width \(width)\n#define x_height \(height)\n\(kind) x_bits[] = {\n\(digits)0};\n".utf8)
        case .png, .tiff, .ico, .webp, .avif:
            body = try Samples.saved(format.rawValue, width: width, height: height, alpha: alpha)
        case .jpeg, .bmp: body = try Samples.saved(format.rawValue, width: width, height: height)
        }
        for _ in 0..<Int.random(in: 0...4, using: &generator) {
            // The directory of a TIFF follows the pixels.
            let header = format == .tiff ? body.indices.suffix(200) : body.indices.prefix(80)
            guard let place = header.randomElement(using: &generator) else { break }
            body[place] =
                [0, 1, 2, 4, 8, 0x20, 0x7F, 0xFF, UInt8(truncatingIfNeeded: generator.next())]
                .randomElement(using: &generator) ?? 0
        }
        return body
    }

    // Only the loader knows the size of an SVG.
    @Test(arguments: Samples.formats.filter { $0 != .svg })
    func `the size in a layout matches the size that the loader reports`(format: ImageFormat) throws {
        let seed = UInt64.random(in: 0...999_999_999)
        print("LoaderSizeTests: \(format), seed \(seed)")
        var generator = SplitMix64(seed: seed)
        var compared = 0
        let rounds = PropertyBudget.rounds(100)
        for round in 0..<rounds {
            let body = try bodies(format, &generator)
            guard let (ours, loader) = try sizes(body), let loader else { continue }
            compared += 1
            #expect(ours == loader, "seed \(seed), round \(round): \(body.prefix(200).map { $0 })")
        }
        #expect(compared > rounds / 10, "\(compared) of \(rounds) were compared, seed \(seed)")
    }
}
#endif
