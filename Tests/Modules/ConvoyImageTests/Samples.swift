#if Images
import CGdkPixbuf
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyImage

/// Images with known pixels in each format.
enum Samples {
    static let width = 5
    static let height = 3

    /// Returns colours that differ from pixel to pixel.
    static func pixels(
        width: Int = width, height: Int = height, alpha: Bool = false, alphaValue: UInt8 = 255
    ) -> Data {
        var data = Data()
        for y in 0..<height {
            for x in 0..<width {
                data.append(contentsOf: [UInt8(x * 50 & 255), UInt8(y * 90 & 255), UInt8((x + y) * 30 & 255)])
                if alpha { data.append(alphaValue == 255 && x == y ? 0 : alphaValue) }
            }
        }
        return data
    }

    /// Returns an image as saved by gdk-pixbuf.
    static func saved(
        _ type: String, width: Int = width, height: Int = height, alpha: Bool = false, alphaValue: UInt8 = 255,
        options: [String: String] = [:]
    ) throws -> Data {
        let source = pixels(width: width, height: height, alpha: alpha, alphaValue: alphaValue)
        let channels = alpha ? 4 : 3
        let pixbuf = try #require(gdk_pixbuf_new(GDK_COLORSPACE_RGB, alpha ? 1 : 0, 8, Int32(width), Int32(height)))
        defer { convoy_pixbuf_unref(pixbuf) }
        let target = try #require(gdk_pixbuf_get_pixels(pixbuf))
        let stride = Int(gdk_pixbuf_get_rowstride(pixbuf))
        for y in 0..<height {
            source.withUnsafeBytes { bytes in
                _ = memcpy(target + y * stride, bytes.baseAddress! + y * width * channels, width * channels)
            }
        }
        var bytes: UnsafeMutablePointer<CChar>?
        var count = 0
        var keys: [UnsafeMutablePointer<CChar>?] = options.map { strdup($0.key) }
        var values: [UnsafeMutablePointer<CChar>?] = options.map { strdup($0.value) }
        defer { for text in keys + values { free(text) } }
        keys.append(nil)
        values.append(nil)
        try #require(convoy_pixbuf_save(pixbuf, &bytes, &count, type, &keys, &values) != 0)
        defer { g_free(bytes) }
        return Data(bytes: try #require(bytes), count: count)
    }

    /// A GIF of 2 x 2: black, white, red and blue.
    static let gif: Data = {
        var data = Data("GIF89a".utf8)
        data.append(contentsOf: [2, 0, 2, 0, 0x91, 0, 0])
        data.append(contentsOf: [0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255])
        data.append(contentsOf: gifFrame)
        data.append(0x3B)
        return data
    }()
    /// The compressed frame of `gif`. It has three-bit codes: clear, 0, 1, 2; then four-bit codes, because the table
    /// has grown to eight entries: 3 and end.
    static let gifFrame: [UInt8] =
        [0x2C, 0, 0, 0, 0, 2, 0, 2, 0, 0, 2, 3]
        + packed([(4, 3), (0, 3), (1, 3), (2, 3), (3, 4), (5, 4)]) + [0]
    static let gifPixels = Data([0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255])

    private static func packed(_ codes: [(value: Int, bits: Int)]) -> [UInt8] {
        var bits = 0
        var count = 0
        for code in codes {
            bits |= code.value << count
            count += code.bits
        }
        return (0..<((count + 7) / 8)).map { UInt8(bits >> ($0 * 8) & 255) }
    }

    /// An XBM of ten pixels in the first row and one in the second, with two bytes per row, least significant bit
    /// first.
    static let xbm = Data(
        """
        #define spot_width 10
        #define spot_height 2
        static unsigned char spot_bits[] = {
           0x01, 0x02, 0xff, 0x00 };

        """.utf8)

    /// Returns a PNG of any size filled with a single byte, without allocating memory for its pixels.
    static func pngBomb(width: UInt32, height: UInt32) -> Data {
        png([
            ("IHDR", bigEndian(width) + bigEndian(height) + Data([8, 6, 0, 0, 0])),
            ("IDAT", Data([0x78, 0x9C] + [UInt8](repeating: 0, count: 2000))), ("IEND", Data()),
        ])
    }

    /// Returns a PNG with these chunks.
    static func png(_ chunks: [(name: String, content: Data)]) -> Data {
        var data = Data(ImageLayout.pngSignature)
        for (name, content) in chunks {
            let body = Data(name.utf8) + content
            data += bigEndian(UInt32(content.count)) + body + bigEndian(crc(body))
        }
        return data
    }

    /// A drawing of 5 x 3 pixels in one colour.
    static let svg = Data(
        """
        <svg xmlns="http://www.w3.org/2000/svg" width="5" height="3"><rect width="5" height="3" fill="#204080"/></svg>
        """.utf8)

    static func bigEndian(_ value: UInt32) -> Data { withUnsafeBytes(of: value.bigEndian) { Data($0) } }
    static func littleEndian(_ value: UInt32) -> Data { withUnsafeBytes(of: value.littleEndian) { Data($0) } }

    static func crc(_ data: Data) -> UInt32 {
        var crc: UInt32 = 0xFFFF_FFFF
        for byte in data {
            crc ^= UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
        }
        return ~crc
    }

    /// The default limits, but with SVG.
    static let limits = {
        var limits = ImageLimits.standard
        limits.allowsSVG = true
        return limits
    }()

    /// The formats for which a loader is installed.
    static let formats: [ImageFormat] = ImageFormat.allCases.filter { format in
        guard let package = format.loaderPackage else { return true }
        guard let loader = gdk_pixbuf_loader_new_with_type(format.rawValue, nil) else {
            print("ConvoyImageTests: skipped \(format): no loader installed. Debian, Ubuntu: apt-get install \(package)")
            return false
        }
        gdk_pixbuf_loader_close(loader, nil)
        convoy_loader_unref(loader)
        return true
    }

    /// Returns one small body in each format.
    static func all() throws -> [ImageFormat: Data] {
        var bodies: [ImageFormat: Data] = [
            .png: try saved("png"), .jpeg: try saved("jpeg"), .bmp: try saved("bmp"), .ico: try saved("ico"),
            .tiff: try saved("tiff"), .gif: gif, .xbm: xbm,
        ]
        if formats.contains(.svg) { bodies[.svg] = svg }
        for format in [ImageFormat.webp, .avif] where formats.contains(format) {
            bodies[format] = try saved(format.rawValue)
        }
        return bodies
    }
}

let exampleURL = URL(string: "http://example.com/image") ?? URL(fileURLWithPath: "/")

func response(_ status: Int = 200, type: String = "image/png") throws -> HTTPURLResponse {
    try #require(
        HTTPURLResponse(
            url: exampleURL, statusCode: status, httpVersion: "HTTP/1.1", headerFields: ["Content-Type": type]))
}

/// Decodes the image in a body.
func decode(
    _ data: Data, _ serializer: ImageResponseSerializer = ImageResponseSerializer(imageLimits: Samples.limits)
) throws -> Image? {
    try serializer.responseObject(for: response(), data: data) as? Image
}

/// Returns the error for a body.
func failure(
    _ data: Data, _ serializer: ImageResponseSerializer = ImageResponseSerializer(imageLimits: Samples.limits)
) -> NSError? {
    do {
        _ = try decode(data, serializer)
        return nil
    } catch {
        return error as NSError
    }
}

func limit(_ error: NSError?) -> ResponseLimitExceeded? {
    error?.userInfo[URLResponseSerializationErrorKey.limit] as? ResponseLimitExceeded
}
#endif
