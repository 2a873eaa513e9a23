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

/// The cache combined with cookies and credentials.
@Suite struct CacheCookieTests: CachingSuite {
    let fixture: CachingFixture

    init() throws { fixture = try CachingFixture() }

    /// Adds a cookie, so that all requests belong to the store. Responses received before the store has a cookie are
    /// shared by all users.
    private func begin() { manager.cookieStore?.setCookies(["s=1; Path=/"], from: server.url) }

    // MARK: Cookies

    @Test func `a stored response or redirect does not set its cookies again`() async throws {
        server.route("/set", .text("x").header("Set-Cookie", "a=1; Path=/").header("Cache-Control", "max-age=600"))
        server.route(
            "/moved",
            .status(301, headers: ["Location": "/set", "Set-Cookie": "r=1; Path=/", "Cache-Control": "max-age=600"]))
        begin()
        try await get("/moved")
        #expect(Set(manager.cookieStore?.cookies.map(\.name) ?? []) == ["s", "a", "r"])
        manager.cookieStore?.removeAll()
        begin()
        #expect(try await get("/moved").cacheUse == .fresh)
        #expect(manager.cookieStore?.cookies.map(\.name) == ["s"] && server.requests.count == 2)
    }

    @Test func `a 304, and an error replaced by a stored response, set their cookies`() async throws {
        server.route(
            "GET", "/stale",
            inTurn: [
                .text("x").header("ETag", "\"1\"").header("Cache-Control", "max-age=0, stale-if-error=600"),
                .status(304, headers: ["ETag": "\"1\"", "Set-Cookie": "n=1; Path=/"]),
                .status(503, headers: ["Set-Cookie": "e=1; Path=/"]),
            ])
        begin()
        try await get("/stale")
        #expect(try await get("/stale").cacheUse == .validated)
        #expect(manager.cookieStore?.cookies.map(\.name) == ["s", "n"])
        #expect(try await get("/stale").cacheUse == .staleIfError)
        #expect(Set(manager.cookieStore?.cookies.map(\.name) ?? []) == ["s", "n", "e"])
    }

    @Test func `a handler decides about the cookies of a 304 and of a stored redirect`() async throws {
        begin()
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
        #expect(server.requests.map { $0.headers["Cookie"] }.last == "s=1; r=1; first=1")
        #expect(server.requests("/moved").count == 1)
    }

    @Test func `a stored response is matched with the cookies set by the preceding redirect`() async throws {
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

    // MARK: Credentials

    @Test func `a user's stored response is a hit without a new challenge`() async throws {
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

    @Test func `a response for the old token is not served for the new one, and a stored 401 does not fail any operation`()
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
}
