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

/// Tests that a named identity replaces the credentials of a request as its identity.
@Suite struct NamedIdentityTests {
    let server: TestServer
    let cache = HTTPCache()

    init() throws {
        server = try TestServer()
        server.route("GET", "/account") { request in
            .text(request.headers["Authorization"] ?? request.headers["Cookie"] ?? "nobody")
                .header("Cache-Control", "max-age=600")
        }
    }

    private func manager(_ name: String?, _ cache: HTTPCache? = nil) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache ?? self.cache
        manager.identity = name
        return manager
    }

    private func get(
        _ manager: HTTPRequestOperationManager, _ path: String = "account", headers: [String: String?] = [:]
    ) async throws -> HTTPRequestOperation {
        let operation = manager.enqueue(try manager.makeOperation(.get, path, headers: headers))
        try? await operation.finished()
        return operation
    }

    @Test func `replacing a token keeps the cache, and another identity cannot read it`() async throws {
        let (ada, eve) = (manager("ada"), manager("eve"))
        ada.authenticator = Authenticator(token: AccessToken("t1")) { _ in AccessToken("x") }
        eve.authenticator = ada.authenticator
        #expect(try await get(ada).responseString == "Bearer t1")
        ada.authenticator?.token = AccessToken("t2")
        let again = try await get(ada)
        #expect(again.responseString == "Bearer t1" && again.cacheUse == .fresh)
        #expect(try await get(eve).responseString == "Bearer t2")
        // Neither the same token without a name nor a request without credentials is a hit.
        #expect(try await get(manager(nil), headers: ["Authorization": "Bearer t1"]).cacheUse == nil)
        #expect(try await get(manager(nil)).responseString == "nobody")
        #expect(try await get(manager("ada")).cacheUse == .fresh)
    }

    @Test func `responses stored for an identity are served in the next process`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-named")
        defer { directory.remove() }
        for number in 1...2 {
            let disk = try HTTPCache(directory: directory.file("cache"))
            let operation = try await get(manager("ada.lovelace", disk), headers: ["Authorization": "Bearer t\(number)"])
            #expect(operation.responseString == "Bearer t1" && (operation.cacheUse == .fresh) == (number == 2))
            let other = try await get(manager("eve", disk), headers: ["Authorization": "Bearer e\(number)"])
            #expect(other.responseString == "Bearer e1" && (other.cacheUse == .fresh) == (number == 2))
            try disk.flush()
            // The stored files do not contain the tokens.
            for file in try FileManager.default.subpathsOfDirectory(atPath: directory.file("cache").path) {
                guard let bytes = try? Data(contentsOf: directory.file("cache").appendingPathComponent(file)) else {
                    continue
                }
                #expect(bytes.range(of: Data("ada.lovelace".utf8)) == nil, "\(file)")
            }
        }
    }

    @Test func `a store with a file is shared with the next process, and a store in memory never is`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-stores")
        defer { directory.remove() }
        let folder = directory.file("folder")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let file = folder.appendingPathComponent("cookies.sqlite")
        try FileManager.default.createSymbolicLink(at: directory.file("link"), withDestinationURL: folder)
        let link = directory.file("link").appendingPathComponent("cookies.sqlite")
        for (number, place) in [file, file, link].enumerated() {
            let one = manager(nil)
            let store = try CookieStore(file: place)
            store.setCookies(["session=\(number); Max-Age=600"], from: server.url)
            try store.flush()
            one.cookieStore = store
            let operation = try await get(one)
            #expect(operation.responseString == "session=0" && (operation.cacheUse == .fresh) == (number > 0))
        }
        for number in 0..<2 {
            let one = manager(nil)
            one.cookieStore?.setCookies(["session=m\(number)"], from: server.url)
            #expect(try await get(one).responseString == "session=m\(number)")
        }
    }

    @Test func `a rejection of one token is not served to the next token`() async throws {
        server.route("GET", "/data") { request in
            let token = request.headers["Authorization"]
            if token == "Bearer t2" { return .text("data").header("Cache-Control", "max-age=600") }
            return .status(token == nil ? 401 : 403, headers: ["Cache-Control": "max-age=600"])
        }
        let ada = manager("ada")
        #expect(try await get(ada, "data").statusCode == 401)
        #expect(try await get(ada, "data", headers: ["Authorization": "Bearer t1"]).statusCode == 403)
        #expect(try await get(ada, "data", headers: ["Authorization": "Bearer t2"]).responseString == "data")
        #expect(try await get(ada, "data", headers: ["Authorization": "Bearer t1"]).cacheUse == .fresh)
    }

    @Test func `a response varying by token survives a new token, and one varying by cookie does not`() async throws {
        server.route("GET", "/vary") { request in
            .text("\(request.headers["Authorization"] ?? "") \(request.headers["Cookie"] ?? "")")
                .header("Cache-Control", "max-age=600").header("Vary", "Authorization, X-Api-Key, Cookie, Accept-Language")
        }
        let ada = manager("ada")
        func uses(_ headers: [String: String?]) async throws -> Bool {
            try await get(ada, "vary", headers: headers).cacheUse == .fresh
        }
        #expect(try await !uses(["Authorization": "Bearer t1", "X-Api-Key": "1", "Cookie": "lang=de"]))
        #expect(try await uses(["Authorization": "Bearer t2", "X-Api-Key": "2", "Cookie": "lang=de"]))
        #expect(try await !uses(["Authorization": "Bearer t2", "X-Api-Key": "2", "Cookie": "lang=en"]))
        let german = ["Authorization": "Bearer t2", "X-Api-Key": "2", "Cookie": "lang=de", "Accept-Language": "de"]
        #expect(try await !uses(german))
        #expect(try await !uses(["X-Api-Key": "2", "Cookie": "lang=de"]))
    }

    @Test func `without a name, a response that depends on a secret is kept for that secret only`() async throws {
        server.route("GET", "/vary") { request in
            .text(request.headers["Authorization"] ?? "").header("Cache-Control", "max-age=600")
                .header("Vary", "Authorization, Cookie")
        }
        let manager = manager(nil)
        for isSecond in [false, true] {
            for token in ["Bearer t1", "Bearer t2"] {
                let operation = try await get(manager, "vary", headers: ["Authorization": token])
                #expect(operation.responseString == token && (operation.cacheUse == .fresh) == isSecond)
            }
        }
    }

    @Test func `a stale response is revalidated in the background under its own name`() async throws {
        server.route("GET", "/stale") { request in
            let token = request.headers["Authorization"] ?? ""
            if request.headers["If-None-Match"] != nil {
                return .status(304, headers: ["ETag": "\"1\"", "Cache-Control": "max-age=600"])
            }
            return .text(token).header("ETag", "\"1\"").header("Cache-Control", "max-age=0, stale-while-revalidate=600")
        }
        let ada = manager("ada")
        _ = try await get(ada, "stale", headers: ["Authorization": "Bearer t1"])
        #expect(try await get(ada, "stale", headers: ["Authorization": "Bearer t2"]).cacheUse == .staleWhileRevalidate)
        try await server.waitForRequests(count: 2)
        #expect(server.requests("/stale").map { $0.headers["Authorization"] } == ["Bearer t1", "Bearer t2"])
        #expect(try await get(manager("eve"), "stale", headers: ["Authorization": "Bearer e"]).responseString == "Bearer e")
    }

    @Test func `one name has separate stored responses for each address override`() async throws {
        let staging = try TestServer()
        for (server, name) in [(server, "production"), (staging, "staging")] {
            server.route("GET", "/place", .text(name).header("Cache-Control", "max-age=600"))
        }
        for server in [server, staging, server] {
            let manager = manager("ada")
            manager.connectionConfiguration.addressOverrides = ["api.example:80": "127.0.0.1:\(server.url.port ?? 0)"]
            let operation = try await get(manager, "http://api.example/place")
            #expect(operation.responseString == (server === staging ? "staging" : "production"))
        }
    }

    @Test func `an empty name is ignored, and any other name is part of the configuration`() {
        let manager = manager("")
        #expect(manager.identity == nil && manager.connectionConfiguration == ConnectionConfiguration())
        manager.identity = "ada"
        #expect(manager.connectionConfiguration.identity == "ada" && manager.makeCopy().identity == "ada")
        let operation = manager.makeOperation(request: URLRequest(url: server.url))
        #expect(operation.identity == "ada")
        operation.identity = "eve"
        #expect(manager.identity == "ada" && operation.connectionConfiguration.identity == "eve")
        var (one, other) = (ConnectionConfiguration(), ConnectionConfiguration())
        (one.identity, other.identity) = ("\u{E9}", "e\u{301}")
        #expect(one != other)
    }

    // MARK: Unsafe requests

    @Test(.enabled(if: Libcurl.hasNTLM, "this libcurl has no NTLM"))
    func `an unsafe request of a connection's own user invalidates the stored response`() async throws {
        server.route("PUT", "/account", .status(204))
        let manager = manager(nil)
        #expect(try await get(manager).responseString == "nobody")
        var request = URLRequest(url: server.url("/account"))
        request.httpMethod = "PUT"
        var configuration = ConnectionConfiguration()
        configuration.cache = ResponseCacheReference(cache)
        configuration.authorizer = AuthorizerReference(ConnectionUser())
        let listener = Listener()
        RequestChain(request: request, configuration: configuration, delegate: listener).start()
        #expect(await Task.detached { listener.end.wait() }.value)
        #expect(try await get(manager).cacheUse == nil)
    }

    /// An authorizer that lets libcurl authenticate the connection.
    private final class ConnectionUser: RequestAuthorizer {
        func authorization(for target: AuthorizationTarget) -> RequestAuthorization? {
            .connection(.ntlm, user: "ada", password: "secret")
        }
    }

    private final class Listener: ConnectionDelegate {
        let end = Signal()
        func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {}
        func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {}
        func connectionDidFinish(_ connection: any Connection) { end.fire() }
        func connection(_ connection: any Connection, didFailWith error: URLError) { end.fire() }
        func connectionDidCancel(_ connection: any Connection) { end.fire() }
    }
}
