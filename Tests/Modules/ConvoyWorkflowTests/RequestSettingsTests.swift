import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyWorkflow

/// The rates, limits, cookies and logins that a manifest specifies.
@Suite struct RequestSettingsTests {
    let bench: WorkflowBench
    var server: TestServer { bench.server }

    init() throws { bench = try WorkflowBench() }

    @Test func `limit-rate is shared by its requests; limit-rate-each is not`() throws {
        let requests = try bench.workflow(
            """
            defaults: {limit-rate: 1M}
            requests:
              a: {get: a}
              b: {get: b}
              own: {get: c, limit-rate: 1k}
              each: {get: d, limit-rate-each: 2k}
            """
        ).plan.requests
        func limits(_ id: String) throws -> [RateLimit] {
            let plan = try #require(requests.first { $0.id == id })
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url))
            let scope = EarlyScope(variables: [:], environment: [:])
            try plan.connection.apply(to: operation, sending: nil, in: scope, SecretMask())
            return operation.connectionConfiguration.receiveRateLimits + [operation.receiveRateLimit].compactMap(\.self)
        }
        #expect(try limits("a").map(\.bytesPerSecond) == [1_000_000])
        #expect(try limits("a")[0] === limits("b")[0] && limits("a")[0] !== limits("own")[0])
        #expect(try limits("own").map(\.bytesPerSecond) == [1000])
        #expect(try limits("each").map(\.bytesPerSecond) == [2000, 1_000_000])
        #expect(try limits("each")[0] !== limits("each")[0] && limits("each")[1] === limits("a")[0])
    }

    @Test func `the limits of a request apply to its items`() async throws {
        let running = Locked((now: 0, most: 0))
        server.route("/n/*") { _ in
            running.withLock { running in
                running.now += 1
                running.most = max(running.most, running.now)
            }
            usleep(5000)
            running.withLock { $0.now -= 1 }
            return .text("x")
        }
        let finished = try await bench.run(
            """
            defaults: {jobs: 8}
            requests:
              one: {get: "n/${item}", forEach: [1, 2, 3, 4, 5, 6], perHost: 1}
            """)
        #expect(finished.result.failures.isEmpty)
        #expect(server.requests.count == 6 && running.withLock { $0.most } == 1)
        let slow = try await bench.run(#"requests: {slow: {get: "n/${item}", forEach: [1, 2, 3, 4, 5], perSecond: 50}}"#)
        // Four intervals lie between the first and the last request.
        #expect(slow.result.failures.isEmpty && slow.result.seconds >= 0.08)
    }

    @Test func `the cookie jar of a manifest is kept for the next run, and an unusable one is rejected`() async throws {
        let jar = bench.directory.url.appendingPathComponent("jar").path
        server.route("/set", .text("x").header("Set-Cookie", "a=1; Path=/; Max-Age=1000"))
        server.echo(at: "/get")
        let manifest = "defaults: {cookie-jar: \"\(jar)\"}\nrequests: {set: {get: set}}"
        #expect(try await bench.run(manifest).result.storeFailures.isEmpty)
        _ = try await bench.run(manifest.replacing("{set: {get: set}}", with: "{get: {get: get}}"))
        #expect(server.requests.last?.headers["Cookie"] == "a=1")
        let nowhere = #expect(throws: ManifestError.self) {
            try bench.workflow(manifest.replacing(jar, with: "/nowhere/jar"))
        }
        #expect(nowhere?.message.contains("/nowhere/jar") == true)
        try Data("something else\n".utf8).write(to: URL(fileURLWithPath: jar))
        let error = #expect(throws: ManifestError.self) { try bench.workflow(manifest) }
        #expect(
            error?.line == 2 && error?.message.contains("line 1 is not a cookie") == true,
            "\(String(describing: error))")
    }

    @Test func `an empty URL is the base URL`() async throws {
        bench.server.route("/api", .text("home"))
        let text = "baseURL: \(bench.server.url)/api\nrequests:\n  a: {get: '', query: {q: 1}, expect: [body == 'home']}\n"
        let run = try WorkflowRun(try Workflow(parsing: Data(text.utf8), name: "m"))
        #expect(run.preview().first?.contains("GET \(bench.server.url)/api?q=1") == true)
        let result = await run.run()
        #expect(result.failures.isEmpty && bench.server.requests.map(\.target) == ["/api?q=1"], "\(result.failures)")
    }

    @Test func `credentials can contain captured values`() async throws {
        server.route("/me") { request in
            request.headers["Authorization"] == nil
                ? .status(401, headers: ["WWW-Authenticate": "Basic realm=\"r\""]) : .text("x")
        }
        server.route("/password", .text("p w"))
        let finished = try await bench.run(
            """
            requests:
              password: {get: password, capture: {p: text}}
              me: {get: me, user: "ada:${password.p}"}
            """)
        #expect(finished.states == ["password": "succeeded", "me": "succeeded"])
        #expect(server.requests.last?.headers["Authorization"] == "Basic \(Data("ada:p w".utf8).base64EncodedString())")
    }
}
