import ConvoyCache
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDiagnostics
@testable import ConvoyOperations

/// Logs of operations against a real server.
@Suite struct HARTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager
    let recorder = HARRecorder()

    init() throws {
        server = try TestServer()
        server.route(nil, "/quick", .text("quick"))
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.eventMonitors = [recorder.monitor]
    }

    private func run(_ operations: [HTTPRequestOperation]) async throws -> HARLog {
        manager.enqueue(operations)
        for operation in operations { try? await operation.finished() }
        return await recorder.log()
    }

    /// Validates a log against the schema, if the schema is available.
    private func expectValidity(_ log: HARLog, sourceLocation: SourceLocation = #_sourceLocation) throws {
        guard HARValidator.isThere else { return print("not validated: " + HARValidator.hint) }
        let faults = try HARValidator.faults(in: log.data())
        #expect(faults.isEmpty, "\(faults)", sourceLocation: sourceLocation)
    }

    /// Checks that the sizes of an entry match the bytes that the server received and sent.
    private func expectSizes(
        of entry: HARLog.Entry, _ path: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let seen = try #require(server.requests(path).last, sourceLocation: sourceLocation)
        let fields = seen.headers.fields.reduce(0) { $0 + $1.name.utf8.count + 2 + $1.value.utf8.count + 2 }
        let line = "\(seen.method) \(seen.target) HTTP/1.1\r\n".utf8.count
        #expect(Int(entry.request.headersSize) == line + fields + 2, sourceLocation: sourceLocation)
        #expect(Int(entry.request.bodySize) == seen.body.count, sourceLocation: sourceLocation)
        #expect(
            Set(entry.request.headers.map { $0.name.lowercased() })
                == Set(seen.headers.fields.map { $0.name.lowercased() }), sourceLocation: sourceLocation)
    }

    @Test func `a log is readable only by its owner, and writing it does not affect other files`() async throws {
        let directory = try TemporaryDirectory()
        let log = try await run([try manager.makeOperation(.get, "quick")])
        let file = directory.file("log.har")
        for old in [nil, "old"] {
            if let old {
                try Data(old.utf8).write(to: file)
                try #require(chmod(file.path, 0o644) == 0)
            }
            try log.write(to: file)
            var facts = stat()
            #expect(lstat(file.path, &facts) == 0 && facts.st_mode & 0o777 == 0o600 && facts.st_uid == geteuid())
            #expect(try Data(contentsOf: file) == log.data())
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path) == ["log.har"])
        }
        for place in [directory.url, directory.file("none/log.har"), URL(fileURLWithPath: "/dev/null")] {
            #expect(throws: (any Error).self) { try log.write(to: place) }
        }
    }

    @Test func `a batch is recorded`() async throws {
        let log = try await run((0..<20).map { _ in try manager.makeOperation(.get, "quick?page=a%20b&token=secret") })
        #expect(log.entries.count == 20 && log.pages.count == 20)
        #expect(log.entries.allSatisfy { $0.comment == nil }, "no operation shares a response")
        let first = try #require(log.entries.first)
        try expectSizes(of: first, "/quick")
        #expect(first.response.status == 200 && first.response.bodySize == 5 && first.response.contentSize == 5)
        #expect(first.request.queryString == [HARField(name: "page", value: "a b"), HARField(name: "token", value: "***")])
        #expect(first.request.httpVersion == "HTTP/1.1" && first.serverAddress == "127.0.0.1")
        try expectValidity(log)
    }

    @Test func `a redirect chain is recorded`() async throws {
        server.route("/login") { _ in .redirect(to: "/quick?code=secret", status: 302) }
        let login = try manager.makeOperation(.get, "login"), profile = try manager.makeOperation(.get, "quick")
        profile.addDependency(login)
        let log = try await run([login, profile])
        #expect(log.entries.map(\.response.status) == [302, 200, 200])
        #expect(log.entries.map(\.page) == [log.pages[0].id, log.pages[0].id, log.pages[1].id])
        #expect(log.entries[0].response.redirectURL == "/quick?code=***")
        #expect(log.entries[1].request.url.hasSuffix("/quick?code=***"))
        try expectSizes(of: log.entries[2], "/quick")
        try expectValidity(log)
    }

    @Test func `retries and a failure are recorded`() async throws {
        let count = Locked(0)
        server.route("/late") { _ in
            count.withLock {
                $0 += 1; return $0 < 3
            } ? .status(503) : .status(200)
        }
        server.route("/broken") { _ in TestServer.Response(status: 200).failing(.closeBeforeHead) }
        var policy = RetryPolicy(maximumRetryCount: 3)
        (policy.initialDelay, policy.budget, policy.maximumGateDuration) = (0.001, nil, 0)
        let late = try manager.makeOperation(.get, "late"), broken = try manager.makeOperation(.post, "broken")
        late.retryPolicy = policy
        let log = try await run([late, broken])
        let (first, second) = (
            log.entries.filter { $0.page == log.pages[0].id }, log.entries.filter { $0.page == log.pages[1].id }
        )
        #expect(first.map(\.response.status) == [503, 503, 200])
        #expect(second.map(\.response.status) == [0])
        #expect(second[0].response.error?.isEmpty == false)
        try expectValidity(log)
    }

    @Test func `a response from the cache is recorded`() async throws {
        manager.cache = HTTPCache()
        server.route("/kept") { _ in .text("kept").header("Cache-Control", "max-age=600").header("X-Token", "secret") }
        _ = try await run([try manager.makeOperation(.get, "kept")])
        let log = try await run([try manager.makeOperation(.get, "kept")])
        #expect(log.entries.map(\.cacheUse) == [nil, "fresh"])
        #expect(log.entries[1].response.status == 200 && log.entries[1].response.contentSize == 4)
        #expect(log.entries.map(\.response.bodySize) == [4, 0])
        #expect(server.requests("/kept").count == 1)
        #expect(!String(decoding: try log.data(), as: UTF8.self).contains("secret"))
        try expectValidity(log)
    }

    @Test func `an upload and an encoded response are recorded`() async throws {
        // The string decodes to 10,000 times the letter "a".
        let encoded = try #require(Data(base64Encoded: "H4sIAAAAAAACA+3BAQ0AAADCoKzvX8IcbkABAAAAAAAAAADAvwGX1H5GECcAAA=="))
        server.route("/upload") { _ in
            TestServer.Response(status: 200, headers: ["Content-Encoding": "gzip"], body: .data(encoded))
        }
        let upload = try manager.makeOperation(.post, "upload", parameters: ["text": String(repeating: "b", count: 70_000)])
        let log = try await run([upload])
        let entry = try #require(log.entries.first)
        try expectSizes(of: entry, "/upload")
        #expect(entry.request.bodySize > 70_000 && entry.request.bodyType?.hasPrefix("application/") == true)
        #expect(entry.response.contentSize == 10_000 && Int(entry.response.bodySize) == encoded.count)
        let text = String(decoding: try log.data(), as: UTF8.self).filter { !$0.isWhitespace }
        #expect(text.contains("\"compression\":\(10_000 - encoded.count)"))
        try expectValidity(log)
    }

    @Test(arguments: [false, true]) func `secrets are masked unless requested`(includesSecrets: Bool) async throws {
        let recorder = HARRecorder(includesSecrets: includesSecrets)
        server.route("/secret") { _ in
            .status(200).header("Set-Cookie", "id=hidden; Path=/; HttpOnly; Secure; Expires=Sun, 06 Nov 2094 08:49:37 GMT")
        }
        var request = URLRequest(url: try manager.url(for: "secret?password=hidden"))
        request.setValue("Bearer hidden", forHTTPHeaderField: "Authorization")
        request.setValue("a=hidden; b=hidden", forHTTPHeaderField: "Cookie")
        request.setValue("hidden", forHTTPHeaderField: "X-Mine")
        let operation = manager.makeOperation(request: request)
        operation.connectionConfiguration.sensitiveHeaders = ["X-Mine"]
        let own = HTTPRequestOperation(request: operation.request)
        own.connectionConfiguration = operation.connectionConfiguration
        own.eventMonitors = [recorder.monitor]
        manager.enqueue([own])
        try await own.finished()
        let log = await recorder.log()
        let text = String(decoding: try log.data(), as: UTF8.self)
        #expect(text.contains("hidden") == includesSecrets, "\(text)")
        let entry = try #require(log.entries.first)
        #expect(entry.request.cookies.map(\.name) == ["a", "b"])
        let cookie = try #require(entry.response.cookies.first)
        #expect(cookie.isHTTPOnly && cookie.isSecure && cookie.path == "/" && cookie.expires != nil)
        try expectValidity(log)
    }

    @Test func `a truncated or undecodable body is recorded as an error beside its status`() async throws {
        server.route("/cut", TestServer.Response.pattern(count: 100).truncated(afterBytes: 10))
        server.route("/coded", .text("no gzip").header("Content-Encoding", "gzip"))
        server.route("/stopped", TestServer.Response.pattern(count: 100).status(500).stalls(afterBytes: 10))
        let paths = ["cut", "coded", "stopped", "quick"]
        let log = try await run(try paths.map { try manager.makeOperation(.get, $0) })
        for (path, status) in zip(paths, [200, 200, 500, 200]) {
            let entry = try #require(log.entries.first { $0.request.url.hasSuffix(path) })
            #expect(entry.response.status == status)
            #expect((entry.response.error == nil) == (path == "quick"), "\(path): \(entry.response.error ?? "none")")
        }
        try expectValidity(log)
    }

    @Test func `each attempt of a refused request has its own error`() async throws {
        let gone = try TestServer()
        let operation = HTTPRequestOperation(request: URLRequest(url: gone.url("/")))
        gone.stop()
        var policy = RetryPolicy(maximumRetryCount: 2)
        policy.initialDelay = 0.01
        operation.retryPolicy = policy
        operation.eventMonitors = [recorder.monitor]
        let log = try await run([operation])
        #expect(log.entries.count == 3)
        #expect(log.entries.allSatisfy { $0.response.status == 0 && $0.response.error != nil })
    }

    @Test func `a request cancelled during its body is recorded as cancelled`() async throws {
        let gate = TestServer.Gate()
        defer { gate.open() }
        server.route("/held", TestServer.Response.pattern(count: 100_000).heldBody(by: gate, afterBytes: 50_000))
        let operation = try manager.makeOperation(.get, "held")
        operation.onFirstBytes { operation.cancel() }
        let log = try await run([operation])
        let entry = try #require(log.entries.first)
        #expect(entry.response.status == 200 && entry.response.error == "cancelled")
    }

    @Test func `a recorder can be cleared`() async throws {
        _ = try await run([try manager.makeOperation(.get, "quick")])
        recorder.removeAll()
        #expect(await recorder.log() == HARLog())
        try expectValidity(HARLog())
    }

    @Test func `dates have microseconds, and no date causes a crash`() {
        #expect(HARDate.text(Date(timeIntervalSince1970: 0.25)) == "1970-01-01T00:00:00.250000Z")
        #expect(HARDate.text(Date(timeIntervalSince1970: 4_102_444_799.5)) == "2099-12-31T23:59:59.500000Z")
        for seconds in [-1.0, .infinity, -.infinity, .nan, 1e300] {
            #expect(!HARDate.text(Date(timeIntervalSince1970: seconds)).isEmpty)
        }
    }

    @Test func `the time of an entry is the sum of its phases`() {
        var timings = HARTimings()
        #expect(timings.total == 0)
        (timings.blocked, timings.dns, timings.connect, timings.ssl) = (1, 2, 4, 3)
        (timings.send, timings.wait, timings.receive) = (8, 16, 32)
        #expect(timings.total == 63)
    }
}
