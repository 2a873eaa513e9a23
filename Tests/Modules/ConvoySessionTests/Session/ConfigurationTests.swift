import ConvoyCookies
import ConvoyOperations
import ConvoySecurity
import ConvoySession
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// The effects of a configuration on a session.
@Suite struct ConfigurationTests {
    @Test func `the header fields and cache policy apply to requests without their own`() async throws {
        let fixture = try SessionFixture {
            $0.httpAdditionalHeaders = ["X-All": "1", "accept-language": "de"]
            $0.requestCachePolicy = .reloadIgnoringLocalCacheData
        }
        fixture.server.echo(at: "/echo")
        var request = fixture.request("/echo")
        request.setValue("own", forHTTPHeaderField: "x-all")
        let task = fixture.manager.dataTask(with: request)
        #expect(task.originalRequest.cachePolicy == .reloadIgnoringLocalCacheData)
        task.resume()
        try await task.finished()
        try await fixture.manager.get("echo", headers: ["Accept-Language": "fr"])
        let file = fixture.file("x")
        let download = fixture.manager.downloadTask(
            with: fixture.request("/echo"), destination: { _, _ in file }, completionHandler: nil)
        download.resume()
        try await download.finished()
        let requests = fixture.server.requests
        #expect(requests.map { $0.headers["X-All"] } == ["own", "1", "1"])
        #expect(requests.map { $0.headers["Accept-Language"] } == ["de", "fr", "de"])
    }

    @Test func `secret header fields are sent only to the base URL's origin`() async throws {
        let fixture = try SessionFixture { $0.httpAdditionalHeaders = ["X-All": "1", "Authorization": "Bearer hidden"] }
        let (other, third) = (try TestServer(), try TestServer())
        defer { for server in [other, third] { server.stop() } }
        fixture.manager.authorizationOrigins = [third.url]
        for server in [fixture.server, other, third] {
            server.echo(at: "/echo")
            try await fixture.manager.get(server.url("/echo").absoluteString)
            let task = fixture.manager.dataTask(with: URLRequest(url: server.url("/echo")))
            task.resume()
            try await task.finished()
            #expect(server.requests.map { $0.headers["X-All"] } == ["1", "1"])
            let secret: String? = server === other ? nil : "Bearer hidden"
            #expect(server.requests.map { $0.headers["Authorization"] } == [secret, secret])
        }
    }

    @Test func `an invalid header field is rejected rather than dropped`() async throws {
        let fixture = try SessionFixture { $0.httpAdditionalHeaders = ["X-Bad": "a\r\nb"] }
        fixture.server.echo(at: "/echo")
        let task = fixture.manager.dataTask(with: fixture.request("/echo"))
        task.resume()
        #expect(await task.end() is URLError && fixture.server.requests.isEmpty)
    }

    @Test func `requests and tasks respect their timeouts`() async throws {
        let fixture = try SessionFixture {
            $0.timeoutIntervalForRequest = 0.2
            $0.timeoutIntervalForResource = 1.5
        }
        fixture.server.route("/stalls", .pattern(count: 1000).stalls(afterBytes: 10))
        fixture.server.route("/slow", .drip(Data(count: 1000), chunk: 1, interval: 0.05))
        for path in ["/stalls", "/slow"] {
            let task = fixture.manager.dataTask(with: fixture.request(path))
            task.resume()
            #expect((await task.end() as? URLError)?.code == .timedOut, "\(path)")
        }
    }

    @Test func `default sessions share cookies, and ephemeral ones do not`() async throws {
        let server = try TestServer()
        defer { server.stop() }
        server.route("/set", .text("x").header("Set-Cookie", "c=1; Path=/"))
        server.route("/get") { .text($0.headers["Cookie"] ?? "none") }
        func cookies(_ configuration: SessionConfiguration) async throws -> [String] {
            var seen: [String] = []
            for _ in 0..<2 {
                let manager = HTTPSessionManager(
                    baseURL: server.url("/"), configuration: configuration, completionQueue: .global())
                seen.append(try await manager.get("get", as: String.self))
                _ = try await manager.get("set", as: String.self)
                seen.append(try await manager.get("get", as: String.self))
            }
            return seen
        }
        #expect(try await cookies(.ephemeral) == ["none", "c=1", "none", "c=1"])
        var configuration = SessionConfiguration.default
        configuration.cookieStore = CookieStore()
        #expect(try await cookies(configuration) == ["none", "c=1", "c=1", "c=1"])
        configuration.cookieStore = nil
        #expect(try await cookies(configuration) == ["none", "none", "none", "none"])
        #expect(SessionConfiguration.default.cookieStore === CookieStore.shared)
        #expect(SessionConfiguration.default.credentialStore == nil)
        let stores = (0..<2).map { _ in URLSessionManager().credentialStore }
        #expect(stores[0] !== stores[1] && !stores.contains { $0 === CredentialStore.shared })
        configuration.credentialStore = .shared
        #expect(URLSessionManager(configuration: configuration).credentialStore === CredentialStore.shared)
        #expect(SessionConfiguration.ephemeral.cookieStore == nil && SessionConfiguration.ephemeral.credentialStore == nil)
    }

