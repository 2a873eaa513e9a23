import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The arguments of a manager's calls, in all forms.
@Suite struct CallFormTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.route("/text", .text("words"))
        server.route("/json", .json(text: "{\"a\":1}"))
        server.route("/none", .status(204))
        server.route("/gone", .text("there was something", status: 404))
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
    }

    @Test func `a trailing closure with any number of parameters is the success handler`() {
        let done = Signal()
        manager.get("text") { operation, object in
            _ = (operation, object)
            done.fire()
        } failure: { _, _ in
            done.fire()
        }
        #expect(done.wait())
    }

    @Test func `an awaited call reports its progress`() async throws {
        let received = Guarded<[Int64]>([])
        let text: String = try await manager.get(
            "text", progress: .to { progress in received.withLock { $0.append(progress.bytesReceived) } })
        #expect(text == "words")
        try await waitUntil("the last report") { received.withLock { $0.last } == 5 }
    }

    @Test func `a timeout can be a number of seconds, a Duration, or two limits`() {
        let limits: [RequestTimeout] = [
            5, 5.0, .total(5), .total(.seconds(5)), .total(.milliseconds(5000)), .init(total: 5),
        ]
        #expect(Set(limits).count == 1)
        #expect(RequestTimeout.idle(.milliseconds(1500)) == RequestTimeout(idle: 1.5))
    }

    @Test func `optional types are converted like their wrapped types, for any content type`() async throws {
        let data: Data? = try await manager.get("text")
        #expect(data == Data("words".utf8))
        let text: String? = try await manager.get("text")
        #expect(text == "words")
        let tree: JSON? = try await manager.get("json")
        #expect(tree == ["a": 1])
        let members: [String: Int]? = try await manager.get("json")
        #expect(members == ["a": 1])
        #expect(await (try? manager.get("text")) ?? Data() == Data("words".utf8))
        #expect(await (try? manager.get("gone")) ?? "none" == "none")
    }

    @Test func `the limit for parsed bodies does not apply to unparsed ones`() async throws {
        var serializer = HTTPResponseSerializer()
        serializer.limits.maximumBodySize = 3
        manager.responseSerializer = serializer
        let data: Data = try await manager.get("text")
        #expect(data == Data("words".utf8))
    }

    @Test func `an empty response is valid as data, but not as a decoded type`() async throws {
        let data: Data? = try await manager.get("none")
        #expect(data == Data())
        let members: [String: Int]? = try await manager.get("none")
        #expect(members == nil)
    }

    @Test func `a batch in a cancelled queue returns all of its members`() async throws {
        let gate = TestServer.Gate()
        server.route("/held", .text("late").held(by: gate))
        defer { gate.open() }
        manager.operationQueue.maxConcurrentOperationCount = 2
        let operations = try (0..<5).map { _ in try manager.makeOperation(.get, "held") }
        async let batch = manager.enqueueBatch(of: operations)
        try await server.waitForRequests(count: 2, timeout: 100)
        // The operations are added one after the other, and the first two may be sent before the others are added.
        #expect(eventually { operations.allSatisfy(\.isScheduled) })
        manager.operationQueue.cancelAllOperations()
        let members = try await batch
        #expect(members == operations)
        #expect(members.allSatisfy { ($0.error as? URLError)?.code == .cancelled })
    }

    @Test func `cancelling a task cancels its batch even if the task waits for something else`() async throws {
        let gate = TestServer.Gate()
        server.route("/held", .text("late").held(by: gate))
        defer { gate.open() }
        let operation = try manager.makeOperation(.get, "held")
        let batch = Task { [manager] in
            try await manager.withBatch(of: [operation]) { _ in
                // This operation is not cancelled with the task.
                _ = await Task.detached { try? await operation.finished() }.value
            }
        }
        try await server.waitForRequests(count: 1, timeout: 100)
        batch.cancel()
        await #expect(throws: URLError.self) { try await batch.value }
        #expect((operation.error as? URLError)?.code == .cancelled)
    }

    private struct Item: Codable, Sendable, Equatable { var number: Int }

    @Test func `five hundred typed operations in a batch return their values in order`() async throws {
        server.route("GET", "/items/*") { request in
            .json(Item(number: request.path.split(separator: "/").last.flatMap { Int($0) } ?? 0))
        }
        let operations = (0..<500).map { manager.operation(.get, "items/\($0)", as: Item.self) }
        let items = try await manager.enqueueBatch(of: operations)
        #expect(items == (0..<500).map(Item.init))
        #expect(operations.allSatisfy { $0.response?.statusCode == 200 })
        let mixed = ["items/1", "gone", "items/2"].map { manager.operation(.get, $0, as: Item.self) }
        let error = await #expect(throws: HTTPError.self) { try await manager.enqueueBatch(of: mixed) }
        #expect(error?.statusCode == 404)
        #expect(try mixed[2].result?.get() == Item(number: 2))
    }

    @Test func `a typed operation can be a dependency of any operation, and have dependencies`() async throws {
        let order = Guarded<[String]>([])
        let first = BlockOperation { order.withLock { $0.append("first") } }
        let typed = manager.operation(.get, "json", as: JSON.self)
        typed.operation.prepare = { _ in order.withLock { $0.append("typed") } }
        let other = manager.operation(.get, "text", as: String.self)
        other.operation.prepare = { _ in order.withLock { $0.append("other") } }
        let last = BlockOperation { order.withLock { $0.append("last") } }
        typed.addDependency(first)
        other.addDependency(typed)
        last.addDependency(other)
        manager.enqueue([last, other.operation, typed.operation, first])
        try await waitUntil("the last one") { last.isFinished }
        #expect(order.withLock { $0 } == ["first", "typed", "other", "last"])
    }

    @Test func `a value can be requested together with the head of its response`() async throws {
        server.route("/page", .json(Item(number: 7)).header("Link", "<page/2>; rel=next"))
        let (item, response) = try await manager.response(.get, "page", as: Item.self)
        #expect(item.number == 7 && response.statusCode == 200)
        #expect(response.value(forHTTPHeaderField: "Link") == "<page/2>; rel=next")
        let (text, _) = try await manager.response(.get, "text", parameters: ["a": 1], as: String.self)
        #expect(text == "words")
    }

    @Test func `an error's debug description contains the start of a text body`() async throws {
        let error = await #expect(throws: HTTPError.self) { try await manager.get("gone") }
        let shown = try #require(error.map { String(reflecting: $0) })
        #expect(shown.hasSuffix("Its body begins with: \"there was something\""), "\(shown)")
        #expect(error.map { "\($0)" }?.contains("something") == false)
        server.route("/long", .text(String(repeating: "\u{E9}", count: 300), status: 500))
        let long = await #expect(throws: HTTPError.self) { try await manager.get("long") }
        #expect(long.map { String(reflecting: $0).filter { $0 == "\u{E9}" }.count } == 100)
        server.route("/bytes", .bytes(Data([0xFF, 0xD8, 0xFF]), status: 500))
        let bytes = await #expect(throws: HTTPError.self) { try await manager.get("bytes") }
        #expect(bytes.map { String(reflecting: $0) == "\($0)" } == true)
    }
}
