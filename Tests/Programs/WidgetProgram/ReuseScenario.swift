#if GTK
import CGTK
import ConvoyGTK
import ConvoyImage
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation

/// Cells that are reused while responses arrive in any order.
@MainActor final class ReuseScenario {
    private static let cellCount = 40
    private static let pictureCount = 400

    private let downloader: ImageDownloader
    private let server: TestServer
    private let window = TestWindow(width: 400, height: 300)
    private var cells: [Widget] = []
    /// The number that each cell may show besides its placeholders, or nil.
    private var expected: [Int?]
    private let placeholder: PlaceholderImage
    private let failure: PlaceholderImage
    private var random = SplitMix64(seed: 36)
    private var wrong = 0
    private var looks = 0
    private var completions = 0
    private let living: LivingWidgets

    static func run(reuses: Int) async throws -> [String: Any] {
        var configuration = TestServer.Configuration()
        configuration.recordingLimit = 0
        let server = try TestServer(configuration)
        let manager = HTTPRequestOperationManager()
        manager.maxConcurrentOperationCountPerHost = 16
        manager.maxConcurrentOperationCount = 16
        manager.retryPolicy = nil
        let downloader = ImageDownloader(
            manager: manager, cache: ImageCache(memoryCapacity: 50_000, preferredMemoryUsageAfterPurge: 25_000))
        server.route(nil, "/*") { request in
            let number = Int(request.path.dropFirst()) ?? 0
            let delay = Double((number &* 7919) % 23) / 1000
            switch number % 20 {
            case 3: return TestServer.Response(status: 404).delayed(delay)
            case 7: return .bytes(Data("no picture".utf8), type: "image/bmp").delayed(delay)
            case 11:
                return TestServer.Response.bytes(NumberedPicture.bitmap(number), type: "image/bmp")
                    .failing(.reset(afterBytes: 40))
            case 15: return .bytes(NumberedPicture.bitmap(number).dropLast(30), type: "image/bmp").delayed(delay)
            default: return .bytes(NumberedPicture.bitmap(number), type: "image/bmp").delayed(delay)
            }
        }
        let living = LivingWidgets()
        var allocated: [Int] = []
        var descriptors: [Int] = []
        var objects: [[String: Int]] = []
        var result: [String: Any] = [:]
        var (wrong, looks, settled, completions) = (0, 0, 0, 0)
        for _ in 0..<3 {
            let scenario = try await ReuseScenario(downloader, server, living)
            try await scenario.storm(reuses / 3 + 1)
            settled += try await scenario.settle()
            wrong += scenario.wrong
            looks += scenario.looks
            completions += scenario.completions
            scenario.window.destroy()
            try await Scenario.wait("all widgets to be freed") { living.count == 0 }
            try await Scenario.wait("all loads to be released") { PictureLoads.count == 0 }
            allocated.append(ProcessMeters.allocatedBytes)
            descriptors.append(ProcessMeters.openDescriptors)
            // The pictures in memory differ from round to round. Only the two placeholders remain.
            downloader.cache?.removeAll()
            try await Scenario.wait("the pictures to be released") { ObjectCounts.all["GdkPixbuf"] ?? 0 <= 2 }
            objects.append(ObjectCounts.all)
        }
        result["wrong"] = wrong
        result["looks"] = looks
        result["settled"] = settled
        result["completions"] = completions
        result["living"] = living.count
        result["allocated"] = allocated
        result["descriptors"] = descriptors
        result["objects"] = objects.map { $0.values.reduce(0, +) }
        result["grownObjects"] = objects[2].filter { $0.value > objects[1][$0.key] ?? 0 }
        return result
    }

    private init(_ downloader: ImageDownloader, _ server: TestServer, _ living: LivingWidgets) async throws {
        self.downloader = downloader
        self.server = server
        self.living = living
        expected = Array(repeating: nil, count: Self.cellCount)
        placeholder = try await Self.image(NumberedPicture.placeholder, server, downloader)
        failure = try await Self.image(NumberedPicture.failure, server, downloader)
        let grid = gtk_grid_new()!
        for index in 0..<Self.cellCount {
            let picture = gtk_picture_new()!
            gtk_widget_set_size_request(picture, 32, 32)
            gtk_grid_attach(
                UnsafeMutableRawPointer(grid).assumingMemoryBound(to: GtkGrid.self), picture, Int32(index % 8),
                Int32(index / 8), 1, 1)
            cells.append(Widget(picture))
            living.watch(Widget(picture))
        }
        window.add(grid)
        try await window.show()
    }

    private static func image(
        _ number: Int, _ server: TestServer, _ downloader: ImageDownloader
    ) async throws -> PlaceholderImage {
        server.route("/\(number)", .bytes(NumberedPicture.bitmap(number), type: "image/bmp"))
        return .image(try await downloader.image(for: ImageRequest(server.url("/\(number)"))))
    }

    private func storm(_ reuses: Int) async throws {
        for step in 0..<reuses {
            let cell = Int(random.next() % UInt64(Self.cellCount))
            switch random.next() % 20 {
            case 0: cells[cell].cancelImage()
            case 1:
                cells[cell].clearImage()
                expected[cell] = nil
            default: use(cell)
            }
            // Check immediately after the call, when the previous picture must be gone, and while the loop runs.
            look(at: cell)
            if step % 4 == 0 {
                try await Task.sleep(for: .microseconds(Int64(random.next() % 3000)))
                for cell in cells.indices { look(at: cell) }
            }
        }
    }

    private func use(_ cell: Int) {
        let number = Int(random.next() % UInt64(Self.pictureCount))
        expected[cell] = number
        let fades = random.next() % 3 == 0
        cells[cell].setImage(
            from: server.url("/\(number)"), placeholder: placeholder, failure: failure,
            transition: fades ? .crossFade(0.03) : .none, by: downloader
        ) { [weak self] _ in
            guard let self else { return }
            completions += 1
            // A completion belongs to the latest call.
            if expected[cell] != number { wrong += 1 }
        }
    }

    private func look(at cell: Int) {
        looks += 1
        guard let shown = NumberedPicture.number(shownBy: cells[cell]) else { return }
        if shown == NumberedPicture.placeholder || shown == NumberedPicture.failure, expected[cell] != nil { return }
        if shown != expected[cell] { wrong += 1 }
    }

    /// Loads a picture into each cell, waits for all of them, and returns the number of correct cells.
    private func settle() async throws -> Int {
        for cell in cells.indices { use(cell) }
        // A loaded picture may still be fading in.
        try await Scenario.wait("all cells") { self.cells.indices.allSatisfy(self.isRight) }
        return cells.indices.count(where: isRight)
    }

    private func isRight(_ cell: Int) -> Bool {
        let number = expected[cell] ?? -1
        let isBroken = [3, 7, 11, 15].contains(number % 20)
        return !cells[cell].isLoadingImage
            && NumberedPicture.number(shownBy: cells[cell]) == (isBroken ? NumberedPicture.failure : number)
    }
}
#endif
