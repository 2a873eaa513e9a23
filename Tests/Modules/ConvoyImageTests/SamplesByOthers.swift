#if Images
import CGdkPixbuf
import Foundation
import Testing

@testable import ConvoyImage

/// Images that gdk-pixbuf cannot write.
extension Samples {
    /// A progressive JPEG of 96 x 64 pixels with ten scans.
    static let progressive = decoded(
        """
        /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBk
        eFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wgARCABAAGAD
        ASIAAhEBAxEB/8QAGQABAQEBAQEAAAAAAAAAAAAAAgMBAAQF/8QAGQEBAQADAQAAAAAAAAAAAAAAAwIBBAYF/9oADAMBAAIQAxAAAAH4apqycpak
        i97ChUQMOdqSVNzK+KlsTn8DYtNrTYO3ImBolm3xN49or58dStLKm5SBNarjXakjXcpPFSvJ4GBoVm3pMHXlTC0TTT0V/8QAGBABAQEBAQAAAAAA
        AAAAAAAAABEBEAL/2gAIAQEAAQUCiIjznIiIzORETkRERqI85yIiMxEREaiIiNxEREREZiIiIzERERuIiIjcRGYiIiMxE5EbiIiI3E5Ef//EABcR
        AQEBAQAAAAAAAAAAAAAAAAEAAhH/2gAIAQMBAT8BNRrkMajUPY12ywxqywxqNQ9jUah7GrLDGrLDf//EAB8RAAEEAwEAAwAAAAAAAAAAAAABAxIT
        AhEiIRAxYf/aAAgBAgEBPwHWvTFLRXoJHE+vTFLC2rkjV0pm4rhKJCvscdsN6P0xSwtq5+MUmWV8kIdDjszeiMOhxyRs/8QAFBABAAAAAAAAAAAA
        AAAAAAAAYP/aAAgBAQAGPwJB/8QAGxABAQEBAAMBAAAAAAAAAAAAARAAMREgIXH/2gAIAQEAAT8hwwoPz9gwpePHcYwMfsFBg9A+EGFIgYYYIKDO
        EHoBhSIGFIwoM4QUGcPQigpEAxhnCCgzhHhe0//aAAwDAQACAAMAAAAQG3/7/ThLISDkb2furngLhFi//8QAGREAAwEBAQAAAAAAAAAAAAAAABAR
        ITEB/9oACAEDAQE/EFC2+qgdhzEC5fCBdUDsVA7C+EF3wgv/xAAfEQADAQABBAMAAAAAAAAAAAAAAREhQTFh4fFRgaH/2gAIAQIBAT8QpLOFkOV5
        z4I0o6NZB7Kq1z48jWHXt8j1ZEiGjQ4U7OPwwJKQl40alR0SyENas+u5XKzolkJelZ7KW3Z6MCSkIbS0t2CVUUaHL0//xAAdEAADAQEAAgMAAAAA
        AAAAAAAAAREQITFhQVGR/9oACAEBAAE/EELYoUpHK79BC2KFqSl4WMIIQJdRcQsLiCwrqXyvIghSjSe/ghbFC1I+RCmqhtJdgsLiC0xYeIIIUxQt
        cUKYoUuq4gsMgsPEFhkEEKXFBVihS4oNSi4n5x9JIIek4FhgEKaFAh//2Q==
        """)

    /// An animation of 12 x 8 pixels: red for 50 ms, green for 70 ms and blue for 90 ms, three times.
    static let animatedWebP = decoded(
        """
        UklGRrQAAABXRUJQVlA4WAoAAAACAAAACwAABwAAQU5JTQYAAAAAAAAAAwBBTk1GKAAAAAAAAAAAAAsAAAcAADIAAAJWUDhMDwAAAC8LwAEABxD9
        j/4HIqL/AQBBTk1GKAAAAAAAAAAAAAsAAAcAAEYAAABWUDhMDwAAAC8LwAEAB9D/iP4HIqL/AQBBTk1GKAAAAAAAAAAAAAsAAAcAAFoAAABWUDhM
        DwAAAC8LwAEABxDR//4HIqL/AQA=
        """)

    /// An animation of 20 x 16 pixels and four frames, each with only a square of 6 x 6 at a different position and
    /// with a different alpha.
    static let movingWebP = decoded(
        """
        UklGRu4AAABXRUJQVlA4WAoAAAASAAAAEwAADwAAQU5JTQYAAAAAAAAAAABBTk1GKAAAAAAAAAAAAAUAAAUAACgAAANWUDhMEAAAAC8FQAEABxBF
        rkz/AxHR/wBBTk1GLAAAAAEAAAEAAAYAAAUAADIAAANWUDhMEwAAAC8GQAEQDzA8gzwyMxzwqF9E/wMAQU5NRioAAAADAAACAAAFAAAFAAA8AAAD
        VlA4TBEAAAAvBUABEAdQvCJXpoeBiOh/AABBTk1GLAAAAAQAAAMAAAYAAAUAAEYAAAJWUDhMEwAAAC8GQAEQDzC0gzwysxTwqF9E/wMA
        """)

    /// The frames of `animatedWebP` as a GIF.
    static let animatedGIF = decoded(
        """
        R0lGODlhDAAIAIEAAP8AAAAAAAAAAAAAACH/C05FVFNDQVBFMi4wAwECAAAh+QQABQAAACwAAAAADAAIAAAIEgABCBxIsKDBgwgTKlzIsGHBgAAh
        +QQBBwABACwAAAAADAAIAIEA/wAAAAAAAAAAAAAIEgABCBxIsKDBgwgTKlzIsGHBgAAh+QQBCQABACwAAAAADAAIAIEAAP8AAAAAAAAAAAAIEgAB
        CBxIsKDBgwgTKlzIsGHBgAA7
        """)

    private static func decoded(_ text: String) -> Data {
        Data(base64Encoded: text, options: .ignoreUnknownCharacters) ?? Data()
    }

    /// Returns an image in a single colour, of any size.
    static func plain(
        _ type: String, width: Int, height: Int, color: UInt32 = 0x2040_80FF, options: [String: String] = [:]
    ) throws -> Data {
        let pixbuf = try #require(gdk_pixbuf_new(GDK_COLORSPACE_RGB, 0, 8, Int32(width), Int32(height)))
        defer { convoy_pixbuf_unref(pixbuf) }
        gdk_pixbuf_fill(pixbuf, color)
        var bytes: UnsafeMutablePointer<CChar>?
        var count = 0
        var keys: [UnsafeMutablePointer<CChar>?] = options.map { strdup($0.key) } + [nil]
        var values: [UnsafeMutablePointer<CChar>?] = options.map { strdup($0.value) } + [nil]
        defer { for text in keys + values { free(text) } }
        try #require(convoy_pixbuf_save(pixbuf, &bytes, &count, type, &keys, &values) != 0)
        defer { g_free(bytes) }
        return Data(bytes: try #require(bytes), count: count)
    }
}

/// Returns an image with random pixels.
func randomImage(
    _ width: Int, _ height: Int, alpha: Bool, using generator: inout some RandomNumberGenerator
) throws -> Image {
    let pixels = Data((0..<(width * height * (alpha ? 4 : 3))).map { _ in UInt8.random(in: 0...255, using: &generator) })
    return try Image(size: ImageSize(width: width, height: height), hasAlpha: alpha, pixels: pixels)
}
#endif
