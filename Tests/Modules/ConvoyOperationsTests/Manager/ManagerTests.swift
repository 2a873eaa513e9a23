import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// The operation manager: URLs without a base, copies of its operations, and their notifications. Features shared with
/// the session manager are covered by the tests of both.
@Suite struct ManagerTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.echo(at: "/api/echo")
        manager = HTTPRequestOperationManager(baseURL: server.url("/api"))
        manager.completionQueue = testQueue
    }

    @Test func `a relative URL without a base is an error`() {
        #expect(throws: URLError.self) { try HTTPRequestOperationManager().url(for: "foo") }
        #expect(throws: URLError.self) { try HTTPRequestOperationManager().makeOperation(.get, "foo") }
    }

    @Test func `an operation can be created with its own response serializer`() async throws {
        struct Page: Encodable { let number = 1 }
        server.route("/api/page", .text("page"))
        let operations = [
            try manager.makeOperation(.get, "page", responseSerializer: HTTPResponseSerializer()),
            try manager.makeOperation(
                .get, "page", parameters: .encoding(Page()), responseSerializer: HTTPResponseSerializer()),
        ]
        for operation in operations {
            manager.enqueue(operation)
            try await operation.finished()
            #expect(operation.responseObject as? Data == Data("page".utf8))
        }
        #expect(try manager.makeOperation(.get, "page").responseSerializer is JSONResponseSerializer)
    }

    @Test func `a copy is a new operation for the same request`() async throws {
        let operation = try manager.makeOperation(.get, "echo", parameters: ["a": 1])
        operation.userInfo = ["tag": 7]
        try await manager.enqueue(operation).finished()
        let copy = try #require(operation.copy() as? HTTPRequestOperation)
        #expect(copy.state == .ready && copy.request == operation.request)
        #expect(copy.userInfo["tag"] as? Int == 7)
        #expect(copy.responseSerializer is JSONResponseSerializer)
        try await manager.enqueue(copy).finished()
        #expect(server.requests.count == 2)
    }

    @Test(arguments: [false, true])
    func `the manager's progress includes running transfers in any queue`(
        isFoundations: Bool
    ) async throws {
        if isFoundations { manager.operationQueue = OperationQueue() }
        manager.responseSerializer = HTTPResponseSerializer()
        let gate = TestServer.Gate()
        server.route("/held", .pattern(count: 50_000).heldBody(by: gate, afterBytes: 10_000))
        #expect(manager.transferProgress == TransferProgress.sum(of: []))
        let operations = try (0..<3).map { _ in try manager.makeOperation(.get, "/held") }
        manager.enqueue(operations)
        #expect(eventually { manager.transferProgress.bytesReceived >= 30_000 })
        #expect(manager.transferProgress.bytesReceived == 30_000)
        #expect(manager.transferProgress.bytesExpectedToReceive == 150_000)
        gate.open()
        for operation in operations { try await operation.finished() }
        for await progress in manager.transferProgressUpdates where manager.queuedOperationCount == 0 {
            #expect(progress.bytesReceived == 0 || progress.bytesReceived <= 150_000)
        }
        #expect(manager.transferProgress.bytesReceived == 0)
    }

    @Test func `start and finish notifications are posted if the manager posts them`() async throws {
        manager.postsNotifications = true
        let operation = try manager.makeOperation(.get, "echo")
        let (started, finished) = (Signal(), Signal())
        let tokens = [
            NotificationCenter.default.addObserver(
                forName: .networkingOperationDidStart, object: operation, queue: nil
            ) { _ in started.fire() },
            NotificationCenter.default.addObserver(
                forName: .networkingOperationDidFinish, object: operation, queue: nil
            ) { note in
                #expect((note.object as? HTTPRequestOperation)?.isFinished == true)
                finished.fire()
            },
        ]
        defer { for token in tokens { NotificationCenter.default.removeObserver(token) } }
        try await manager.enqueue(operation).finished()
        #expect(await Task.detached { started.wait() && finished.wait() }.value)
    }

    @Test func `notifications reach observers of AFNetworking's names if an operation posts them`() async throws {
        let (silent, loud) = (try manager.makeOperation(.get, "echo"), try manager.makeOperation(.get, "echo"))
        loud.postsNotifications = true
        let heard = Log()
        let finished = Signal()
        let names = [
            Notification.Name("com.alamofire.networking.operation.start"),
            Notification.Name("com.alamofire.networking.operation.finish"), nil,
        ]
        let tokens = names.map { name in
            NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { note in
                let sender = note.object as? HTTPRequestOperation
                guard sender === silent || sender === loud else { return }
                if Thread.current.name == "Convoy.Network" { heard.add("on the network thread") }
                let last = note.name.rawValue.split(separator: ".").last.map(String.init) ?? "none"
                heard.add("\(sender === silent ? "silent " : "")\(name == nil ? "all" : "one"): \(last)")
                if last == "finish", name == nil { finished.fire() }
            }
        }
        defer { for token in tokens { NotificationCenter.default.removeObserver(token) } }
        try await manager.enqueue(silent).finished()
        try await manager.enqueue(loud).finished()
        #expect(await Task.detached { finished.wait() }.value)
        #expect(eventually { heard.all.count >= 4 })
        #expect(heard.all.sorted() == ["all: finish", "all: start", "one: finish", "one: start"])
    }
}
