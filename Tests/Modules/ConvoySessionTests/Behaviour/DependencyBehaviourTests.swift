import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Dependencies, batches and async calls with the operations of both managers.
@Suite struct DependencyBehaviourTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.echo(at: "/echo")
        server.route("/login", .json(text: #"{"token": "t0ken"}"#))
        server.route("/missing", .json(text: "{}", status: 404))
        server.route("/silent", .text("x").failing(.stallBeforeHead))
    }

    @Test(arguments: ManagerKind.allCases)
    func `a request uses the response of its dependency`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let login = try api.makeOperation(.post, "login", parameters: ["user": "ada"])
        let profile = try api.makeOperation(.get, "echo")
        profile.addDependency(login)
        profile.prepare = { request in
            let token = (login.responseObject as? [String: String])?["token"] ?? "none"
            request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        }
        api.enqueue([profile, login])
        try await profile.finished()
        #expect(server.requests.map(\.path) == ["/login", "/echo"])
        #expect(server.requests.last?.headers["Authorization"] == "Bearer t0ken")
    }

    @Test(arguments: ManagerKind.allCases)
    func `a request started by a verb can be a dependency`(kind: ManagerKind) async throws {
        func check(_ api: some HTTPManager) async throws {
            let order = Locked<[String]>([])
            let gate = TestServer.Gate()
            server.route("/held", .json(text: "{}").heldBody(by: gate, afterBytes: 1))
            let first = api.get("held", success: { _, _ in order.withLock { $0.append("first") } })
            let second = try api.makeOperation(.get, "echo")
            second.addDependency(first.operation)
            second.completionBlock = { order.withLock { $0.append("second") } }
            api.enqueue(second)
            try await server.waitForRequests(count: 1, timeout: 100)
            #expect(!second.isExecuting)
            gate.open()
            try await second.finished()
            #expect(order.withLock { $0 } == ["first", "second"])
        }
        try await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases)
    func `the operations of a chain and their handlers run in order`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let order = Locked<[Int]>([])
        var chain: [HTTPRequestOperation] = []
        for number in 0..<50 {
            let operation = try api.makeOperation(.get, number % 3 == 0 ? "missing" : "echo")
            operation.completionBlock = { order.withLock { $0.append(number) } }
            if let last = chain.last { operation.addDependency(last) }
            chain.append(operation)
        }
        api.enqueue(chain.reversed())
        await chain.last?.end()
        #expect(order.withLock { $0 } == Array(0..<50) && server.requests.count == 50)
    }

    @Test(arguments: ManagerKind.allCases)
    func `a dependent of a failed request runs, unless configured otherwise`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let bad = try api.makeOperation(.get, "missing")
        let (runs, ends) = (try api.makeOperation(.get, "echo"), try api.makeOperation(.get, "echo"))
        ends.dependencyFailurePolicy = .cancel
        for dependent in [runs, ends] { dependent.addDependency(bad) }
        api.enqueue([runs, ends, bad])
        #expect(await bad.end() is HTTPError)
        #expect(await runs.end() == nil)
        #expect((await ends.end() as? URLError)?.code == .cancelled)
        #expect(server.requests.count == 2)
    }

    @Test(arguments: ManagerKind.allCases)
    func `a paused request waits to be resumed and holds no slot`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        api.operationManager.maxConcurrentOperationCount = 1
        let (paused, other) = (try api.makeOperation(.get, "echo"), try api.makeOperation(.get, "login"))
        paused.pause()
        api.enqueue([paused, other])
        try await other.finished()
        #expect(paused.isPaused && server.requests.map(\.path) == ["/login"])
        paused.resume()
        try await paused.finished()
        #expect(server.requests.count == 2)
    }

    // MARK: Batches

    @Test(arguments: ManagerKind.allCases)
    func `a batch completes once, after the handlers of all its members`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let notes = Locked<[String]>([])
        let note: @Sendable (String) -> Void = { text in notes.withLock { $0.append(text) } }
        let members = try ["echo", "missing", "silent"].map { path in
            let operation = try api.makeOperation(.get, path)
            operation.setCompletionHandler(success: { _, _ in note(path) }, failure: { _, _ in note("\(path) failed") })
            return operation
        }
        let (ends, end) = AsyncStream.makeStream(of: Int.self)
        let batch = URLConnectionOperation.batch(
            of: members, completionQueue: api.completionQueue, progress: { done, total in note("\(done)/\(total)") },
            completion: { operations in
                note("all")
                end.yield(operations.count)
            })
        api.enqueue(batch)
        try await waitUntil("the request") { server.requests("/silent").count == 1 }
        members[2].cancel()
        #expect(await ends.first { _ in true } == 3)
        let all = notes.withLock { $0 }
        #expect(all.last == "all" && all.filter { $0.contains("/") } == ["1/3", "2/3", "3/3"])
        #expect(Set(all.filter { !$0.contains("/") }) == ["echo", "missing failed", "silent failed", "all"])
    }

    @Test(arguments: ManagerKind.allCases)
    func `an awaited batch returns all its members, including failed ones`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let members = try (0..<20).map { try api.makeOperation(.get, $0 % 4 == 0 ? "missing" : "echo") }
        let counts = Locked<[Int]>([])
        let ended = try await api.enqueueBatch(of: members) { done, _ in counts.withLock { $0.append(done) } }
        #expect(ended == members && ended.filter { $0.error == nil }.count == 15)
        #expect(counts.withLock { $0 } == Array(1...20))
        #expect(try await api.enqueueBatch(of: [HTTPRequestOperation]()).isEmpty)
    }

    // MARK: Awaiting

    @Test(arguments: ManagerKind.allCases)
    func `cancelling the awaiting task cancels the request`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let awaits: [@Sendable () async throws -> Void] = [
            { try await api.get("silent") },
            { _ = try await api.post("silent", parameters: ["a": 1], as: [String: Int].self) },
            { try await api.upload("silent", from: .data(Data(count: 10))) },
            { try await api.enqueue(api.makeOperation(.get, "silent")).finished() },
            { try await api.enqueueBatch(of: [api.makeOperation(.get, "silent")]) },
        ]
        for (number, await) in awaits.enumerated() {
            let task = Task { try await `await`() }
            try await server.waitForRequests(count: number + 1, timeout: 100)
            task.cancel()
            let error = await #expect(throws: URLError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
        try await server.wait(timeout: 100) { $0.openConnectionCount == 0 }
        try await waitUntil("the queue to be empty") { api.operationManager.queuedOperationCount == 0 }
    }

    @Test(arguments: ManagerKind.allCases)
    func `a task cancelled beforehand sends nothing`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await api.get("echo")
        }
        let error = await #expect(throws: URLError.self) { try await task.value }
        #expect(error?.code == .cancelled && server.requests.isEmpty)
    }

    @Test(arguments: ManagerKind.allCases)
    func `requests of both managers can depend on each other`(kind: ManagerKind) async throws {
        let (api, other) = (kind.make(server.url), ManagerKind.allCases.first { $0 != kind }?.make(server.url))
        let first = try #require(other).makeOperation(.get, "login")
        let second = try api.makeOperation(.get, "echo")
        second.addDependency(first)
        api.enqueue(second)
        other?.enqueue(first)
        try await second.finished()
        #expect(server.requests.map(\.path) == ["/login", "/echo"])
    }
}
