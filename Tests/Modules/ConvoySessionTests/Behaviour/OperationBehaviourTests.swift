import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Operations that either manager first creates and later enqueues.
@Suite struct OperationBehaviourTests {
    let server: TestServer

    private struct Echo: Decodable, Sendable {
        var method: String
        var path: String
        var query: String?
        var text: String?
    }

    init() throws {
        server = try TestServer()
        server.echo(at: "/api/echo")
    }

    private func api(_ kind: ManagerKind) -> any HTTPManager { kind.make(server.url("/api")) }

    @Test(arguments: ManagerKind.allCases)
    func `every verb accepts nested parameters with handlers`(kind: ManagerKind) async throws {
        func check(_ api: some HTTPManager) async throws {
            let parameters: RequestParameters = ["a": "b c"]
            let calls = Locked(0)
            let requests = [
                api.get("echo", parameters: parameters, success: { _, _ in calls.withLock { $0 += 1 } }),
                api.head("echo", parameters: parameters, success: { _ in calls.withLock { $0 += 1 } }),
                api.post("echo", parameters: parameters, success: { _, _ in calls.withLock { $0 += 1 } }),
                api.put("echo", parameters: parameters, success: { _, _ in calls.withLock { $0 += 1 } }),
                api.patch("echo", parameters: parameters, success: { _, _ in calls.withLock { $0 += 1 } }),
                api.delete("echo", parameters: parameters, success: { _, _ in calls.withLock { $0 += 1 } }),
            ]
            for request in requests { try await request.operation.finished() }
            #expect(Set(server.requests.map(\.method)) == ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
            #expect(server.requests.allSatisfy { ($0.query ?? "") + $0.text == "a=b%20c" } && calls.withLock { $0 } == 6)
        }
        try await check(api(kind))
    }

    @Test(arguments: ManagerKind.allCases)
    func `every verb has an async form`(kind: ManagerKind) async throws {
        let api = api(kind)
        let parameters: RequestParameters = ["a": 1]
        let get: Echo = try await api.get("echo", parameters: parameters)
        let post: Echo = try await api.post("echo", parameters: parameters)
        let put: Echo = try await api.put("echo", parameters: parameters)
        let patch: Echo = try await api.patch("echo", parameters: parameters)
        let delete: Echo = try await api.delete("echo", parameters: parameters)
        #expect([get, post, put, patch, delete].map(\.method) == ["GET", "POST", "PUT", "PATCH", "DELETE"])
        #expect(get.query == "a=1" && post.text == "a=1")
        #expect(try await api.head("echo").statusCode == 200)
    }

    @Test(arguments: ManagerKind.allCases)
    func `an operation is sent only when enqueued, and once`(kind: ManagerKind) async throws {
        let api = api(kind)
        let operation = try api.makeOperation(.get, "echo")
        #expect(!operation.isExecuting && api.operationManager.queuedOperationCount == 0)
        api.enqueue(operation)
        api.enqueue([operation])
        try await operation.finished()
        api.enqueue(operation)
        try await operation.finished()
        #expect(server.requests.count == 1)
    }

    @Test(arguments: ManagerKind.allCases)
    func `an operation cancelled before it is enqueued is harmless`(kind: ManagerKind) async throws {
        let api = api(kind)
        let operation = try api.makeOperation(.get, "echo")
        operation.cancel()
        api.enqueue(operation)
        #expect((await operation.end() as? URLError)?.code == .cancelled)
        api.operationManager.operationQueue = OperationQueue()
        api.enqueue(operation)
        #expect(api.operationManager.operationQueue.operationCount == 0 && server.requests.isEmpty)
    }

    @Test(arguments: ManagerKind.allCases)
    func `operations also run in Foundation's OperationQueue`(kind: ManagerKind) async throws {
        let api = api(kind)
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 2
        api.operationManager.operationQueue = queue
        let operations = try (0..<20).map { _ in try api.makeOperation(.get, "echo") }
        api.enqueue(operations)
        for operation in operations { try await operation.finished() }
        #expect(server.requests.count == 20 && server.peakActiveRequestCount <= 2)
    }

    @Test(arguments: ManagerKind.allCases)
    func `progress follows the bytes`(kind: ManagerKind) async throws {
        server.servePattern(count: 3_000_000, at: "/api/data")
        let api = api(kind)
        let operation = try api.makeOperation(.get, "data")
        operation.responseSerializer = HTTPResponseSerializer()
        let progress = operation.progress
        let totals = Locked<(sum: Int64, last: Int64, expected: Int64?)>((0, 0, nil))
        operation.downloadProgressHandler = { bytes, total, expected in
            totals.withLock { $0 = ($0.sum + bytes, total, expected) }
        }
        try await api.enqueue(operation).finished()
        try await waitUntil("all progress") { totals.withLock { $0.last } == 3_000_000 && progress.isFinished }
        #expect(progress.completedUnitCount == 3_000_000)
        #expect(totals.withLock { $0 == (3_000_000, 3_000_000, 3_000_000) })
    }

