import ConvoyOperations
import ConvoySession
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Features shared by both managers: a base URL, and copies.
@Suite struct BaseURLTests {
    private struct Name: Codable, Equatable, Sendable { var firstName: String }

    @Test(
        arguments: ManagerKind.allCases,
        [
            ("http://example.com/v1/", "foo", "http://example.com/v1/foo"),
            ("http://example.com/v1", "foo", "http://example.com/v1/foo"),
            ("http://example.com/v1/", "foo?bar=baz", "http://example.com/v1/foo?bar=baz"),
            ("http://example.com/v1/", "/foo", "http://example.com/foo"),
            ("http://example.com/v1/", "foo/", "http://example.com/v1/foo/"),
            ("http://example.com/v1/", "/foo/", "http://example.com/foo/"),
            ("http://example.com/v1/", "http://example2.com/", "http://example2.com/"),
            ("http://example.com/v1/", "", "http://example.com/v1/"),
            ("http://example.com", "foo", "http://example.com/foo"),
            ("http://example.com/v1/", "../foo", "http://example.com/foo"),
        ])
    func `a relative URL is resolved under the base URL`(
        kind: ManagerKind, example: (base: String, text: String, url: String)
    ) throws {
        let api = kind.make(URL(string: example.base))
        #expect(try api.operationManager.url(for: example.text).absoluteString == example.url)
        #expect(try api.makeOperation(.get, example.text).request.url?.absoluteString == example.url)
    }

    @Test(arguments: ManagerKind.allCases)
    func `a serializer's token is sent only to the base URL's origin and to listed origins`(kind: ManagerKind) async throws {
        let (home, other) = (try TestServer(), try TestServer())
        for server in [home, other] { server.echo(at: "/echo") }
        let api = kind.make(home.url("/"))
        api.requestSerializer.setAuthorizationHeader(bearerToken: "secret")
        func authorization(_ text: String, at server: TestServer) async throws -> String? {
            try await api.response(.get, text)
            return server.requests.last?.headers["Authorization"]
        }
        #expect(try await authorization("echo", at: home) == "Bearer secret")
        #expect(try await authorization("HTTP://127.1:\(home.port)/echo", at: home) == "Bearer secret")
        #expect(try await authorization("//127.0.0.1:\(other.port)/echo", at: other) == nil)
        #expect(try await authorization("http://127.0.0.1:\(other.port)/echo", at: other) == nil)
        if let session = api as? HTTPSessionManager {
            session.authorizationOrigins = [other.url("/")]
            #expect(session.makeCopy().authorizationOrigins == [other.url("/")])
        } else {
            api.operationManager.authorizationOrigins = [other.url("/")]
        }
        #expect(try await authorization("//127.0.0.1:\(other.port)/echo", at: other) == "Bearer secret")
    }

    @Test(arguments: ManagerKind.allCases)
    func `an absolute URL needs no base URL`(kind: ManagerKind) async throws {
        let server = try TestServer()
        server.echo(at: "/echo")
        let api = kind.make()
        try await api.get("\(server.url)/echo")
        try await api.get(server.url("/echo"))
        #expect(api.baseURL == nil && server.requests.count == 2)
    }

    private func copy(of api: any HTTPManager) throws -> any HTTPManager {
        if let session = api as? HTTPSessionManager { return session.makeCopy() }
        return try #require(api as? HTTPRequestOperationManager).makeCopy()
    }

    @Test(arguments: ManagerKind.allCases)
    func `a copy sends and parses like the original manager`(kind: ManagerKind) async throws {
        let server = try TestServer()
        server.route("/v1/name", .json(text: #"{"first_name":"Ada"}"#))
        let api = kind.make(server.url("/v1"))
        api.requestSerializer.setValue("one", forHTTPHeaderField: "X-One")
        api.decoder.keyDecodingStrategy = .convertFromSnakeCase
        api.completionGroup = DispatchGroup()
        let manager = api.operationManager
        manager.retryPolicy = RetryPolicy(maximumRetryCount: 7)
        manager.idleTimeout = 5
        manager.totalTimeout = 50
        manager.connectionConfiguration.sensitiveHeaders = ["X-One"]

        let copy = try copy(of: api)
        #expect(try await copy.get("name", as: Name.self) == Name(firstName: "Ada"))
        #expect(server.requests.last?.headers["X-One"] == "one")
        #expect(copy.baseURL == api.baseURL && copy.completionQueue === api.completionQueue)
        #expect(copy.completionGroup === api.completionGroup)
        let other = copy.operationManager
        #expect(other !== manager && other.retryPolicy?.maximumRetryCount == 7)
        #expect(other.idleTimeout == 5 && other.totalTimeout == 50)
        #expect(other.connectionConfiguration == manager.connectionConfiguration)
    }

    @Test func `a session posts no operation notifications with any settings`() async throws {
        let server = try TestServer()
        server.route("/name", .json(text: "{}"))
        let session = HTTPSessionManager(baseURL: server.url)
        session.settings = RequestSettings()
        session.postsNotifications = true
        let port = Int(server.port)
        let posted = Locked<[URLConnectionOperation]>([])
        let observer = NotificationCenter.default.addObserver(
            forName: .networkingOperationDidFinish, object: nil, queue: nil
        ) { note in
            guard let operation = note.object as? URLConnectionOperation, operation.request.url?.port == port else { return }
            posted.withLock { $0.append(operation) }
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        _ = try await session.get("name")
        // The operation manager posts these, after all notifications of the session.
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.postsNotifications = true
        let operation = try await manager.get("name")
        try await waitUntil("the end of the manager's operation") { posted.withLock { $0.last } === operation }
        #expect(posted.withLock { $0.count } == 1)
    }

    @Test(arguments: ManagerKind.allCases)
    func `changes to a copy do not affect the original manager, and vice versa`(
        kind: ManagerKind
    ) throws {
        let api = kind.make()
        let copy = try copy(of: api)
        copy.requestSerializer.setValue("one", forHTTPHeaderField: "X-One")
        copy.decoder.keyDecodingStrategy = .convertFromSnakeCase
        copy.encoder.outputFormatting = .sortedKeys
        api.responseSerializer.acceptableContentTypes = nil
        api.operationManager.idleTimeout = 5
        #expect(api.requestSerializer.value(forHTTPHeaderField: "X-One") == nil)
        if case .convertFromSnakeCase = api.decoder.keyDecodingStrategy { Issue.record("the decoder is shared") }
        #expect(api.encoder.outputFormatting == [])
        #expect(copy.responseSerializer.acceptableContentTypes != nil && copy.operationManager.idleTimeout == nil)
    }

    @Test(arguments: ManagerKind.allCases)
    func `a copy outlives the original manager`(kind: ManagerKind) async throws {
        let server = try TestServer()
        server.echo(at: "/echo")
        var first: (any HTTPManager)? = kind.make(server.url)
        let copy = try copy(of: #require(first))
        try await first?.get("echo")
        first = nil
        try await copy.get("echo")
        #expect(server.requests.count == 2)
    }
}
