import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Challenges after a redirect. The requests before the redirect are not repeated.
@Suite struct AuthenticationRedirectTests {
    @Test(arguments: [302, 303], [false, true])
    func `a redirected POST is not sent again when the target sends a challenge`(
        status: Int, isOtherOrigin: Bool
    ) async throws {
        let first = try AskingServer(), other = try AskingServer()
        let second = isOtherOrigin ? other : first
        first.route("/order") { _, _ in .redirect(to: second.url("/private/1").absoluteString, status: status) }
        second.protect("/private/1")
        let operation = AskingServer.operation(first.url("/order"), "POST", credential: nil, body: "one")
        operation.credentialStore.set(AskingServer.ada, forOriginOf: second.url("/"))
        try await operation.finished()
        #expect(operation.responseString == "let in" && operation.response?.url == second.url("/private/1"))
        #expect(first.server.requests("/order").map(\.text) == ["one"])
        #expect(second.authorizations("/private/1") == ["none", AskingServer.basic])
        #expect(operation.redirects.map(\.statusCode) == [status])
    }

    @Test func `a body that a redirect preserves is sent again to the server that sent the challenge`() async throws {
        let asking = try AskingServer()
        asking.route("/order") { _, _ in .redirect(to: "/private/1", status: 307) }
        asking.protect("/private/1")
        for isStream in [false, true] {
            let operation: HTTPRequestOperation
            if isStream {
                var request = URLRequest(url: asking.url("/order"))
                request.httpMethod = "POST"
                request.httpBodyStream = ReplayableText("one")
                operation = HTTPRequestOperation(request: request)
                operation.completionQueue = testQueue
                operation.authenticationChallengeHandler = { _, _, answer in answer(.useCredential(AskingServer.ada)) }
                operation.credentialStore = CredentialStore()
            } else {
                operation = AskingServer.operation(asking.url("/order"), "POST", body: "one")
            }
            let before = asking.server.requests.count
            try await operation.finished()
            let requests = asking.server.requests.dropFirst(before)
            #expect(operation.responseString == "let in")
            #expect(requests.filter { $0.path == "/order" }.map(\.text) == ["one"])
            #expect(requests.filter { $0.path == "/private/1" }.last?.text == "one")
        }
    }

    @Test func `a one-shot stream can be posted before a redirect to a protected page`() async throws {
        let asking = try AskingServer()
        asking.route("/order") { _, _ in .redirect(to: "/private/1", status: 303) }
        asking.protect("/private/1")
        var request = URLRequest(url: asking.url("/order"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: Data("one".utf8))
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.credential = AskingServer.ada
        try await operation.finished()
        #expect(operation.responseString == "let in" && asking.server.requests("/order").map(\.text) == ["one"])
    }

    @Test func `a token rejected by a redirect's target is refreshed, and only the redirected request is repeated`()
        async throws
    {
        let tokens = try TokenServer()
        tokens.server.redirect("/order", to: "/data", status: 303)
        let manager = HTTPRequestOperationManager(baseURL: tokens.server.url, completionQueue: testQueue)
        manager.responseSerializer = StringResponseSerializer()
        manager.authenticator = Authenticator(token: AccessToken("t1")) { _ in AccessToken("t2") }
        tokens.expire()
        let operation = try manager.makeOperation(.post, "order")
        manager.enqueue(operation)
        try await operation.finished()
        #expect(operation.responseString == "data" && tokens.server.requests("/order").count == 1)
        #expect(tokens.server.requests("/data").map { $0.headers["Authorization"] } == ["Bearer t1", "Bearer t2"])
    }

    @Test func `a request that lost its token in a redirect does not trigger a refresh`() async throws {
        let tokens = try TokenServer(), other = try TestServer()
        other.redirect("/back", to: tokens.server.url("/data").absoluteString)
        tokens.server.redirect("/away", to: other.url("/back").absoluteString)
        let manager = HTTPRequestOperationManager(baseURL: tokens.server.url, completionQueue: testQueue)
        manager.responseSerializer = StringResponseSerializer()
        manager.authenticator = Authenticator(token: AccessToken("t1")) { _ in
            Issue.record("The token was not rejected because it was not sent.")
            return AccessToken("t2")
        }
        let operation = try manager.makeOperation(.get, "away")
        manager.enqueue(operation)
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 401 && tokens.server.requests("/data").map { $0.headers["Authorization"] } == [nil])
        #expect(other.requests.allSatisfy { $0.headers["Authorization"] == nil })
    }

    @Test func `answering challenges does not reset the redirect count`() async throws {
        let servers = [try AskingServer(), try AskingServer()]
        let urls = servers.map { $0.url("/").absoluteString }
        for (index, asking) in servers.enumerated() {
            let next = urls[1 - index]
            // Each page has its own nonce, and redirects an authenticated client to the next page on the other server.
            asking.route("/*") { request, _ in
                let page = Int(request.path.dropFirst()) ?? 0
                return request.authorizations.first?.contains("nonce=\"page\(page)\"") == true
                    ? .redirect(to: "\(next)\(page + 1)")
                    : .asking("Digest realm=\"a\", nonce=\"page\(page)\", qop=\"auth\", stale=true")
            }
        }
        let operation = AskingServer.operation(servers[0].url("/0"), credential: nil)
        for asking in servers { operation.credentialStore.set(AskingServer.ada, forOriginOf: asking.url("/")) }
        await #expect { try await operation.finished() } throws: {
            ($0 as? URLError)?.code == .httpTooManyRedirects
        }
        let count = servers.map(\.server.requests.count).reduce(0, +)
        #expect(count <= 2 * 21 + 1 && operation.redirects.count == 21, "\(count) requests")
    }

    @Test(arguments: [false, true])
    func `the rest of a body that requires a credential is appended to the received part`(
        isRedirected: Bool
    ) async throws {
        let asking = try AskingServer()
        let body = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &>> 3) })
        asking.route("/start") { _, _ in .redirect(to: "/file") }
        asking.route("/file") { request, _ in
            guard let range = request.headers["Range"] else {
                return .bytes(body).header("ETag", "\"one\"").stalls(afterBytes: 30_000)
            }
            guard request.authorizations == [AskingServer.basic] else { return .asking("Basic realm=\"a\"") }
            let from = Int(range.dropFirst("bytes=".count).dropLast()) ?? 0
            return .bytes(body.dropFirst(from), status: 206).header("ETag", "\"one\"")
                .header("Content-Range", "bytes \(from)-\(body.count - 1)/\(body.count)")
        }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        let operation = AskingServer.operation(asking.url(isRedirected ? "/start" : "/file"))
        operation.outputStream = OutputStream(url: file, append: false)
        let hasBegun = Signal()
        operation.onFirstBytes { hasBegun.fire() }
        operation.start()
        #expect(await Task.detached { hasBegun.wait() }.value)
        operation.pause()
        operation.resume()
        try await operation.finished()
        #expect(try Data(contentsOf: file) == body)
        let ranged = asking.server.requests("/file").filter { $0.headers["Range"] != nil }
        #expect(ranged.count == 2 && asking.server.requests("/file").count == 3)
    }
}
