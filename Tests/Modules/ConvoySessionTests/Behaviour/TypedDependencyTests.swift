import ConvoyOperations
import ConvoySerialization
import ConvoySession
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// The value of an operation as the input of the next one, with both managers.
@Suite struct TypedDependencyTests {
    private struct Login: Codable, Sendable { let token: String }
    private struct Limits: Codable, Sendable { let count: Int }
    private struct Refused: Error {}

    /// An object that shows by its lifetime whether it is retained.
    private final class Token: Sendable {}

    let server: TestServer

    init() throws {
        server = try TestServer()
        server.echo(at: "/echo")
        server.route("/login", .json(text: #"{"token": "t0ken"}"#))
        server.route("/limits", .json(text: #"{"count": 7}"#))
        server.route("/odd", .json(text: #"{"token": 1}"#))
        server.route("/nothing", .status(204))
        server.route("/missing", .json(text: "{}", status: 404))
    }

    private func header(_ name: String, of path: String = "/echo") -> [String?] {
        server.requests.filter { $0.path == path }.map { $0.headers[name] }
    }

    @Test(arguments: ManagerKind.allCases)
    func `each operation in a chain of three uses the previous value`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let login = api.operation(.post, "login", parameters: ["user": "ada"], as: Login.self)
        let limits = api.operation(.get, "limits", as: Limits.self)
        let last = api.operation(.get, "echo", as: Data.self)
        limits.depend(on: login) { login, request in request.setValue(login.token, forHTTPHeaderField: "Authorization") }
        last.depend(on: limits) { limits, request in request.setValue("\(limits.count)", forHTTPHeaderField: "X-Count") }
        #expect(login.result == nil)
        api.enqueue([last, limits, login])
        _ = try await last.value()
        #expect(server.requests.map(\.path) == ["/login", "/limits", "/echo"])
        #expect(header("Authorization", of: "/limits") == ["t0ken"] && header("X-Count") == ["7"])
        #expect(try login.result?.get().token == "t0ken")
    }

    @Test(arguments: ManagerKind.allCases)
    func `an awaited operation in no queue receives the value of its dependency`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let login = api.operation(.post, "login", as: Login.self)
        let last = try api.makeOperation(.get, "echo")
        last.depend(on: login) { login, request in request.setValue(login.token, forHTTPHeaderField: "X-Token") }
        api.enqueue([login])
        try await last.finished()
        #expect(header("X-Token") == ["t0ken"])
    }

    @Test(arguments: ManagerKind.allCases)
    func `an operation can use several values, and prepare receives the changed request`(
        kind: ManagerKind
    ) async throws {
        let api = kind.make(server.url)
        let login = api.operation(.get, "login", as: Login.self)
        let limits = api.operation(.get, "limits", as: Limits.self)
        let tree = api.operation(.get, "limits", as: JSON.self)
        let last = api.operation(.get, "echo", as: Data.self)
        last.operation.prepare = { request in
            request.setValue("\(request.value(forHTTPHeaderField: "X-All") ?? "") prepared", forHTTPHeaderField: "X-All")
        }
        @Sendable func append(_ text: String, _ request: inout URLRequest) {
            request.setValue((request.value(forHTTPHeaderField: "X-All") ?? "") + text, forHTTPHeaderField: "X-All")
        }
        last.depend(on: login) { append($0.token, &$1) }
        last.depend(on: login, limits) { append(" \($0.token)\($1.count)", &$2) }
        last.depend(on: login, limits, tree) { login, limits, tree, request in
            append(" \(login.token)\(limits.count)\(tree.description.filter(\.isNumber))", &request)
        }
        last.depend(on: [limits, limits]) { append(" \($0.map(\.count))", &$1) }
        api.enqueue([login, limits, tree, last])
        _ = try await last.value()
        #expect(header("X-All") == ["t0ken t0ken7 t0ken77 [7, 7] prepared"])
    }

    @Test(arguments: ManagerKind.allCases, ["missing", "odd"])
    func `an operation whose dependency failed is sent only if its policy is run`(
        kind: ManagerKind, path: String
    ) async throws {
        let api = kind.make(server.url)
        let calls = Atomic(0)
        let bad = api.operation(.get, path, as: Login.self)
        let (fails, runs, ends) = (
            api.operation(.post, "echo", as: Data.self), api.operation(.get, "echo", as: Data.self),
            api.operation(.get, "echo", as: Data.self)
        )
        // The failure of a dependency must not cause a retry.
        fails.operation.retryPolicy = RetryPolicy()
        runs.operation.dependencyFailurePolicy = .run
        ends.operation.dependencyFailurePolicy = .cancel
        for dependent in [fails, runs, ends] {
            dependent.depend(on: bad) { _, _ in calls.add(1, ordering: .relaxed) }
        }
        api.enqueue([bad, fails, runs, ends])
        _ = try await runs.value()
        await #expect(throws: (any Error).self) { try await fails.value() }
        let (cause, reason) = (bad.operation.error as? NSError, fails.operation.error as? NSError)
        #expect(reason?.domain == cause?.domain && reason?.code == cause?.code && !fails.operation.isCancelled)
        let error = await #expect(throws: URLError.self) { try await ends.value() }
        #expect(error?.code == .cancelled && error?.userInfo[NSUnderlyingErrorKey] != nil)
        #expect(throws: (any Error).self) { try bad.result?.get() }
        #expect(calls.load(ordering: .relaxed) == 0 && server.requests("/echo").map(\.method) == ["GET"])
    }

    @Test(arguments: ManagerKind.allCases)
    func `an operation is not sent without the value of a cancelled, failed or removed dependency`(
        kind: ManagerKind
    ) async throws {
        let api = kind.make(server.url)
        server.route("/lost", .text("x").resetBeforeHead())
        let (cancelled, lost, removed) = (
            api.operation(.get, "login", as: Login.self), api.operation(.get, "lost", as: Login.self),
            api.operation(.get, "login", as: Login.self)
        )
        let dependents = [cancelled, lost, removed].map { input in
            let dependent = api.operation(.get, "echo", as: Data.self)
            var policy = RetryPolicy()
            policy.initialDelay = 0
            dependent.operation.retryPolicy = policy
            dependent.depend(on: input) { login, request in request.setValue(login.token, forHTTPHeaderField: "X-Token") }
            return dependent
        }
        dependents[2].operation.removeDependency(removed.operation)
        cancelled.operation.cancel()
        api.enqueue([cancelled, lost] + dependents)
        for (dependent, code) in zip(dependents, [URLError.cancelled, .networkConnectionLost, .resourceUnavailable]) {
            let error = await #expect(throws: URLError.self) { try await dependent.value() }
            #expect(error?.code == code && dependent.operation.retryCount == 0)
        }
        #expect(server.requests("/echo").isEmpty)
    }

    @Test(arguments: ManagerKind.allCases)
    func `a throwing closure or a missing value fails the operation before anything is sent`(
        kind: ManagerKind
    ) async throws {
        let api = kind.make(server.url)
        let (login, nothing) = (
            api.operation(.get, "login", as: Login.self), api.operation(.get, "nothing", as: Login.self)
        )
        let (refuses, lacks) = (api.operation(.get, "echo", as: Data.self), api.operation(.get, "echo", as: Data.self))
        refuses.depend(on: login) { _, _ in throw Refused() }
        lacks.depend(on: nothing) { login, request in request.setValue(login.token, forHTTPHeaderField: "X-Token") }
        api.enqueue([login, nothing, refuses, lacks])
        await #expect(throws: Refused.self) { try await refuses.value() }
        let error = await #expect(throws: URLError.self) { try await lacks.value() }
        #expect(error?.code == .cannotParseResponse && lacks.operation.error != nil && header("X-Token").isEmpty)
    }

    @Test(arguments: ManagerKind.allCases)
    func `the closure runs once despite retries and pauses`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let calls = Atomic(0)
        let gate = TestServer.Gate()
        defer { gate.open() }
        server.route(
            nil, "/tired", inTurn: [.status(503), TestServer.Response.text("paused").held(by: gate), .text("well")])
        let login = api.operation(.get, "login", as: Login.self)
        let last = api.operation(.get, "tired", as: String.self)
        var policy = RetryPolicy()
        policy.initialDelay = 0
        last.operation.retryPolicy = policy
        last.depend(on: login) { login, request in
            calls.add(1, ordering: .relaxed)
            request.setValue(login.token, forHTTPHeaderField: "X-Token")
        }
        api.enqueue([last, login])
        _ = try await login.value()
        // The first attempt was refused, and the second has no response yet.
        try await waitUntil("the second attempt") { server.requests("/tired").count == 2 }
        last.operation.pause()
        last.operation.resume()
        #expect(try await last.value() == "well")
        #expect(calls.load(ordering: .relaxed) == 1)
        #expect(header("X-Token", of: "/tired") == ["t0ken", "t0ken", "t0ken"])
    }

    @Test(arguments: ManagerKind.allCases)
    func `a copy waits for the same value or already has it in its request`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let login = api.operation(.get, "login", as: Login.self)
        let last = api.operation(.get, "echo", as: Data.self)
        last.depend(on: login) { login, request in request.setValue(login.token, forHTTPHeaderField: "X-Token") }
        let early = last.makeCopy()
        #expect(early.operation.dependencies == [login.operation])
        api.enqueue([early, last, login])
        _ = try await (early.value(), last.value())
        let late = last.makeCopy()
        #expect(late.operation.dependencies.isEmpty)
        _ = try await late.value()
        #expect(header("X-Token") == ["t0ken", "t0ken", "t0ken"])
    }

    @Test(arguments: ManagerKind.allCases, [true, false])
    func `nothing is retained after the operation has finished`(kind: ManagerKind, runs: Bool) async throws {
        weak var token: Token?
        weak var dependency: HTTPRequestOperation?
        let api = kind.make(server.url)
        let last = api.operation(.get, "echo", as: Data.self)
        do {
            let held = Token()
            token = held
            let login = api.operation(.get, "login", as: Login.self)
            dependency = login.operation
            last.depend(on: login) { _, request in
                withExtendedLifetime(held) { request.setValue("yes", forHTTPHeaderField: "X-Token") }
            }
            if runs { api.enqueue([login, last]) } else { last.operation.cancel() }
        }
        #expect(token != nil || runs)
        _ = try? await last.value()
        #expect(header("X-Token") == (runs ? ["yes"] : []))
        try eventually { token == nil && dependency == nil }
    }

    @Test(arguments: ManagerKind.allCases)
    func `the handler receives the value, and a request that cannot be made fails`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        let outcomes = Locked<[String]>([])
        let login = api.operation(.get, "login", as: Login.self)
        let bad = api.operation(.get, "http://[", as: Login.self)
        for operation in [login, bad] {
            operation.setCompletionHandler { result in
                let text = (try? result.get().token) ?? "failure"
                outcomes.withLock { $0.append(text) }
            }
        }
        bad.operation.addDependency(login.operation)
        api.enqueue(login)
        api.enqueue(bad)
        await #expect(throws: URLError.self) { try await bad.value() }
        #expect(outcomes.withLock { $0 } == ["t0ken", "failure"])
    }
}
