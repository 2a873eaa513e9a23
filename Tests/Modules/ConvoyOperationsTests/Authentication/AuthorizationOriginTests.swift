import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The origins that receive a request serializer's token.
@Suite struct AuthorizationOriginTests {
    private let home: TestServer
    private let other: TestServer

    init() throws {
        (home, other) = (try TestServer(), try TestServer())
        for server in [home, other] { server.route(nil, "/*", .text("hello")) }
    }

    private func manager(baseURL: URL?) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: baseURL)
        manager.completionQueue = testQueue
        manager.connectionConfiguration.proxy = .none
        manager.responseSerializer = HTTPResponseSerializer()
        manager.requestSerializer.setAuthorizationHeader(bearerToken: "secret")
        manager.requestSerializer.setValue("key", forHTTPHeaderField: "X-Api-Key")
        manager.requestSerializer.setValue("harmless", forHTTPHeaderField: "X-Client")
        return manager
    }

    /// Returns the serializer's fields in the last request.
    private func sent(to server: TestServer) throws -> [String?] {
        let request = try #require(server.requests.last)
        return ["Authorization", "X-Api-Key", "X-Client"].map { request.headers[$0] }
    }

    private static let all = ["Bearer secret", "key", "harmless"]
    private static let harmless = [nil, nil, "harmless"]

    @Test func `with a base URL, the token is not sent to another origin in any spelling`() async throws {
        let manager = manager(baseURL: home.url("/v1/"))
        for text in [
            "//127.0.0.1:\(other.port)/x", "http://127.0.0.1:\(other.port)/x", "HTTP://127.0.0.1:\(other.port)/x",
            "//0x7f.1:\(other.port)/x", "http://localhost:\(other.port)/x",
        ] {
            for method in [HTTPMethod.get, .post, .delete] {
                _ = try await manager.response(method, text, parameters: ["q": 1])
                #expect(try sent(to: other) == Self.harmless, "\(method) \(text)")
            }
            _ = try await manager.response(.get, text)
            #expect(try sent(to: other) == Self.harmless, "\(text)")
        }
        // Another name is another origin, although it resolves to the same server.
        _ = try await manager.response(.get, "http://localhost:\(home.port)/x")
        #expect(try sent(to: home) == Self.harmless)
        _ = try await manager.response(.get, "//127.0.0.1.evil.localhost:\(home.port)/x")
        #expect(try sent(to: home) == Self.harmless)
    }

    @Test func `a different scheme is a different origin`() async throws {
        let certificate = try TestCertificate.selfSigned(.server(["127.0.0.1"]))
        let secure = try TestServer(tls: TestServer.TLS(certificate))
        secure.route(nil, "/*", .text("hello"))
        let manager = manager(baseURL: URL(string: "http://127.0.0.1:\(secure.port)/"))
        manager.connectionConfiguration.securityPolicy.allowInvalidCertificates = true
        manager.connectionConfiguration.securityPolicy.validatesDomainName = false
        _ = try await manager.response(.get, "https://127.0.0.1:\(secure.port)/x")
        #expect(try sent(to: secure) == Self.harmless)
    }

    @Test func `every spelling of the base URL's origin receives the token`() async throws {
        let manager = manager(baseURL: home.url("/v1/"))
        for text in [
            "x", "/x", "?q", "x y", "//127.0.0.1:\(home.port)/x", "HTTP://127.0.0.1:\(home.port)/x",
            "hTTp://127.1:0\(home.port)/x", "http://%31%32%37.0.0.1:\(home.port)/x", "http://2130706433:\(home.port)/x",
        ] {
            _ = try await manager.response(.get, text)
            #expect(try sent(to: home) == Self.all, "\(text)")
            _ = try await manager.response(.post, text, parameters: ["q": 1])
            #expect(try sent(to: home) == Self.all, "\(text)")
        }
        let shouting = self.manager(baseURL: URL(string: "HTTP://127.0.0.1:\(home.port)/v1"))
        for text in ["x", "http://127.0.0.1:\(home.port)/x"] {
            _ = try await shouting.response(.get, text)
            #expect(try sent(to: home) == Self.all, "\(text)")
        }
    }

    @Test func `authorizationOrigins adds origins, and copies of the manager keep them`() async throws {
        let manager = manager(baseURL: home.url("/v1/"))
        manager.authorizationOrigins = [try #require(URL(string: "HTTP://127.0.0.1:\(other.port)/any/path?q"))]
        for manager in [manager, manager.makeCopy()] {
            _ = try await manager.response(.get, "//127.0.0.1:\(other.port)/x")
            #expect(try sent(to: other) == Self.all)
            _ = try await manager.response(.get, "x")
            #expect(try sent(to: home) == Self.all)
            _ = try await manager.response(.get, "//localhost:\(other.port)/x")
            #expect(try sent(to: other) == Self.harmless)
        }
        manager.authorizationOrigins = []
        _ = try await manager.response(.get, "//127.0.0.1:\(other.port)/x")
        #expect(try sent(to: other) == Self.harmless)
        manager.authorizationOrigins = [URL(fileURLWithPath: "/x")]
        _ = try await manager.response(.get, "//127.0.0.1:\(other.port)/x")
        #expect(try sent(to: other) == Self.harmless)
    }

    @Test func `an authenticator's token is sent to the same origins`() async throws {
        let manager = HTTPRequestOperationManager(baseURL: home.url("/"))
        manager.responseSerializer = HTTPResponseSerializer()
        manager.authenticator = Authenticator(token: AccessToken("granted")) { _ in AccessToken("granted") }
        let text = "//127.0.0.1:\(other.port)/x"
        _ = try await manager.response(.get, text)
        #expect(other.requests.last?.headers["Authorization"] == nil)
        manager.authorizationOrigins = [other.url("/")]
        _ = try await manager.response(.get, text)
        #expect(other.requests.last?.headers["Authorization"] == "Bearer granted")
    }

    @Test func `a request that is prepared for another origin is sent without the secrets, except those set for it`()
        async throws
    {
        let manager = manager(baseURL: home.url("/v1/"))
        let url = other.url("/x")
        for own in [nil, "Bearer own"] {
            let operation = try manager.makeOperation(.get, "x")
            operation.prepare = { request in
                request.url = url
                if let own { request.setValue(own, forHTTPHeaderField: "Authorization") }
            }
            try await manager.enqueue(operation).finished()
            #expect(try sent(to: other) == [own, nil, "harmless"])
        }
        manager.authorizationOrigins = [url]
        let operation = try manager.makeOperation(.get, "x")
        operation.prepare = { $0.url = url }
        try await manager.enqueue(operation).finished()
        #expect(try sent(to: other) == Self.all)
    }

    @Test func `header fields passed to a call are sent to any origin`() async throws {
        let manager = manager(baseURL: home.url("/v1/"))
        _ = try await manager.response(.get, "//127.0.0.1:\(other.port)/x", headers: ["authorization": "Bearer own"])
        #expect(try sent(to: other) == ["Bearer own", nil, "harmless"])
    }

    @Test func `without a base URL, the token is sent wherever the caller requests`() async throws {
        let manager = manager(baseURL: nil)
        for server in [home, other] {
            _ = try await manager.response(.get, server.url("/x").absoluteString)
            #expect(try sent(to: server) == Self.all)
        }
    }
}
