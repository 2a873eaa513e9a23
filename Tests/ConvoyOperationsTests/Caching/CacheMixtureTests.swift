import ConvoyCache
import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The cache together with all else that a request can meet.
@Suite struct CacheMixtureTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager
    let cache = HTTPCache()

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache
    }

    @discardableResult
    private func get(_ path: String, _ change: (inout URLRequest) -> Void = { _ in }) async throws -> HTTPRequestOperation {
        var request = URLRequest(url: server.url(path))
        change(&request)
        let operation = manager.enqueue(manager.makeOperation(request: request))
        try await operation.finished()
        return operation
    }

    // MARK: Cookies

    @Test func `a stored response sets no cookie again, and neither does a stored redirect`() async throws {
        server.route("/set", .text("x").header("Set-Cookie", "a=1; Path=/").header("Cache-Control", "max-age=600"))
        server.route(
            "/moved",
            .status(301, headers: ["Location": "/set", "Set-Cookie": "r=1; Path=/", "Cache-Control": "max-age=600"]))
        try await get("/moved")
        #expect(Set(manager.cookieStore?.cookies.map(\.name) ?? []) == ["a", "r"])
        manager.cookieStore?.removeAll()
        #expect(try await get("/moved").cacheUse == .fresh)
        #expect(manager.cookieStore?.cookies.isEmpty == true && server.requests.count == 2)
    }

    @Test func `a 304 and an error that a stored response stands in for set their cookies`() async throws {
        server.route(
            "GET", "/stale",
            inTurn: [
                .text("x").header("ETag", "\"1\"").header("Cache-Control", "max-age=0, stale-if-error=600"),
                .status(304, headers: ["ETag": "\"1\"", "Set-Cookie": "n=1; Path=/"]),
                .status(503, headers: ["Set-Cookie": "e=1; Path=/"]),
            ])
        try await get("/stale")
        #expect(try await get("/stale").cacheUse == .validated)
        #expect(manager.cookieStore?.cookies.map(\.name) == ["n"])
        #expect(try await get("/stale").cacheUse == .staleIfError)
        #expect(Set(manager.cookieStore?.cookies.map(\.name) ?? []) == ["n", "e"])
    }

    @Test func `a handler is asked about the cookies of a 304 and of a redirect that is stored`() async throws {
        let asked = Locked<[String]>([])
        manager.cookieStore?.acceptanceHandler = { cookie, _ in
            asked.withLock { $0.append(cookie.name) }
            return true
        }
        server.route(
            "GET", "/stale",
            inTurn: [
                .pattern(count: 300_000).header("ETag", "\"1\"").header("Cache-Control", "max-age=0")
                    .header("Set-Cookie", "first=1; Path=/"),
                .status(304, headers: ["ETag": "\"1\"", "Set-Cookie": "n=1; Path=/"]),
            ])
        server.route(
            "/moved",
            .text("elsewhere").status(301).header("Location", "/stale").header("Set-Cookie", "r=1; Path=/")
                .header("Cache-Control", "max-age=600"))
        try await get("/moved")
        let second = try await get("/moved")
        #expect(second.cacheUse == .validated && second.responseData == PatternBytes.data(count: 300_000))
        #expect(asked.withLock { $0 } == ["r", "first", "n"])
        #expect(server.requests.map { $0.headers["Cookie"] }.last == "r=1; first=1")
        #expect(server.requests("/moved").count == 1)
    }

    @Test func `what depends on a cookie that a redirect sets is looked up with it`() async throws {
        server.route("/page") { request in
            .text(request.headers["Cookie"] ?? "none").header("Vary", "Cookie").header("Cache-Control", "max-age=600")
        }
        server.redirect("/in", to: "/page")
        server.route("/login", .status(302, headers: ["Location": "/page", "Set-Cookie": "u=ada; Path=/"]))
        #expect(try await get("/in").responseString == "none")
        #expect(try await get("/login").responseString == "u=ada")
        let again = try await get("/in")
        #expect(again.responseString == "u=ada" && again.cacheUse == .fresh)
        manager.cookieStore?.removeAll()
        let before = try await get("/page")
        #expect(before.responseString == "none")
        #expect(server.requests("/page").count <= 3)
    }

    // MARK: Heads, parts and conditions

    @Test func `HEAD is answered by what GET has stored, and not the other way round`() async throws {
        server.route("/x", .text("body").header("Cache-Control", "max-age=600").header("ETag", "\"1\""))
        let head = try await get("/x") { $0.httpMethod = "HEAD" }
        #expect(head.cacheUse == nil && head.responseData?.isEmpty != false)
        #expect(try await get("/x").cacheUse == nil)
        let again = try await get("/x") { $0.httpMethod = "HEAD" }
        #expect(again.cacheUse == .fresh && again.responseData?.isEmpty != false && again.statusCode == 200)
        #expect(again.response?.value(forHTTPHeaderField: "Content-Length") == "4")
        #expect(server.requests.map(\.method) == ["HEAD", "GET"])
    }

    @Test func `a condition of the caller's is answered out of the cache`() async throws {
        server.route("/x", .text("body").header("Cache-Control", "max-age=600").header("ETag", "\"1\""))
        manager.responseSerializer.acceptableStatusCodes = nil
        try await get("/x")
        let same = try await get("/x") { $0.setValue("\"1\"", forHTTPHeaderField: "If-None-Match") }
        #expect(same.statusCode == 304 && same.responseData?.isEmpty != false && same.cacheUse == .fresh)
        let other = try await get("/x") { $0.setValue("\"2\"", forHTTPHeaderField: "If-None-Match") }
        #expect(other.statusCode == 200 && other.responseString == "body")
    }

    @Test func `a part of what is stored whole is a part, and the whole stays whole`() async throws {
        server.servePattern(count: 100_000, at: "/file", etag: "\"f\"") { _, response in
            response.header("Cache-Control", "max-age=600")
        }
        try await get("/file")
        manager.responseSerializer.acceptableStatusCodes = nil
        let ranges: [(String, Range<Int>)] = [
            ("bytes=0-0", 0..<1), ("bytes=99999-", 99_999..<100_000), ("bytes=-7", 99_993..<100_000),
            ("bytes=500-999999", 500..<100_000),
        ]
        for (value, range) in ranges {
            let part = try await get("/file") { $0.setValue(value, forHTTPHeaderField: "Range") }
            #expect(part.statusCode == 206 && part.cacheUse == .fresh, "\(value)")
            #expect(part.responseData == PatternBytes.data(count: range.count, offset: range.lowerBound), "\(value)")
            let header = part.response?.value(forHTTPHeaderField: "Content-Range")
            #expect(header == "bytes \(range.lowerBound)-\(range.upperBound - 1)/100000", "\(value)")
        }
        for value in ["bytes=100000-", "bytes=-0", "bytes=5-1", "items=0-1", "bytes=0-1,5-6", "bytes=18446744073709551616-"]
        {
            let part = try await get("/file") { $0.setValue(value, forHTTPHeaderField: "Range") }
            #expect([200, 416].contains(part.statusCode ?? 0), "\(value) \(part.statusCode ?? 0)")
            #expect(part.statusCode != 200 || part.responseData == PatternBytes.data(count: 100_000), "\(value)")
        }
        let whole = try await get("/file")
        #expect(whole.cacheUse == .fresh && whole.responseData == PatternBytes.data(count: 100_000))
    }

    @Test(
        "what a server says about a range, a condition, a proxy or a limit is no answer for others",
        arguments: [407, 412, 416, 428, 429, 431, 511])
    func momentary(status: Int) async throws {
        server.route("GET", "/x") { request in
            request.headers["If-Match"] != nil
                ? .status(status, headers: ["Cache-Control": "max-age=600"])
                : .text("body").header("Cache-Control", "max-age=600")
        }
        _ = try? await get("/x") {
            $0.setValue("\"0\"", forHTTPHeaderField: "If-Match")
            $0.setValue("bytes=900-", forHTTPHeaderField: "Range")
        }
        #expect(try await get("/x").responseString == "body")
        _ = try? await get("/x") { $0.setValue("\"0\"", forHTTPHeaderField: "If-Match") }
        let again = try await get("/x")
        #expect(again.responseString == "body" && again.cacheUse == .fresh)
    }

    @Test("a download that was paused goes on out of the cache, if that has the same version", arguments: [true, false])
    func resumed(isSame: Bool) async throws {
        // Opened last: a transfer goes on for a moment after its operation has been paused.
        let gate = TestServer.Gate()
        defer { gate.open() }
        let second = TestServer.Response.pattern(count: 3_000_000, offset: isSame ? 0 : 100)
            .header("ETag", isSame ? "\"1\"" : "\"2\"").header("Cache-Control", "max-age=600")
        server.route(
            "GET", "/file",
            inTurn: [
                .pattern(count: 3_000_000).header("ETag", "\"1\"").header("Cache-Control", "max-age=600")
                    .header("Accept-Ranges", "bytes").heldBody(by: gate, afterBytes: 1_000_000),
                second,
            ])
        let operation = manager.enqueue(try manager.makeOperation(.get, "file"))
        try await waitUntil("bytes") { operation.progress.completedUnitCount > 0 }
        operation.pause()
        try await waitUntil("the pause") { operation.state == .paused }
        #expect(try await get("/file").cacheUse == nil)
        operation.resume()
        try await operation.finished()
        #expect(operation.responseData == PatternBytes.data(count: 3_000_000, offset: isSame ? 0 : 100))
        #expect(server.requests.count == 2, "\(server.requests.map { $0.headers["Range"] ?? "whole" })")
        #expect(try await get("/file").responseData == PatternBytes.data(count: 3_000_000, offset: isSame ? 0 : 100))
    }

    @Test func `a download that was resumed over the network stores no part as the whole`() async throws {
        // Opened last: a transfer goes on for a moment after its operation has been paused.
        let gate = TestServer.Gate()
        defer { gate.open() }
        let isFirst = Locked(true)
        server.servePattern(count: 2_000_000, at: "/file", etag: "\"1\"") { _, response in
            let response = response.header("Cache-Control", "max-age=600")
            let isHeld = isFirst.withLock { first in
                defer { first = false }
                return first
            }
            return isHeld ? response.heldBody(by: gate, afterBytes: 500_000) : response
        }
        let operation = manager.enqueue(try manager.makeOperation(.get, "file"))
        try await waitUntil("bytes") { operation.progress.completedUnitCount > 0 }
        operation.pause()
        try await waitUntil("the pause") { operation.state == .paused }
        operation.resume()
        try await operation.finished()
        #expect(operation.responseData == PatternBytes.data(count: 2_000_000))
        #expect(server.requests.last?.headers["Range"] != nil)
        #expect(try await get("/file").responseData == PatternBytes.data(count: 2_000_000))
    }

    // MARK: What changes something

    @Test func `an upload invalidates what is stored, a refused one does not`() async throws {
        server.route("GET", "/x", .text("body").header("Cache-Control", "max-age=600"))
        server.route("PUT", "/x", inTurn: [.text("no").status(500), .text("yes")])
        try await get("/x")
        for (number, use) in [CacheUse?.some(.fresh), nil].enumerated() {
            var request = URLRequest(url: server.url("/x"))
            request.httpMethod = "PUT"
            request.httpBodyStream = InputStream(data: Data(repeating: 1, count: 200_000))
            let operation = manager.enqueue(manager.makeOperation(request: request))
            try? await operation.finished()
            #expect(operation.statusCode == (number == 0 ? 500 : 200))
            #expect(try await get("/x").cacheUse == use)
        }
    }

    // MARK: Errors and retries

    @Test func `what is stale is served in place of a retry, and where the server says nothing`() async throws {
        var policy = RetryPolicy(maximumRetryCount: 3)
        policy.initialDelay = 0.001
        manager.retryPolicy = policy
        let good = TestServer.Response.text("good").header("Cache-Control", "max-age=0, stale-if-error=600")
        server.route("GET", "/error", inTurn: [good, .status(503)])
        server.route("GET", "/silent", inTurn: [good, good.failing(.stallBeforeHead)])
        server.route("GET", "/reset", inTurn: [good, good.resetBeforeHead()])
        server.route("GET", "/nonsense", inTurn: [good, .raw("nonsense")])
        for path in ["/error", "/silent", "/reset", "/nonsense"] {
            try await get(path)
            let second = try await get(path) { $0.timeoutInterval = 1 }
            #expect(second.cacheUse == .staleIfError && second.responseString == "good", "\(path)")
        }
        #expect(server.requests("/error").count == 2 && server.requests("/silent").count == 2)
    }

    // MARK: Credentials

    @Test func `a user's response is a hit without a new challenge`() async throws {
        let asking = try AskingServer()
        asking.protect("/in", .text("let in").header("Cache-Control", "max-age=600"))
        let store = CredentialStore()
        func operation(_ credential: URLCredential?) -> HTTPRequestOperation {
            let operation = AskingServer.operation(asking.url("/in"), credential: credential)
            operation.credentialStore = store
            operation.cache = cache
            return operation
        }
        let first = operation(AskingServer.ada)
        try await first.finished()
        let requests = asking.authorizations("/in").count
        let second = operation(AskingServer.ada)
        try await second.finished()
        #expect(second.cacheUse == .fresh && second.responseString == "let in")
        #expect(asking.authorizations("/in").count == requests)
        let eve = operation(URLCredential(user: "eve", password: "guess", persistence: .none))
        try? await eve.finished()
        #expect(eve.cacheUse == nil && eve.statusCode == 401)
        let nobody = AskingServer.operation(asking.url("/in"), credential: nil)
        nobody.cache = cache
        try? await nobody.finished()
        #expect(nobody.cacheUse == nil && nobody.statusCode == 401)
    }

    @Test func `a token that was exchanged gets none of the old one's responses, and a stored 401 ends nothing`()
        async throws
    {
        let generation = Locked(1)
        server.route("GET", "/data") { request in
            let token = "Bearer t\(generation.withLock { $0 })"
            guard request.headers["Authorization"] == token else {
                return .status(401, headers: ["WWW-Authenticate": "Bearer", "Cache-Control": "max-age=600"])
            }
            return .text(token).header("Cache-Control", "max-age=600")
        }
        server.route("GET", "/other") { request in
            let token = "Bearer t\(generation.withLock { $0 })"
            guard request.headers["Authorization"] == token else {
                return .status(401, headers: ["WWW-Authenticate": "Bearer", "Cache-Control": "max-age=600"])
            }
            return .text("other")
        }
        server.route("POST", "/token") { _ in .text("t\(generation.withLock { $0 })") }
        manager.authenticator = Authenticator(token: AccessToken("t1")) { [weak manager] _ in
            guard let manager else { throw CancellationError() }
            return AccessToken(try await manager.post("token", as: String.self))
        }
        #expect(try await get("/data").responseString == "Bearer t1")
        #expect(try await get("/data").cacheUse == .fresh)
        generation.withLock { $0 = 2 }
        #expect(try await get("/other").responseString == "other")
        let third = try await get("/data")
        #expect(third.responseString == "Bearer t2" && third.cacheUse == nil)
        #expect(server.requests("/token").count == 1)
    }

    // MARK: Handlers

    @Test func `a handler that does not return holds up its own operation only, which a timeout ends`() async throws {
        server.route("/x", .text("x").header("Cache-Control", "max-age=600"))
        server.route("/y", .text("y").header("Cache-Control", "max-age=600"))
        let gate = DispatchSemaphore(value: 0)
        defer { gate.signal() }
        let asked = Locked(false)
        let stuck = try manager.makeOperation(.get, "x")
        stuck.totalTimeout = 1
        stuck.cacheResponseHandler = { _, candidate in
            asked.withLock { $0 = true }
            gate.wait()
            return candidate
        }
        manager.enqueue(stuck)
        try await waitUntil("the handler") { asked.withLock { $0 } }
        let other = try manager.makeOperation(.get, "y")
        other.totalTimeout = 20
        other.cacheResponseHandler = { _, candidate in candidate }
        manager.enqueue(other)
        try await other.finished()
        #expect(try await get("/y").cacheUse == .fresh)
        try? await stuck.finished()
        #expect((stuck.error as? URLError)?.code == .timedOut)
    }

    @Test func `a handler that changes an encoded body is answered by what it has put there`() async throws {
        let packed = try ProcessRunner.run("/bin/gzip", ["-c"], input: Data("from the server".utf8)).output
        let own = try ProcessRunner.run("/bin/gzip", ["-c"], input: Data("from the handler".utf8)).output
        server.route("/x", .bytes(packed).header("Content-Encoding", "gzip").header("Cache-Control", "max-age=600"))
        let operation = try manager.makeOperation(.get, "x")
        operation.cacheResponseHandler = { _, candidate in
            var candidate = candidate
            #expect(candidate.data == packed)
            candidate.replaceBody(own)
            return candidate
        }
        manager.enqueue(operation)
        try await operation.finished()
        #expect(operation.responseString == "from the server")
        let second = try await get("/x")
        #expect(second.responseString == "from the handler" && second.cacheUse == .fresh)
        #expect(second.response?.value(forHTTPHeaderField: "Content-Length").map { $0 == "\(own.count)" } != false)
    }

    // MARK: Releasing

    @Test func `what is asked for in the background arrives when the manager is gone, and hurts nobody if the cache is`()
        async throws
    {
        for keepsCache in [true, false] {
            let gate = TestServer.Gate()
            let path = "/swr\(keepsCache)"
            server.route(
                "GET", path,
                inTurn: [
                    .text("first").header("Cache-Control", "max-age=0, stale-while-revalidate=600"),
                    .text("second").header("Cache-Control", "max-age=600").held(by: gate),
                ])
            weak var weakManager: HTTPRequestOperationManager?
            var kept: HTTPCache?
            do {
                let other = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
                weakManager = other
                other.responseSerializer = HTTPResponseSerializer()
                let cache = HTTPCache()
                other.cache = cache
                if keepsCache { kept = cache }
                for _ in 0..<2 {
                    let operation = other.enqueue(try other.makeOperation(.get, path))
                    try await operation.finished()
                    #expect(operation.responseString == "first")
                }
            }
            try await waitUntil("the end of the manager") { weakManager == nil }
            try await waitUntil("the request") { server.requests(path).count == 2 }
            gate.open()
            if let kept {
                try await waitUntil("the new response") { kept.stores == 2 }
                manager.cache = kept
                let operation = try await get(path)
                #expect(operation.responseString == "second" && operation.cacheUse == .fresh)
                manager.cache = cache
            }
        }
    }

    // MARK: Sharing a transfer

    @Test func `operations that share a validation get the whole, and the first may leave`() async throws {
        let gate = TestServer.Gate()
        server.route(
            "GET", "/stale",
            inTurn: [
                .pattern(count: 400_000).header("Cache-Control", "max-age=0").header("ETag", "\"1\""),
                .status(304, headers: ["ETag": "\"1\"", "Cache-Control": "max-age=600"]).held(by: gate),
            ])
        try await get("/stale")
        manager.coalescesIdenticalRequests = true
        let operations = try (0..<10).map { _ in try manager.makeOperation(.get, "stale") }
        manager.enqueue(operations)
        try await server.waitForRequests(count: 2)
        operations[0].cancel()
        gate.open()
        for operation in operations { try? await operation.finished() }
        #expect((operations[0].error as? URLError)?.code == .cancelled)
        for operation in operations.dropFirst() {
            #expect(operation.responseData == PatternBytes.data(count: 400_000))
        }
        #expect(server.requests.count == 2)
    }
}
