import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySharedQueue

/// Bodies that are written to folders of workers.
@Suite struct FolderTests {
    let server: TestServer

    init() throws { server = try TestServer() }

    private func worker(
        _ queue: SharedQueue, _ folder: URL, memory: Int = 10_000
    ) -> SharedQueueWorker {
        let manager = HTTPRequestOperationManager(completionQueue: .global())
        manager.maximumBodySize = memory
        var settings = SharedQueueWorker.Settings()
        settings.folders = ["exports": folder]
        settings.retryPolicy.initialDelay = 0.01
        return SharedQueueWorker(queue: queue, manager: manager, settings: settings)
    }

    private func request(_ path: String, to name: String) -> SharedRequest {
        var request = SharedRequest(URLRequest(url: server.url(path)))
        request.responseBody = .folder("exports", path: name)
        return request
    }

    private func drain(_ queue: SharedQueue, _ worker: SharedQueueWorker) async throws {
        async let running: Void = worker.run()
        try await waitUntil("the queue to be empty") { try await queue.counts().allSatisfy { $0.key.isOver } }
        worker.stop()
        try await running
    }

    @Test(arguments: StoreKind.available)
    func `a body is written to its file as it arrives, however long it is`(_ kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store), folder = test.directory.file("out")
        let gate = TestServer.Gate()
        server.route("/long", .pattern(count: 3_000_000).heldBody(by: gate, afterBytes: 1_000_000))
        server.route("/empty", .status(204))
        server.route("/twice", inTurn: [.pattern(count: 50_000).failing(.reset(afterBytes: 30_000)), .text("short")])
        let long = request("/long", to: "a/long"), empty = request("/empty", to: "empty"),
            twice = request("/twice", to: "twice")
        try await queue.enqueue([long, empty, twice])
        let worker = worker(queue, folder)
        async let running: Void = worker.run()
        // The first part is on the disk, under another name.
        try await waitUntil("the part") {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.appendingPathComponent("a").path)) ?? []
            return names.contains { name in
                let path = folder.appendingPathComponent("a/\(name)").path
                return name != "long" && (try? Data(contentsOf: URL(fileURLWithPath: path)))?.count ?? 0 >= 500_000
            }
        }
        #expect(!FileManager.default.fileExists(atPath: folder.appendingPathComponent("a/long").path))
        gate.open()
        try await waitUntil("the ends") { try await queue.counts() == [.done: 3] }
        worker.stop()
        try await running
        #expect(try Data(contentsOf: folder.appendingPathComponent("a/long")) == PatternBytes.data(count: 3_000_000))
        #expect(try Data(contentsOf: folder.appendingPathComponent("empty")).isEmpty)
        #expect(try Data(contentsOf: folder.appendingPathComponent("twice")) == Data("short".utf8))
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == ["a", "empty", "twice"])
        #expect(try await queue.entry(long.id).size == 3_000_000)
        #expect(try await queue.result(of: long.id)?.place == folder.appendingPathComponent("a/long").absoluteString)
    }

    @Test(arguments: StoreKind.available)
    func `an error response and a lost lease leave no file, and keep an older one`(_ kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store), folder = test.directory.file("out")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        for name in ["bad", "lost"] { try Data("old".utf8).write(to: folder.appendingPathComponent(name)) }
        let gate = TestServer.Gate()
        server.route("/bad", .text("an error", status: 404))
        server.route("/lost", .pattern(count: 200_000).heldBody(by: gate, afterBytes: 100_000))
        try await queue.enqueue([request("/bad", to: "bad"), request("/lost", to: "lost")])
        let worker = worker(queue, folder)
        async let running: Void = worker.run()
        _ = try await server.waitForRequests(count: 2)
        try await waitUntil("the failure") { try await queue.counts()[.failed] == 1 }
        worker.stop(.now)
        try await running
        gate.open()
        for name in ["bad", "lost"] {
            #expect(try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8) == "old")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == ["bad", "lost"])
        #expect(try await queue.counts() == [.failed: 1, .ready: 1])
    }

    @Test func `an attempt that writes to a folder is released with its worker`() async throws {
        let test = try TestStore(.sqlite), queue = SharedQueue(store: test.store)
        server.route("/a", .text("contents"))
        try await queue.enqueue([request("/a", to: "a")])
        weak var left: HTTPRequestOperationManager?
        do {
            let manager = HTTPRequestOperationManager(completionQueue: .global())
            left = manager
            var settings = SharedQueueWorker.Settings()
            settings.folders = ["exports": test.directory.file("out")]
            try await drain(queue, SharedQueueWorker(queue: queue, manager: manager, settings: settings))
        }
        #expect(try await queue.counts() == [.done: 1])
        try await waitUntil("the manager of the attempt to be released") { left == nil }
    }

    @Test func `a body that cannot be written is left to another worker, and a POST is not repeated`() async throws {
        let test = try TestStore(.sqlite), queue = SharedQueue(store: test.store)
        let blocked = try test.directory.write(Data(), to: "file")
        server.route("/a", .text("contents"))
        server.route("POST", "/b", .text("contents"))
        let get = request("/a", to: "a")
        var post = URLRequest(url: server.url("/b"))
        post.httpMethod = "POST"
        var once = SharedRequest(post)
        once.responseBody = .folder("exports", path: "b")
        try await queue.enqueue([get, once])
        let unfit = worker(queue, blocked)
        async let first: Void = unfit.run()
        // The folder is a file, which is found before anything is sent.
        try await waitUntil("both to be returned") { try await queue.counts() == [.retrying: 2] }
        unfit.stop()
        try await first
        #expect(server.requests.isEmpty)
        for id in [get.id, once.id] { #expect(try await queue.entry(id).attempts == 0) }
        try await queue.retry(SharedQueue.Filter())
        try await drain(queue, worker(queue, test.directory.file("out")))
        #expect(try await queue.counts() == [.done: 2] && server.requests.count == 2)
    }
}