    @Test(arguments: ManagerKind.allCases)
    func `cancelling the progress cancels the operation`(kind: ManagerKind) async throws {
        server.route("GET", "/api/silent", .text("x").failing(.stallBeforeHead))
        let api = api(kind)
        let operation = try api.makeOperation(.get, "silent")
        api.enqueue(operation)
        operation.progress.cancel()
        #expect((await operation.end() as? URLError)?.code == .cancelled)
        #expect(operation.isCancelled)
    }

    @Test(arguments: ManagerKind.allCases)
    func `the redirect handler can change or refuse a redirect`(kind: ManagerKind) async throws {
        server.redirect("/api/a", to: "/api/echo")
        let api = api(kind)
        api.responseSerializer = HTTPResponseSerializer()
        let operation = try api.makeOperation(.get, "a")
        operation.redirectHandler = { _, request, response in
            #expect(response?.statusCode == 302)
            var changed = request
            changed.setValue("yes", forHTTPHeaderField: "X-Changed")
            return changed
        }
        try await api.enqueue(operation).finished()
        #expect(server.requests.last?.headers["X-Changed"] == "yes")
        let stays = try api.makeOperation(.get, "a")
        stays.redirectHandler = { _, _, _ in nil }
        await #expect(throws: (any Error).self) { try await api.enqueue(stays).finished() }
        #expect(stays.statusCode == 302)
    }

    @Test(arguments: ManagerKind.allCases)
    func `a redirected multipart form is sent again`(kind: ManagerKind) async throws {
        server.redirect("/api/form", to: "/api/echo", status: 307)
        let api = api(kind)
        let operation = try api.makeMultipartOperation("form", parameters: ["name": "ada"]) { form in
            form.appendPart(fileData: Data("contents".utf8), name: "file", fileName: "a.txt", mimeType: "text/plain")
        }
        try await api.enqueue(operation).finished()
        let bodies = server.requests.map(\.body)
        #expect(bodies.count == 2 && bodies.first == bodies.last)
        #expect(bodies.first?.range(of: Data("contents".utf8)) != nil)
    }

    // MARK: Settings

    @Test(arguments: ManagerKind.allCases, [true, false])
    func `a manager's request serializer can be changed in place`(kind: ManagerKind, isJSON: Bool) async throws {
        let api = api(kind)
        if isJSON { api.requestSerializer = JSONRequestSerializer() }
        api.requestSerializer.setValue("one", forHTTPHeaderField: "X-One")
        api.requestSerializer.setAuthorizationHeader(username: "ada", password: "secret")
        api.requestSerializer.timeoutInterval = 7
        api.requestSerializer.queryStringStyle = .noBrackets
        let operation = try await api.get("echo", parameters: ["a": [1, 2]])
        let request = try #require(server.requests.last)
        #expect(request.headers["X-One"] == "one" && request.headers["Authorization"] == "Basic YWRhOnNlY3JldA==")
        #expect(request.query == "a=1&a=2" && operation.request.timeoutInterval == 7)
        #expect(api.requestSerializer.value(forHTTPHeaderField: "x-one") == "one")
        api.requestSerializer.clearAuthorizationHeader()
        api.requestSerializer.setAuthorizationHeader(bearerToken: "t")
        try await api.get("echo")
        #expect(server.requests.last?.headers["Authorization"] == "Bearer t")
    }

    @Test(arguments: ManagerKind.allCases)
    func `an operation's response serializer can be changed in place`(kind: ManagerKind) async throws {
        server.route("/api/text", .bytes(Data(#"{"a":1}"#.utf8), type: "text/plain"))
        let api = api(kind)
        let operation = try api.makeOperation(.get, "text")
        operation.responseSerializer.acceptableContentTypes = nil
        try await api.enqueue(operation).finished()
        #expect((operation.responseObject as? [String: Int]) == ["a": 1])
        #expect(api.responseSerializer.acceptableContentTypes != nil)
    }

    @Test(arguments: ManagerKind.allCases)
    func `identical requests in flight share a transfer if enabled`(kind: ManagerKind) async throws {
        let gate = TestServer.Gate()
        var server = server
        // A server that used this port earlier may have requested a client certificate, in which case nothing is
        // shared.
        while ConnectionConfiguration().isAsked(about: Target(server.url("/"))) { server = try TestServer() }
        server.route("/api/data", .pattern(count: 500_000).heldBody(by: gate, afterBytes: 100_000))
        let api = kind.make(server.url("/api"))
        api.responseSerializer = HTTPResponseSerializer()
        api.operationManager.coalescesIdenticalRequests = true
        let operations = try (0..<10).map { _ in try api.makeOperation(.get, "data") }
        api.enqueue(operations)
        try await server.waitForRequests(count: 1, timeout: 100)
        try await waitUntil("all to run") { operations.allSatisfy(\.isExecuting) }
        operations[0].cancel()
        gate.open()
        #expect((await operations[0].end() as? URLError)?.code == .cancelled)
        for operation in operations.dropFirst() {
            try await operation.finished()
            #expect(operation.responseData == PatternBytes.data(count: 500_000))
        }
        #expect(server.requests.count == 1)
    }
}
