import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Tunnels through proxies that require authentication.
@Suite struct TunnelAuthenticationTests {
    private static let refusal = """
        HTTP/1.1 407 Proxy Authentication Required\r
        Proxy-Authenticate: Basic realm="p"\r
        Content-Length: 0\r
        Connection: close\r
        \r

        """

    let server: TestServer
    private let authorities: CertificateAuthorities

    init() throws {
        let certificate = try TestCertificate.selfSigned()
        server = try TestServer(tls: TestServer.TLS(certificate))
        authorities = .certificates([try Certificate(derData: certificate.derData)])
    }

    private func operation(
        _ path: String, over proxy: ConnectProxy, user: String = "", body: InputStream? = nil
    ) throws -> HTTPRequestOperation {
        var request = URLRequest(url: server.url(path))
        if let body {
            request.httpMethod = "POST"
            request.httpBodyStream = body
        }
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.credentialStore = CredentialStore()
        operation.connectionConfiguration.usesHTTP2 = false
        operation.connectionConfiguration.proxy = .proxy(try Proxy("http://\(user)127.0.0.1:\(proxy.port)"))
        operation.connectionConfiguration.securityPolicy.certificateAuthorities = authorities
        return operation
    }

    @Test func `a 407 from a server behind a tunnel is not a proxy challenge`() async throws {
        let proxy = try ConnectProxy(.tunnels(to: server.port))
        defer { proxy.stop() }
        server.route("/", .status(407).header("Proxy-Authenticate", "Basic realm=\"spoofed\""))
        let operation = try operation("/", over: proxy, user: "ada:secret@")
        operation.authenticationChallengeHandler = { _, challenge, answer in
            Issue.record("asked for \(challenge.protectionSpace)")
            answer(.performDefaultHandling)
        }
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 407 && server.requests.count == 1)
        #expect(server.requests.allSatisfy { $0.headers["Proxy-Authorization"] == nil })
    }

    @Test func `a tunnel is not reused for another user`() async throws {
        let proxy = try ConnectProxy(.says(Self.refusal), .tunnels(to: server.port), .says(Self.refusal))
        defer { proxy.stop() }
        server.route("/", .text("in"))
        let first = try operation("/", over: proxy)
        first.authenticationChallengeHandler = { _, _, answer in answer(.useCredential(AskingServer.ada)) }
        try await first.finished()
        #expect(first.responseString == "in")
        let second = try operation("/", over: proxy)
        await #expect { try await second.finished() } throws: {
            ($0 as? URLError)?.code == .userAuthenticationRequired
        }
        #expect(proxy.heads.count == 3 && server.requests.count == 1)
        #expect(proxy.heads.last?.contains("Proxy-Authorization") == false)
    }

    @Test func `a tunnel opened with a request's header field is not reused without that field`() async throws {
        let proxy = try ConnectProxy(.tunnels(to: server.port), .says(Self.refusal))
        defer { proxy.stop() }
        server.route("/", .text("in"))
        let known = try operation("/", over: proxy).request
        var request = known
        request.setValue("Basic own", forHTTPHeaderField: "Proxy-Authorization")
        let first = HTTPRequestOperation(request: request)
        let second = try operation("/", over: proxy)
        first.completionQueue = testQueue
        first.connectionConfiguration = second.connectionConfiguration
        try await first.finished()
        #expect(proxy.heads.first?.contains("Proxy-Authorization: Basic own") == true)
        await #expect(throws: URLError.self) { try await second.finished() }
        #expect(proxy.heads.count == 2 && server.requests.count == 1)
    }

    @Test func `an unread stream is sent through the tunnel opened after the challenge`() async throws {
        let proxy = try ConnectProxy(.says(Self.refusal), .tunnels(to: server.port))
        defer { proxy.stop() }
        server.route("POST", "/") { .text($0.text) }
        let operation = try operation("/", over: proxy, user: "ada:secret@", body: InputStream(data: Data("once".utf8)))
        try await operation.finished()
        #expect(operation.responseString == "once" && server.requests.count == 1)
    }

    @Test func `a POST is not sent again after a redirect into a tunnel`() async throws {
        let proxy = try ConnectProxy(.says(Self.refusal), .tunnels(to: server.port))
        defer { proxy.stop() }
        server.route("/page", .text("page"))
        let plain = try TestServer()
        let page = server.url("/page").absoluteString.replacingOccurrences(of: "127.0.0.1", with: "localhost")
        plain.redirect("/order", to: page, status: 303)
        var request = URLRequest(url: plain.url("/order"))
        request.httpMethod = "POST"
        request.httpBody = Data("one".utf8)
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.credentialStore = CredentialStore()
        operation.authenticationChallengeHandler = { _, _, answer in answer(.useCredential(AskingServer.ada)) }
        operation.connectionConfiguration.usesHTTP2 = false
        // The plain server is reached directly.
        operation.connectionConfiguration.proxy = .proxy(try Proxy("http://127.0.0.1:\(proxy.port)"), except: ["127.0.0.1"])
        operation.connectionConfiguration.securityPolicy.certificateAuthorities = authorities
        try await operation.finished()
        #expect(operation.responseString == "page" && plain.requests.map(\.text) == ["one"])
    }

    @Test(arguments: ["/p#fragment", "", "/a/../b?", "/?q"])
    func `a reply to a proxy challenge contains the request target that is sent`(path: String) async throws {
        let proxy = try TestServer()
        proxy.route(nil, "*") { request in
            request.headers["Proxy-Authorization"] == nil
                ? .status(407).header("Proxy-Authenticate", "Digest realm=\"p\", nonce=\"n\", qop=\"auth\"") : .text("in")
        }
        let url = try #require(URL(string: "http://Server.Test:80\(path)"))
        let operation = HTTPRequestOperation(request: URLRequest(url: url))
        operation.completionQueue = testQueue
        operation.connectionConfiguration.proxy = .proxy(try Proxy("http://ada:secret@127.0.0.1:\(proxy.port)"))
        try await operation.finished()
        let last = try #require(proxy.requests.last)
        #expect(last.headers["Proxy-Authorization"]?.contains(" uri=\"\(last.target)\"") == true, "\(last.target)")
    }
}
