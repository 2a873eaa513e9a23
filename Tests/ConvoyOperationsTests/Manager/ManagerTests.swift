import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// The manager: base-URL rules, verbs in both forms, and what happens to requests that cannot be made.
@Suite struct ManagerTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    struct Echo: Decodable, Sendable {
        var method: String
        var path: String
        var query: String?
        var text: String?
    }

    init() throws {
        server = try TestServer()
        server.echo(at: "/api/echo")
        manager = HTTPRequestOperationManager(baseURL: server.url("/api"))
        manager.completionQueue = testQueue
    }

    @Test(arguments: [
        ("http://example.com/v1/", "foo", "http://example.com/v1/foo"),
        ("http://example.com/v1", "foo", "http://example.com/v1/foo"),
        ("http://example.com/v1/", "foo?bar=baz", "http://example.com/v1/foo?bar=baz"),
        ("http://example.com/v1/", "/foo", "http://example.com/foo"),
        ("http://example.com/v1/", "foo/", "http://example.com/v1/foo/"),
        ("http://example.com/v1/", "/foo/", "http://example.com/foo/"),
        ("http://example.com/v1/", "http://example2.com/", "http://example2.com/"),
        ("http://example.com/v1/", "", "http://example.com/v1/"),
        ("http://example.com", "foo", "http://example.com/foo"),
        ("http://example.com/v1/", "../foo", "http://example.com/foo"),
    ])
    func `a relative URL is under the base`(base: String, string: String, expected: String) throws {
        let manager = HTTPRequestOperationManager(baseURL: URL(string: base))
        #expect(try manager.url(for: string).absoluteString == expected)
    }

    @Test func `without a base a relative URL is an error`() {
        #expect(throws: URLError.self) { try HTTPRequestOperationManager().url(for: "foo") }
        #expect(throws: URLError.self) { try HTTPRequestOperationManager().makeOperation(.get, "foo") }
    }

    @Test(arguments: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
    func `every verb sends itself and calls success`(verb: String) throws {
        let done = Signal()
        let success: HTTPRequestOperation.Success = { _, _ in done.fire() }
        let parameters: Parameters = ["a": "b c"]
        switch verb {
        case "GET": manager.get("echo", parameters: parameters, success: success)
        case "HEAD": manager.head("echo", parameters: parameters, success: { _ in done.fire() })
        case "POST": manager.post("echo", parameters: parameters, success: success)
        case "PUT": manager.put("echo", parameters: parameters, success: success)
        case "PATCH": manager.patch("echo", parameters: parameters, success: success)
        default: manager.delete("echo", parameters: parameters, success: success)
        }
        #expect(done.wait())
        let request = try #require(server.requests.last)
        #expect(request.method == verb)
        #expect((request.query ?? "") + request.text == "a=b%20c")
    }

    @Test func `every verb has an async form`() async throws {
        let parameters: Parameters = ["a": 1]
        let get: Echo = try await manager.get("echo", parameters: parameters)
        let post: Echo = try await manager.post("echo", parameters: parameters)
        let put: Echo = try await manager.put("echo", parameters: parameters)
        let patch: Echo = try await manager.patch("echo", parameters: parameters)
        let delete: Echo = try await manager.delete("echo", parameters: parameters)
        #expect([get, post, put, patch, delete].map(\.method) == ["GET", "POST", "PUT", "PATCH", "DELETE"])
        #expect(get.query == "a=1" && post.text == "a=1")
        #expect(try await manager.head("echo").statusCode == 200)
    }

    @Test func `a request that cannot be made fails through its operation`() throws {
        let failed = Signal()
        let operation = manager.get(
            "http://[bad", success: { _, _ in Issue.record("it cannot succeed") },
            failure: { operation, error in
                #expect((error as? URLError)?.code == .badURL)
                failed.fire()
            })
        #expect(failed.wait())
        #expect(operation.isFinished && operation.error != nil)
        manager.get("echo", headers: ["X-A": "a\r\nb"], success: nil, failure: { _, _ in failed.fire() })
        #expect(failed.wait())
        #expect(server.requests.isEmpty)
    }

    @Test func `an operation that was cancelled before it is enqueued does no harm`() throws {
        let operation = try manager.makeOperation(.get, "echo")
        operation.cancel()
        manager.enqueue(operation)
        manager.operationQueue = OperationQueue()
        manager.enqueue(operation)
        manager.operationQueue.waitUntilAllOperationsAreFinished()
        #expect(server.requests.isEmpty)
    }

    @Test func `the group waits for what is enqueued`() throws {
        let group = DispatchGroup()
        manager.completionGroup = group
        manager.operationQueue.isSuspended = true
        for _ in 0..<10 { manager.get("echo", success: { _, _ in }) }
        #expect(group.wait(timeout: .now()) == .timedOut)
        manager.operationQueue.isSuspended = false
        #expect(group.wait(timeout: .now() + 100) == .success)
        #expect(server.requests.count == 10)
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

    @Test func `start and finish are posted`() async throws {
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

    @Test func `notifications reach who observes AFNetworking's names or all, and not of one that posts none`() async throws
    {
        let (silent, loud) = (try manager.makeOperation(.get, "echo"), try manager.makeOperation(.get, "echo"))
        silent.postsNotifications = false
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

    @Test func `progress follows the bytes`() async throws {
        server.servePattern(count: 3_000_000, at: "/api/data")
        let operation = try manager.makeOperation(.get, "data")
        operation.responseSerializer = HTTPResponseSerializer()
        let progress = operation.progress
        let totals = Totals()
        operation.downloadProgressHandler = { bytes, total, expected in totals.add(bytes, total, expected) }
        try await manager.enqueue(operation).finished()
        OperationQueues.progress.sync {}
        testQueue.sync {}
        #expect(progress.completedUnitCount == 3_000_000 && progress.isFinished)
        #expect(totals.sum == 3_000_000 && totals.last == 3_000_000 && totals.expected == 3_000_000)
    }

    @Test func `cancelling the progress cancels the operation`() async throws {
        server.route("GET", "/api/silent", .text("x").failing(.stallBeforeHead))
        let operation = try manager.makeOperation(.get, "silent")
        manager.enqueue(operation)
        operation.progress.cancel()
        await #expect(throws: URLError.self) { try await operation.finished() }
        #expect(operation.isCancelled)
    }

    @Test func `the redirect handler decides`() async throws {
        server.redirect("/api/a", to: "/api/echo")
        let operation = try manager.makeOperation(.get, "a")
        operation.responseSerializer = HTTPResponseSerializer()
        operation.redirectHandler = { _, request, response in
            #expect(response?.statusCode == 302)
            var changed = request
            changed.setValue("yes", forHTTPHeaderField: "X-Changed")
            return changed
        }
        try await manager.enqueue(operation).finished()
        #expect(server.requests.last?.headers["X-Changed"] == "yes")
        let stays = try manager.makeOperation(.get, "a")
        stays.responseSerializer = HTTPResponseSerializer()
        stays.redirectHandler = { _, _, _ in nil }
        await #expect(throws: (any Error).self) { try await manager.enqueue(stays).finished() }
        #expect(stays.statusCode == 302)
    }

    @Test func `a multipart form that is redirected is sent again`() async throws {
        server.redirect("/api/form", to: "/api/echo", status: 307)
        let operation = try manager.makeMultipartOperation("form", parameters: ["name": "ada"]) { form in
            form.appendPart(fileData: Data("contents".utf8), name: "file", fileName: "a.txt", mimeType: "text/plain")
        }
        try await manager.enqueue(operation).finished()
        let bodies = server.requests.map(\.body)
        #expect(bodies.count == 2 && bodies.first == bodies.last)
        #expect(bodies.first?.range(of: Data("contents".utf8)) != nil)
    }
}

private final class Totals: Sendable {
    private let state = Mutex<(sum: Int64, last: Int64, expected: Int64?)>((0, 0, nil))
    func add(_ bytes: Int64, _ total: Int64, _ expected: Int64?) {
        state.withLock { $0 = ($0.sum + bytes, total, expected) }
    }
    var sum: Int64 { state.withLock { $0.sum } }
    var last: Int64 { state.withLock { $0.last } }
    var expected: Int64? { state.withLock { $0.expected } }
}
