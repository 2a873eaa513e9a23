import Convoy
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Tests that dumps, printed values and mirrors contain no secrets.
@Suite struct DumpTests {
    private static let secret = "s3cret"

    /// Returns all strings that a value produces without access to its individual members.
    private func texts(of value: Any) -> [String] {
        var dumped = ""
        dump(value, to: &dumped)
        var seen: [String] = []
        func look(_ value: Any, depth: Int) {
            guard depth < 12 else { return }
            var mirror: Mirror? = Mirror(reflecting: value)
            while let current = mirror {
                for child in current.children {
                    seen.append("\(child.label ?? "") \(child.value)")
                    look(child.value, depth: depth + 1)
                }
                mirror = current.superclassMirror
            }
        }
        look(value, depth: 0)
        return [dumped, "\(value)", String(reflecting: value)] + seen
    }

    private func expectNoSecret(in value: Any, _ location: SourceLocation = #_sourceLocation) {
        for text in texts(of: value) where text.contains(Self.secret) {
            Issue.record("\(type(of: value)): \(text.prefix(300))", sourceLocation: location)
            break
        }
    }

    private func request(_ url: String = "http://127.0.0.1:9/x?access_token=s3cret") throws -> URLRequest {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = "POST"
        request.httpBody = Data("password=s3cret".utf8)
        request.allHTTPHeaderFields = [
            "Authorization": "Bearer s3cret", "Cookie": "a=s3cret", "X-Api-Key": "s3cret", "X-Tenant": "s3cret",
        ]
        return request
    }

    private func configuration() throws -> ConnectionConfiguration {
        var configuration = ConnectionConfiguration(sensitiveHeaders: ["X-Tenant"])
        configuration.proxy = .proxy(
            try Proxy(.http, host: "127.0.0.1", credential: ProxyCredential(user: "s3cret", password: "s3cret")))
        configuration.clientIdentity = ClientIdentity(certificatePEM: Data("s3cret".utf8)) { "s3cret" }
        configuration.identity = "s3cret"
        return configuration
    }

    private let credential = URLCredential(user: "ada", password: "s3cret", persistence: .forSession)

