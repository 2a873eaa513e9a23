#if Images
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyImage

@Suite(.enabled(if: Samples.formats.contains(.svg), "librsvg2-common is not installed"))
struct SVGTests {
    private func drawing(_ content: String, before: String = "", attributes: String = "width='20' height='10'") -> Data {
        Data("\(before)<svg xmlns='http://www.w3.org/2000/svg' \(attributes)>\(content)</svg>".utf8)
    }

    @Test func `a drawing has its own size, or the requested one even if that is larger`() throws {
        let body = drawing("<rect width='10' height='10' fill='#204080'/>")
        let image = try #require(try decode(body))
        #expect(image.format == .svg && image.size == ImageSize(width: 20, height: 10) && image.hasAlpha)
        #expect(Array(image.pixels.prefix(4)) == [0x20, 0x40, 0x80, 255] && image.pixels[image.pixels.count - 1] == 0)
        func size(_ width: Int, _ height: Int, _ mode: ImageContentMode) throws -> ImageSize {
            try ImageDecoder.image(
                body,
                ImageDecoding(
                    limits: Samples.limits, size: ImageSize(width: width, height: height), contentMode: mode)
            ).size
        }
        #expect(try size(300, 300, .fit) == ImageSize(width: 300, height: 150))
        #expect(try size(300, 300, .fill) == ImageSize(width: 600, height: 300))
        #expect(try size(4, 4, .fit) == ImageSize(width: 4, height: 2))
        // The limits apply to the size at which it is drawn.
        #expect(throws: ImageFault.self) { try size(40_000, 40_000, .fit) }
    }

    @Test(arguments: [
        "", "\u{FEFF}", "<?xml version='1.0'?>\n", "<!-- a drawing -->", "<!DOCTYPE svg>\n",
        "<?xml version='1.0' encoding='UTF-8'?><!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN' 'svg11.dtd'> <!-- x > y -->",
    ])
    func `declarations and comments may precede a drawing`(before: String) throws {
        #expect(try decode(drawing("", before: before))?.format == .svg)
    }

    @Test func `a drawing is decoded only if the limits allow it`() {
        #expect(failure(drawing(""), ImageResponseSerializer())?.code == NSURLErrorCannotDecodeContentData)
    }

    @Test func `many comments before another document are read in linear time`() {
        let page = String(repeating: "<!---->", count: 500) + "<html></html>"
        #expect(failure(Data(page.utf8))?.code == NSURLErrorCannotDecodeContentData)
    }

    @Test func `a drawing reads no files, and its entities are limited`() throws {
        let directory = try TemporaryDirectory(prefix: "convoy-svg")
        let file = try directory.write(Samples.plain("png", width: 20, height: 10, color: 0xFF00_00FF), to: "red.png")
        for reference in [file.absoluteString, file.path, "red.png"] {
            let image = try decode(drawing("<image href='\(reference)' width='20' height='10'/>"))
            #expect(image?.pixels.allSatisfy { $0 == 0 } == true, "\(reference)")
        }
        let external = "<!DOCTYPE svg [<!ENTITY a SYSTEM '\(file.absoluteString)'>]>"
        let read = try? decode(drawing("<text y='9'>&a;</text>", before: external))
        #expect(read?.pixels.allSatisfy { $0 == 0 } ?? true)
        var laughs = "<!DOCTYPE svg [<!ENTITY a0 'ha'>"
        for level in 1..<20 {
            let calls = String(repeating: "&a\(level - 1);", count: 10)
            laughs += "<!ENTITY a\(level) '\(calls)'>"
        }
        let before = ProcessMeters.peakResidentKilobytes
        _ = try? decode(drawing("<text>&a19;</text>", before: laughs + "]>"))
        #expect(ProcessMeters.peakResidentKilobytes - before < 64 << 10)
    }
}
#endif