    @Test func `connections per host are limited`() async throws {
        let fixture = try SessionFixture { $0.httpMaximumConnectionsPerHost = 2 }
        let gate = TestServer.Gate()
        fixture.server.route("/held", TestServer.Response.text("x").held(by: gate))
        let tasks = (0..<6).map { _ in fixture.manager.dataTask(with: fixture.request("/held")) }
        for task in tasks { task.resume() }
        try await waitUntil("two have arrived") { fixture.server.requests.count == 2 }
        gate.open()
        for task in tasks { try await task.finished() }
        #expect(Set(fixture.server.requests.map(\.connection)).count <= 2)
    }

    @Test func `a copy has the same settings and no tasks`() async throws {
        let fixture = try SessionFixture()
        fixture.manager.requestSerializer.setValue("v", forHTTPHeaderField: "X-One")
        fixture.manager.taskDidCompleteHandler = { _, _ in Issue.record("The handlers are not copied.") }
        fixture.server.echo(at: "/echo")
        let copy = fixture.manager.makeCopy()
        #expect(copy.baseURL == fixture.manager.baseURL && copy !== fixture.manager && copy.tasks.isEmpty)
        try await copy.get("echo")
        #expect(fixture.server.requests.last?.headers["X-One"] == "v")
        #expect(copy.description.hasSuffix("baseURL: \(fixture.server.url("/")), 0 tasks>"), "\(copy)")
    }

    @Test func `values are encoded, and invalid ones are rejected when decoded`() throws {
        var configuration = SessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = 3
        configuration.timeoutIntervalForResource = nil
        configuration.httpAdditionalHeaders = ["X-A": "1"]
        configuration.requestCachePolicy = .returnCacheDataElseLoad
        (configuration.httpMaximumConnectionsPerHost, configuration.maximumConnections) = (2, 3)
        (configuration.waitsForConnectivity, configuration.allowsCellularAccess) = (true, false)
        configuration.minimumTLSVersion = .tls13
        configuration.usesHTTP2 = false
        configuration.networkServiceType = .background
        configuration.identity = "ada"
        let data = try JSONEncoder().encode(configuration)
        let decoded = try JSONDecoder().decode(SessionConfiguration.self, from: data)
        #expect(try JSONEncoder().encode(decoded).count == data.count)
        #expect(decoded.timeoutIntervalForRequest == 3 && decoded.timeoutIntervalForResource == nil)
        #expect(decoded.httpAdditionalHeaders == ["X-A": "1"] && decoded.requestCachePolicy == .returnCacheDataElseLoad)
        #expect(decoded.httpMaximumConnectionsPerHost == 2 && decoded.maximumConnections == 3)
        #expect(decoded.waitsForConnectivity && !decoded.allowsCellularAccess && !decoded.usesHTTP2)
        #expect(decoded.minimumTLSVersion == .tls13 && decoded.networkServiceType == .background)
        #expect(decoded.cookieStore == nil && decoded.credentialStore == nil && decoded.identity == "ada")
        let standard = try JSONDecoder().decode(SessionConfiguration.self, from: Data("{}".utf8))
        #expect(standard.timeoutIntervalForResource == 604_800 && standard.cookieStore === CookieStore.shared)
        #expect(standard.credentialStore == nil && standard.identity == nil)
        for bad in [
            #""maximumConnections":-5"#, #""httpMaximumConnectionsPerHost":0"#, #""requestCachePolicy":77"#,
            #""timeoutIntervalForRequest":-1"#, #""temporaryDirectory":"http://h/""#, #""networkServiceType":"x""#,
            #""cookies":"x""#,
        ] {
            #expect(throws: DecodingError.self, "\(bad)") {
                try JSONDecoder().decode(SessionConfiguration.self, from: Data("{\(bad)}".utf8))
            }
        }
    }
}
