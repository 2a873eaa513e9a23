import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The gallery program, controlled with keys and the mouse wheel, and checked by screenshots.
@Suite(.serialized, .enabled(if: Programs.areRunnable, Programs.hint)) struct GalleryTests {
    @Test(arguments: [
        ([], "The URL is missing"), (["ftp://example.com/"], "must begin with http:// or https://"),
        (
            ["x"],
            "must begin with http:// or https://"
        ),
        (["--size", "1x", "http://example.com"], "--size takes"), (["--jobs", "0", "http://example.com"], "--jobs takes"),
        (["--what", "http://example.com"], "Unknown option --what"),
        (["http://a.example", "http://b.example"], "Only one URL can be given"),
        (["--downloads"], "needs a value"),
    ])
    func `an invalid command line is reported in a sentence`(arguments: [String], message: String) throws {
        let result = try ProcessRunner.run(Programs.path("Gallery"), arguments, timeout: 30)
        #expect(result.status == 2)
        #expect(result.errorText.contains(message), "\(result.errorText)")
    }

    @Test func `a missing display is reported`() throws {
        let result = try ProcessRunner.run(
            Programs.path("Gallery"), ["http://127.0.0.1/"], environment: ["DISPLAY": "", "WAYLAND_DISPLAY": "none"],
            timeout: 30)
        #expect(result.status == 2)
        #expect(result.errorText.contains("Cannot open a display"), "\(result.errorText)")
    }

    @Test func `keys navigate and download, and scrolling loads visible pictures`() throws {
        let folder = try PictureFolder(count: 1000)
        let gallery = try RunningGallery(folder.server.url("/"), ["--size", "900x700"])
        try gallery.waitForTitle("1000 pictures")
        // Only visible pictures are fetched.
        try eventually("the first pictures") { folder.requestedPictures.count >= 12 }
        let display = try Programs.display.get()
        try display.send(["mousemove", "400", "400"])
        try gallery.key("Right")
        try gallery.key("Return")
        try gallery.waitForTitle("0001.bmp (2 of 1000)")
        try gallery.key("Right")
        try gallery.waitForTitle("0002.bmp (3 of 1000)")
        try gallery.key("Left")
        try gallery.waitForTitle("0001.bmp (2 of 1000)")
        try gallery.key("ctrl+s")
        let file = gallery.downloads.appendingPathComponent("0001.bmp")
        try eventually(timeout: 20, "the download") { (try? Data(contentsOf: file)) == PictureFolder.picture(1) }
        try gallery.key("Escape")
        try gallery.waitForTitle("1000 pictures")

        #expect(folder.requestedPictures.count < 400, "pictures outside the window are loaded as well")
        let before = try display.picture(width: 900, height: 500, scaledTo: 240).pixels
        for _ in 0..<8 { try display.send(["click", "--delay", "25", "--repeat", "2", "5"]) }
        try eventually("the wheel to move the grid") {
            let now = try display.picture(width: 900, height: 500, scaledTo: 240).pixels
            return Screenshot.difference(before, now) > Screenshot.tolerance
        }
        try gallery.key("End")
        try eventually(timeout: 20, "the last pictures") { folder.requestedPictures.contains("/0999.bmp") }
        try gallery.key("ctrl+q")
        try eventually("the end") { gallery.process.exitStatus != nil }
        #expect(gallery.process.exitStatus == 0)
        #expect(!gallery.process.output.contains("CRITICAL"), "\(gallery.process.output)")
    }

    @Test func `a feed can be shown, and Control-R reloads after a failure`() throws {
        let folder = try PictureFolder(count: 30)
        folder.server.route("/feed", .json(text: #"{"url": "/no", "items": [{"image": "/0003.bmp"}, {"url": "0004.bmp"}]}"#))
        let feed = try RunningGallery(folder.server.url("/feed"), [])
        try feed.waitForTitle("2 pictures")
        try eventually("both") { folder.requestedPictures == ["/0003.bmp", "/0004.bmp"] }
        feed.process.stop()

        folder.server.route("/late", TestServer.Response(status: 404))
        let late = try RunningGallery(folder.server.url("/late"), [])
        try late.waitForTitle("Pictures Not Loaded")
        folder.server.route("/late", .bytes(folder.index, type: "text/html"))
        try late.key("ctrl+r")
        try late.waitForTitle("30 pictures")
        late.process.stop()

        folder.server.route("/empty", .bytes(Data("<p>nothing</p>".utf8), type: "text/html"))
        try RunningGallery(folder.server.url("/empty"), []).waitForTitle("No Pictures")
    }

    @Test func `the grid follows the viewer, and a selection change does not restart transfers`() throws {
        let folder = try PictureFolder(count: 100)
        let gate = TestServer.Gate()
        for number in 0..<2 {
            let name = String(format: "%04d.bmp", number)
            folder.server.route(
                "/\(name)", TestServer.Response.bytes(PictureFolder.picture(number), type: "image/bmp").held(by: gate))
        }
        let gallery = try RunningGallery(folder.server.url("/"), ["--size", "900x700"])
        try gallery.waitForTitle("100 pictures")
        try eventually("the first requests") { folder.requestedPictures.count >= 12 }
        for key in ["Right", "Left", "Right", "Left"] { try gallery.key(key) }
        gate.open()
        try eventually("the pictures") { folder.requestedPictures.count >= 12 }
        #expect(folder.server.requests("/0000.bmp").count == 1 && folder.server.requests("/0001.bmp").count == 1)

        try gallery.key("Return")
        for number in 2...40 {
            try gallery.key("Right")
            try gallery.waitForTitle(String(format: "%04d.bmp (\(number) of 100)", number - 1))
        }
        // The grid requests a picture, and the prefetcher requests it for the viewer, which then has it in memory. A
        // prefetch may be in progress when its picture is shown in another size.
        let requests = (1..<40).map { folder.server.requests(String(format: "/%04d.bmp", $0)).count }
        #expect(requests.reduce(0, +) < 39 * 5 / 2, "\(requests)")
        try gallery.key("Escape")
        try gallery.waitForTitle("100 pictures")
        // Return opens the picture that has the focus.
        try gallery.key("Return")
        try gallery.waitForTitle("0039.bmp (40 of 100)")
        #expect(!gallery.process.output.contains("CRITICAL"), "\(gallery.process.output)")
    }

    /// The screenshots to compare: all when they are recorded and in `Tests/long gallery`, otherwise each width once.
    private static func chosen<Choice>(_ all: [(Int, Choice)]) -> [(Int, Choice)] {
        let environment = ProcessInfo.processInfo.environment
        let isWhole = ["CONVOY_RECORD_SCREENSHOTS", "CONVOY_QUIET_MACHINE"].contains { environment[$0] != nil }
        return isWhole ? all : all.indices.filter { $0 % 3 == 0 }.map { all[$0] }
    }

    @Test(arguments: chosen([(480, 1), (480, 2), (1600, 1), (1600, 2)]))
    func `the window matches the recorded screenshots in light and dark`(width: Int, scale: Int) throws {
        let height = width == 480 ? 640 : 900
        let folder = try PictureFolder(count: 60)
        for theme in ["light", "dark"] {
            let gallery = try RunningGallery(
                folder.server.url("/"), ["--size", "\(width)x\(height)", "--\(theme)"], scale: scale)
            try gallery.waitForTitle("60 pictures")
            try Screenshot.compare("gallery-\(theme)-\(width)-\(scale)x.png", width: width * scale, height: height * scale)
            gallery.process.stop()
        }
    }

    @Test(arguments: chosen([(480, "light"), (480, "dark"), (1600, "light"), (1600, "dark")]))
    func `the error page, the downloads and a failure match the recorded screenshots`(width: Int, theme: String) throws {
        let height = width == 480 ? 640 : 900
        let folder = try PictureFolder(count: 60)
        let options = ["--size", "\(width)x\(height)", "--\(theme)"]
        let failed = try RunningGallery(folder.server.url("/missing"), options)
        try failed.waitForTitle("Pictures Not Loaded")
        try Screenshot.compare("gallery-error-\(theme)-\(width).png", width: width, height: height)
        failed.process.stop()

        folder.server.route("/0001.bmp", TestServer.Response(status: 404))
        let gallery = try RunningGallery(folder.server.url("/"), options)
        try gallery.waitForTitle("60 pictures")
        try gallery.key("ctrl+s")
        let file = gallery.downloads.appendingPathComponent("0000.bmp")
        try eventually(timeout: 20, "the download") { (try? Data(contentsOf: file)) == PictureFolder.picture(0) }
        try gallery.key("Right")
        try gallery.key("ctrl+s")
        try Screenshot.compare("gallery-downloads-\(theme)-\(width).png", width: width, height: height)
        try gallery.key("ctrl+d")
        try gallery.key("Return")
        try gallery.waitForTitle("0001.bmp (2 of 60)")
        try Screenshot.compare("gallery-viewer-\(theme)-\(width).png", width: width, height: height)
        gallery.process.stop()
    }

    @Test func `the tolerance distinguishes light from dark and a full grid from an incomplete one`() throws {
        let kept = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Screenshots")
        func pixels(_ name: String) throws -> Data {
            try VirtualDisplay.pixels(of: Data(contentsOf: kept.appendingPathComponent(name)))
        }
        let light = try pixels("gallery-light-480-1x.png")
        let dark = try pixels("gallery-dark-480-1x.png")
        #expect(Screenshot.difference(light, dark) > Screenshot.tolerance)
        // Remove the last row of pictures.
        var short = light
        short.replaceSubrange((short.count * 4 / 5)..., with: Data(repeating: 250, count: short.count - short.count * 4 / 5))
        #expect(Screenshot.difference(light, short) > Screenshot.tolerance)
        #expect(Screenshot.difference(light, light) == 0)
    }
}

/// A comparison that tolerates different fonts and hinting.
enum Screenshot {
    /// The largest tolerated difference, of 255, in the worst part.
    static let tolerance = 24.0

    /// Compares the upper left part of the display with a recorded screenshot, or records it.
    static func compare(_ name: String, width: Int, height: Int) throws {
        let display = try Programs.display.get()
        // A tooltip would be part of the picture.
        try display.send(["mousemove", "3299", "1999"])
        let kept = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Screenshots/\(name)")
        if let directory = ProcessInfo.processInfo.environment["CONVOY_RECORD_SCREENSHOTS"] {
            // Wait until the window has settled, then record the screenshots.
            sleep(4)
            try display.picture(width: width, height: height, scaledTo: 240).png.write(to: kept)
            let whole = try display.picture(width: width, height: height, scaledTo: width)
            try whole.png.write(to: URL(fileURLWithPath: directory).appendingPathComponent(name))
        }
        let expected = try VirtualDisplay.pixels(of: Data(contentsOf: kept))
        var difference = Double.infinity
        // Poll, because the pictures appear one after another and fade in over a quarter of a second.
        do {
            try eventually(timeout: 20, "the picture \(name)") {
                let seen = try display.picture(width: width, height: height, scaledTo: 240)
                difference = Self.difference(seen.pixels, expected)
                return difference < tolerance
            }
        } catch {
            Issue.record("\(name) differs by \(difference)")
        }
    }

    /// Returns the largest mean difference in a part of 24 rows, over all columns, of pictures that are 240 pixels
    /// wide.
    static func difference(_ one: Data, _ other: Data) -> Double {
        guard one.count == other.count, !one.isEmpty else { return .infinity }
        let part = 240 * 3 * 24
        var worst = 0.0
        one.withUnsafeBytes { one in
            other.withUnsafeBytes { other in
                for begin in stride(from: 0, to: one.count, by: part) {
                    let end = min(begin + part, one.count)
                    var sum = 0
                    for index in begin..<end { sum += abs(Int(one[index]) - Int(other[index])) }
                    worst = max(worst, Double(sum) / Double(end - begin))
                }
            }
        }
        return worst
    }
}

/// A folder of pictures on a web server, listed as by nginx.
final class PictureFolder: Sendable {
    let server: TestServer
    let index: Data

    init(count: Int) throws {
        server = try TestServer()
        let names = (0..<count).map { String(format: "%04d.bmp", $0) }
        let links = names.map { "<a href=\"\($0)\">\($0)</a>  26-Nov-2026 20:00  27702" }.joined(separator: "\n")
        index = Data(
            "<html><head><title>Index of /</title></head><body><pre><a href=\"../\">../</a>\n\(links)</pre></body></html>"
                .utf8)
        server.route("/", .bytes(index, type: "text/html"))
        server.route(nil, "/*") { request in
            guard let number = Int(request.path.dropFirst().prefix(4)) else { return TestServer.Response(status: 404) }
            return .bytes(Self.picture(number), type: "image/bmp")
        }
    }

    var requestedPictures: Set<String> { Set(server.requests.map(\.path).filter { $0.hasSuffix(".bmp") }) }

    /// Returns a BMP of 96 x 96 pixels in a colour determined by the number, darker towards the bottom.
    static func picture(_ number: Int) -> Data {
        let side = 96
        var data = Data("BM".utf8)
        for value in [54 + side * side * 3, 0, 54, 40, side, side] { append(value, 4, to: &data) }
        for value in [1, 24] { append(value, 2, to: &data) }
        for value in [0, side * side * 3, 2835, 2835, 0, 0] { append(value, 4, to: &data) }
        let hue = Double(number % 60) / 60 * 6
        func channel(_ shift: Double) -> Double {
            let place = (hue + shift).truncatingRemainder(dividingBy: 6)
            return min(1, max(0, abs(place - 3) - 1))
        }
        let color = [channel(2), channel(4), channel(0)]
        for row in 0..<side {
            // BMP stores the lowest row first.
            let light = 0.25 + 0.75 * Double(row) / Double(side)
            let pixel = color.map { UInt8(255 * $0 * light) }
            for _ in 0..<side { data.append(contentsOf: pixel) }
        }
        return data
    }

    private static func append(_ value: Int, _ count: Int, to data: inout Data) {
        for index in 0..<count { data.append(UInt8(value >> (8 * index) & 255)) }
    }
}

/// A gallery program that runs until it is stopped.
final class RunningGallery: Sendable {
    let process: ChildProcess
    let downloads: URL
    private let directory: TemporaryDirectory
    private let display: VirtualDisplay

    init(_ url: URL, _ options: [String], scale: Int = 1) throws {
        display = try Programs.display.get()
        directory = try TemporaryDirectory(prefix: "convoy-gallery")
        downloads = directory.file("downloads")
        var environment = display.environment(scale: scale)
        // Keep the program from using pictures of an earlier run.
        environment["XDG_CACHE_HOME"] = directory.file("cache").path
        process = try ChildProcess(
            Programs.path("Gallery"), [url.absoluteString, "--downloads", downloads.path] + options,
            environment: environment, directory: directory.url, log: directory.file("output.log"))
    }

    deinit { process.stop() }

    private func window() throws -> String? {
        try display.send(["search", "--pid", "\(process.id)", "--onlyvisible", "--name", "."])
            .split(separator: "\n").first.map(String.init)
    }

    func waitForTitle(_ title: String) throws {
        var seen = ""
        do {
            try eventually(timeout: 30, "the title") {
                guard let window = try window() else { return false }
                seen = try display.send(["getwindowname", window])
                return seen == title
            }
        } catch {
            throw ProcessError.didNotStart("the title is \(seen) instead of \(title); \(process.output)")
        }
    }

    /// Sends a key. Without a window manager, the window must be given the focus first.
    func key(_ name: String) throws {
        guard let window = try window() else { throw ProcessError.didNotStart("no window: \(process.output)") }
        try display.send(["windowfocus", "--sync", window, "key", name])
    }
}
