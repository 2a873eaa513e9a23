import ConvoyCache
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

/// Tests of stored responses with negotiated content codings and authentication.
@Suite struct CacheNegotiationTests: CachingSuite {
    let fixture: CachingFixture

    init() throws { fixture = try CachingFixture() }

    // MARK: Codings

    /// Serves encoded responses to clients that accept them, but omits `Vary`, as nginx does by default.
    private func serveEncoded() throws -> Data {
        let body = PatternBytes.data(count: 60_000)
        let packed = try ProcessRunner.run("/bin/gzip", ["-c"], input: body).output
        server.route("GET", "/x") { request in
            let isTaken = request.headers["Accept-Encoding"]?.contains("gzip") == true
            var response = TestServer.Response.bytes(isTaken ? packed : body).header("Cache-Control", "max-age=600")
            if isTaken { response = response.header("Content-Encoding", "gzip") }
            guard request.headers["Range"] == "bytes=100-199" else { return response }
            let whole = isTaken ? packed : body
            response.body = .data(whole[100..<200])
            return response.status(206).header("Content-Range", "bytes 100-199/\(whole.count)")
        }
        return body
    }

    @Test func `a range of an encoded body is not served as a range of the decoded body`() async throws {
        let body = try serveEncoded()
        #expect(try await get("/x").responseData == body)
        manager.responseSerializer.acceptableStatusCodes = nil
        let part = try await get("/x") { $0.setValue("bytes=100-199", forHTTPHeaderField: "Range") }
        #expect(part.responseData == body[100..<200])
        #expect(part.response?.value(forHTTPHeaderField: "Content-Encoding") == nil)
        #expect(try await get("/x").cacheUse == .fresh)
    }

    @Test func `a client that accepts no coding receives an unencoded body, which is served to all other clients`()
        async throws
    {
        let body = try serveEncoded()
        #expect(try await get("/x").responseData == body)
        let plain = try await get("/x") { $0.setValue("identity", forHTTPHeaderField: "Accept-Encoding") }
        #expect(plain.responseData == body && plain.cacheUse == nil)
        // An unencoded response can be served to every client.
        #expect(try await get("/x").responseData == body)
    }

    // MARK: Client identity

    @Test func `a stored 401 with a used nonce does not lock out a valid user`() async throws {
        let nonces = Locked<(made: Int, used: Set<String>)>((0, []))
        server.route("GET", "/in") { request in
            let sent = request.headers["Authorization"].flatMap { value in
                value.components(separatedBy: "nonce=\"").dropFirst().first?.prefix { $0 != "\"" }
            }.map(String.init)
            return nonces.withLock { nonces in
                // Each nonce is valid for one request, as with strict servers.
                if let sent, sent == "n\(nonces.made)", nonces.used.insert(sent).inserted {
                    return .text("in").header("Cache-Control", "max-age=600")
                }
                nonces.made += 1
                let stale = sent == nil ? "" : ", stale=true"
                return .status(
                    401,
                    headers: [
                        "WWW-Authenticate":
                            "Digest realm=\"r\", qop=\"auth\", algorithm=SHA-256, nonce=\"n\(nonces.made)\"\(stale)",
                        "Cache-Control": "max-age=600",
                    ])
            }
        }
        var answers: [String?] = []
        for user in ["ada", "eve", "ada", "eve"] {
            let operation = AskingServer.operation(
                server.url("/in"), credential: URLCredential(user: user, password: "pw", persistence: .none))
            operation.cache = cache
            operation.totalTimeout = 20
            try? await operation.finished()
            answers.append(operation.responseString)
        }
        #expect(answers == ["in", "in", "in", "in"])
        #expect(server.requests.count < 20)
    }

    @Test func `a rejected password can succeed later, despite the stored 401`() async throws {
        let isOpen = Locked(false)
        server.route("GET", "/in") { request in
            guard isOpen.withLock({ $0 }), request.headers["Authorization"] == AskingServer.basic else {
                return .asking("Basic realm=\"r\"").header("Cache-Control", "max-age=600")
            }
            return .text("in")
        }
        for isIn in [false, true] {
            isOpen.withLock { $0 = isIn }
            let operation = AskingServer.operation(server.url("/in"))
            operation.cache = cache
            try? await operation.finished()
            #expect(operation.statusCode == (isIn ? 200 : 401))
        }
    }

    // MARK: Retries

    @Test func `a retry bypasses the stored failure that it retries`() async throws {
        var policy = RetryPolicy(maximumRetryCount: 2)
        policy.initialDelay = 0.001
        manager.retryPolicy = policy
        server.route(
            "GET", "/x",
            inTurn: [
                .text("failed").status(503).header("Cache-Control", "max-age=600"),
                .text("good").header("Cache-Control", "max-age=600"),
            ])
        let operation = try await get("/x")
        #expect(operation.responseString == "good" && operation.retryCount == 1)
        #expect(try await get("/x").cacheUse == .fresh)
        #expect(server.requests.count == 2)
    }
}
