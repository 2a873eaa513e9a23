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

/// Tests that responses to one user's credentials are not served to another user.
@Suite struct CachePartitionTests {
    let server: TestServer
    let cache = HTTPCache()

    init() throws {
        server = try TestServer()
        server.route("GET", "/private") { request in
            guard let authorization = request.headers["Authorization"] else {
                return .text("who?").status(401).header("WWW-Authenticate", "Basic realm=\"r\"")
                    .header("Cache-Control", "max-age=600")
            }
            return .text(authorization).header("Cache-Control", "max-age=600")
        }
    }

    private func manager() -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache
        return manager
    }

    private func get(_ manager: HTTPRequestOperationManager, token: String? = nil) async throws -> HTTPRequestOperation {
        var request = URLRequest(url: server.url("/private"))
        request.setValue(token, forHTTPHeaderField: "Authorization")
        let operation = manager.enqueue(manager.makeOperation(request: request))
        try? await operation.finished()
        return operation
    }

    @Test func `a response is served only to requests with the same Authorization field`() async throws {
        let manager = manager()
        #expect(try await get(manager, token: "Bearer a").responseString == "Bearer a")
        #expect(try await get(manager, token: "Bearer b").responseString == "Bearer b")
        let again = try await get(manager, token: "Bearer a")
        #expect(again.responseString == "Bearer a" && again.cacheUse == .fresh)
        #expect(try await get(manager).statusCode == 401)
    }

    @Test func `a path as written has responses of its own`() async throws {
        server.route(nil, "/*") { .text($0.target).header("Cache-Control", "max-age=600") }
        let url = try #require(URL(string: "\(server.url)/a/../b"))
        let (resolving, keeping) = (manager(), manager())
        keeping.connectionConfiguration.keepsDotSegments = true
        for expected in [nil, CacheUse.fresh] {
            for (manager, target) in [(resolving, "/b"), (keeping, "/a/../b")] {
                let operation = manager.enqueue(manager.makeOperation(request: URLRequest(url: url)))
                try await operation.finished()
                #expect(operation.responseString == target && operation.cacheUse == expected)
            }
        }
        #expect(server.requests.map(\.target) == ["/b", "/a/../b"])
    }

    @Test func `a user's response is served only to that user`() async throws {
        let managers = ["ada", "eve"].map { user in
            let manager = manager()
            manager.credential = URLCredential(user: user, password: "pw", persistence: .none)
            return manager
        }
        var bodies: [String?] = []
        for manager in managers + managers {
            bodies.append(try await get(manager).responseString)
        }
        #expect(Set(bodies).count == 2 && bodies[0] == bodies[2] && bodies[1] == bodies[3])
        #expect(bodies[0] != bodies[1])
    }

    @Test func `a response from an unverified server is not served to clients that verify`() async throws {
        let certificate = try TestCertificate.selfSigned()
        let secure = try TestServer(tls: TestServer.TLS(certificate))
        secure.route("GET", "/x", .text("anybody").header("Cache-Control", "max-age=600"))
        let careless = HTTPRequestOperationManager(baseURL: secure.url, completionQueue: testQueue)
        careless.responseSerializer = HTTPResponseSerializer()
        careless.cache = cache
        var policy = SecurityPolicy()
        policy.allowInvalidCertificates = true
        policy.validatesDomainName = false
        careless.securityPolicy = policy
        try await careless.enqueue(careless.makeOperation(.get, "x")).finished()
        let careful = HTTPRequestOperationManager(baseURL: secure.url, completionQueue: testQueue)
        careful.cache = cache
        let error = await #expect(throws: URLError.self) {
            try await careful.enqueue(careful.makeOperation(.get, "x")).finished()
        }
        #expect(error?.code == .serverCertificateUntrusted || error?.code == .serverCertificateHasUnknownRoot)
    }

    @Test func `a response from an overridden address is not served for the real host`() async throws {
        let staging = try TestServer()
        for (server, name) in [(server, "production"), (staging, "staging")] {
            server.route("GET", "/place", .text(name).header("Cache-Control", "max-age=600"))
        }
        var answers: [String?] = []
        for server in [server, staging, server] {
            let manager = HTTPRequestOperationManager(completionQueue: testQueue)
            manager.responseSerializer = HTTPResponseSerializer()
            manager.cache = cache
            manager.connectionConfiguration.addressOverrides = ["api.example:80": "127.0.0.1:\(server.url.port ?? 0)"]
            let operation = manager.enqueue(try manager.makeOperation(.get, "http://api.example/place"))
            try await operation.finished()
            answers.append(operation.responseString)
        }
        #expect(answers == ["production", "staging", "production"])
    }
}