    private func cookies() throws -> CookieStore {
        let store = CookieStore()
        store.setCookies(["a=s3cret"], from: try #require(URL(string: "http://127.0.0.1:9/")))
        #expect(store.cookies.count == 1)
        return store
    }

    private func serializer() -> HTTPRequestSerializer {
        var serializer = HTTPRequestSerializer()
        serializer.setValue("Bearer s3cret", forHTTPHeaderField: "Authorization")
        serializer.setValue("s3cret", forHTTPHeaderField: "X-Api-Key")
        return serializer
    }

    private func fill(_ operation: URLConnectionOperation) throws {
        operation.connectionConfiguration = try configuration()
        operation.credential = credential
        operation.credentialStore.set(credential, forOriginOf: try #require(operation.request.url))
        operation.cookieStore = try cookies()
        operation.authenticator = Authenticator(token: AccessToken("s3cret")) { _ in AccessToken("s3cret") }
    }

    @Test func `settings and stores print no secrets`() throws {
        let configuration = try configuration()
        expectNoSecret(in: configuration)
        expectNoSecret(in: configuration.proxy)
        expectNoSecret(in: try #require(configuration.clientIdentity))
        expectNoSecret(in: ProxyCredential(user: "s3cret", password: "s3cret"))
        expectNoSecret(in: try cookies())
        expectNoSecret(in: try #require(try cookies().cookies.first))
        expectNoSecret(in: try Netrc(text: "machine h login s3cret password s3cret"))
        let store = CredentialStore()
        store.set(credential, forOriginOf: try #require(URL(string: "http://h/")))
        store.netrc = try Netrc(text: "machine h login s3cret password s3cret")
        expectNoSecret(in: store)
        expectNoSecret(in: serializer())
        expectNoSecret(in: JSONRequestSerializer(http: serializer()))
        expectNoSecret(in: PropertyListRequestSerializer(http: serializer()))
        var session = SessionConfiguration.default
        session.httpAdditionalHeaders = ["Authorization": "Bearer s3cret"]
        session.connection = configuration
        (session.cookieStore, session.credentialStore) = (try cookies(), store)
        expectNoSecret(in: session)
    }

    @Test func `credentials and tokens print no secrets`() {
        let token = AccessToken("s3cret", refreshToken: "s3cret")
        expectNoSecret(in: token)
        expectNoSecret(in: Authenticator(token: token) { _ in token })
        expectNoSecret(in: AuthenticationDisposition.useCredential(credential))
        expectNoSecret(in: AuthenticationDisposition.useToken("s3cret"))
        expectNoSecret(in: Optional(AuthenticationDisposition.useToken("s3cret")) as Any)
    }

    @Test func `operations and values derived from them print no secrets`() throws {
        let operation = HTTPRequestOperation(request: try request())
        try fill(operation)
        expectNoSecret(in: operation)
        expectNoSecret(in: [operation])
        expectNoSecret(in: TypedOperation(operation, as: Data.self))
        expectNoSecret(in: BatchOperation(of: [operation]))
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        queue.addOperation(operation)
        expectNoSecret(in: queue)
        let download = DownloadOperation(request: try request(), destination: URL(fileURLWithPath: "/tmp/x"))
        try fill(download)
        expectNoSecret(in: download)
        let source = EventSource(request: try request())
        try fill(source)
        expectNoSecret(in: source)
        expectNoSecret(in: DownloadRequest(try request(), destination: URL(fileURLWithPath: "/tmp/x")))
        expectNoSecret(in: OutboxRequest(try request()))
        let connection = RequestChain(request: try request(), configuration: try configuration(), delegate: Deaf())
        expectNoSecret(in: connection)
    }

    private final class Deaf: ConnectionDelegate {
        func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {}
        func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {}
        func connectionDidFinish(_ connection: any Connection) {}
        func connection(_ connection: any Connection, didFailWith error: URLError) {}
        func connectionDidCancel(_ connection: any Connection) {}
    }

    private final class API: HTTPRequestOperationManager, @unchecked Sendable { let key = "own" }

    @Test func `managers and tasks print no secrets`() throws {
        let url = try #require(URL(string: "http://127.0.0.1:9/"))
        for manager in [HTTPRequestOperationManager(baseURL: url), API(baseURL: url)] {
            manager.requestSerializer = serializer()
            manager.connectionConfiguration = try configuration()
            manager.credential = credential
            manager.credentialStore.set(credential, forOriginOf: url)
            manager.cookieStore = try cookies()
            manager.authenticator = Authenticator(token: AccessToken("s3cret")) { _ in AccessToken("s3cret") }
            expectNoSecret(in: manager)
        }
        let session = HTTPSessionManager(baseURL: url)
        session.requestSerializer = serializer()
        session.connectionConfiguration = try configuration()
        session.cookieStore = try cookies()
        expectNoSecret(in: session)
        expectNoSecret(in: session.dataTask(with: try request()))
    }

    @Test func `the results of requests print no secrets`() async throws {
        let server = try TestServer()
        server.route(
            nil, "/x",
            .text("body").header("Set-Cookie", "a=s3cret").header("X-Tenant", "s3cret").header("Cache-Control", "max-age=60")
                .header("Vary", "Authorization, X-Api-Key, Cookie"))
        server.route(nil, "/moved", .redirect(to: "/x?access_token=s3cret"))
        let events = EventLog()
        let trace = ConnectionTrace(showsSecrets: true, on: DispatchQueue(label: "trace")) { _ in }
        let manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: DispatchQueue(label: "dump"))
        manager.responseSerializer = HTTPResponseSerializer()
        let cache = HTTPCache()
        (manager.cache, manager.eventMonitors, manager.collectsMetrics) = (cache, [events.monitor], true)
        manager.connectionConfiguration.sensitiveHeaders = ["X-Tenant"]
        manager.connectionConfiguration.trace = trace
        for _ in 0..<2 {
            var request = try request(server.url("/moved?access_token=s3cret").absoluteString)
            (request.httpMethod, request.httpBody) = ("GET", nil)
            let operation = manager.enqueue(manager.makeOperation(request: request))
            operation.cacheResponseHandler = { _, candidate in
                events.note(candidate)
                return candidate
            }
            try await operation.finished()
            #expect(operation.response?.value(forHTTPHeaderField: "Set-Cookie")?.isEmpty == false)
            expectNoSecret(in: operation)
            expectNoSecret(in: try #require(operation.metrics))
            for event in operation.redirects { expectNoSecret(in: event) }
            expectNoSecret(in: manager)
        }
        #expect(cache.stores > 0)
        expectNoSecret(in: cache)
        expectNoSecret(in: trace)
        expectNoSecret(in: NetworkThread.shared)
        let noted = await events.all()
        #expect(noted.count > 10)
        for value in noted { expectNoSecret(in: value) }
        expectNoSecret(in: events.monitor)
    }

    /// Records the arguments of monitors and handlers.
    private final class EventLog: Sendable {
        let monitor: EventMonitor
        private let values: Values

        private final class Values: @unchecked Sendable {
            let queue = DispatchQueue(label: "events")
            var all: [Any] = []
        }

        init() {
            let values = Values()
            self.values = values
            monitor = EventMonitor(on: values.queue) { events in values.all += events.flatMap { [$0, $0.kind] as [Any] } }
        }

        func note(_ value: any Sendable) { values.queue.async { [values] in values.all.append(value) } }

        func all() async -> [Any] {
            // Events arrive shortly after what they report.
            try? await waitUntil(timeout: 5) {
                values.queue.sync { values.all.contains { "\($0)".contains("finished") } }
            }
            return values.queue.sync { values.all }
        }
    }
}
