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

/// URLs that are passed to a manager as URLs, as strings, and relative to a base URL. All of their spellings are
/// treated the same.
@Suite struct SpellingEntryTests {
    private let server: TestServer

    init() throws {
        server = try TestServer()
        server.route(nil, "/x", .text("hello"))
    }

    private func manager(baseURL: URL? = nil) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: baseURL)
        manager.completionQueue = testQueue
        manager.connectionConfiguration.proxy = .none
        manager.responseSerializer = HTTPResponseSerializer()
        return manager
    }

    private func pin(_ manager: HTTPRequestOperationManager) throws {
        var policy = SecurityPolicy()
        policy.pinningMode = .publicKey
        policy.publicKeyPins = [try PublicKeyPin("sha256/\(Data(repeating: 7, count: 32).base64EncodedString())")]
        manager.connectionConfiguration.securityPolicy = policy
    }

    private var texts: [String] { Spelling.urls(Spelling.http, Spelling.loopback, port: Int(server.port), "/x") }

    private func code(_ body: () async throws -> HTTPRequestOperation) async -> URLError.Code? {
        do {
            _ = try await body()
            return nil
        } catch { return (error as? URLError)?.code }
    }

    @Test func `a pinned server receives no plain text, for any spelling of its URL`() async throws {
        let refused = URLError.Code.appTransportSecurityRequiresSecureConnection
        for text in texts {
            let url = try #require(URLReference.url(text))
            let manager = manager()
            try pin(manager)
            #expect(await code { try await manager.response(.get, text) } == refused, "\(text)")
            #expect(await code { try await manager.response(.post, url, parameters: ["q": 1]) } == refused, "\(text)")
            let operation = manager.makeOperation(request: URLRequest(url: url))
            _ = try? await manager.enqueue(operation).finished()
            #expect((operation.error as? URLError)?.code == refused, "\(text)")
            let based = self.manager(baseURL: url)
            try pin(based)
            for reference in ["x", "/x", "?q", "//127.0.0.1:\(server.port)/x"] {
                #expect(await code { try await based.response(.get, reference) } == refused, "\(text) \(reference)")
            }
        }
        #expect(server.statistics.totalConnectionCount == 0)
    }

    @Test func `cookies set under one spelling are sent for all others`() async throws {
        let manager = manager()
        server.route(nil, "/x", .text("hello").header("Set-Cookie", "a=1"))
        _ = try await manager.response(.get, texts[0])
        server.route(nil, "/x", .text("hello"))
        for text in texts {
            _ = try await manager.response(.get, text)
            #expect(server.requests.last?.headers["Cookie"] == "a=1", "\(text)")
        }
    }

    @Test func `a response stored under one spelling is served for all others`() async throws {
        let manager = manager()
        manager.cache = HTTPCache(memoryCapacity: 1 << 20)
        server.route(nil, "/x", .text("hello").header("Cache-Control", "max-age=1000"))
        for text in texts { _ = try await manager.response(.get, text) }
        #expect(server.requests.count == 1)
        manager.cache?.remove(for: try #require(URL(string: "hTTp://0x7f.1:0\(server.port)/x#f")))
        _ = try await manager.response(.get, texts[1])
        #expect(server.requests.count == 2)
    }
}
