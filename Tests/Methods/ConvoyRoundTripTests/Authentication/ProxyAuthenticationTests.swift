import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// The credentials that proxies must and must not receive.
@Suite struct ProxyAuthenticationTests {
    @Test(
        .enabled(if: SquidProxy.isInstalled, "not installed: \(SquidProxy.installHint)"),
        arguments: [[SquidProxy.Scheme.basic], [.digest], [.digest, .basic]])
    func `Squid forwards and tunnels with the right password`(schemes: [SquidProxy.Scheme]) async throws {
        let proxy = try SquidProxy(schemes)
        let server = try TestServer()
        server.route("/", .text("plain"))
        let certificate = try TestCertificate.selfSigned()
        let secure = try TestServer(tls: TestServer.TLS(certificate))
        secure.route("/", .text("tunnel"))
        let users: [(String, Int, Int?)] = [("ada:secret@", 200, 200), ("ada:wrong@", 407, nil), ("", 407, nil)]
        for (user, status, tunnelStatus) in users {
            let manager = Protected.manager()
            manager.connectionConfiguration = Protected.proxy("http://\(user)localhost:\(proxy.port)")
            manager.connectionConfiguration.securityPolicy.certificateAuthorities = .certificates([
                try Certificate(derData: certificate.derData)
            ])
            for _ in 0..<2 {
                #expect(await manager.status(server.url("/")) == status, "\(user)")
                #expect(await manager.status(secure.url("/")) == tunnelStatus, "\(user)")
            }
        }
        // The proxy's credentials are neither forwarded nor sent to the server in the tunnel.
        for request in server.requests + secure.requests {
            #expect(request.headers["Proxy-Authorization"] == nil && request.headers["Authorization"] == nil)
        }
        #expect(server.requests.count == 2 && secure.requests.count == 2)
    }

    @Test func `the challenge handler is called for the proxy of a request and of a tunnel`() async throws {
        guard SquidProxy.isInstalled else { return print("skipped: not installed: \(SquidProxy.installHint)") }
        let proxy = try SquidProxy([.digest])
        let certificate = try TestCertificate.selfSigned()
        let secure = try TestServer(tls: TestServer.TLS(certificate))
        secure.route("/", .text("tunnel"))
        let manager = Protected.manager(nil)
        manager.connectionConfiguration = Protected.proxy("http://localhost:\(proxy.port)")
        manager.connectionConfiguration.securityPolicy.certificateAuthorities = .certificates([
            try Certificate(derData: certificate.derData)
        ])
        manager.authenticationChallengeHandler = { _, challenge, answer in
            #expect(challenge.protectionSpace.isProxy && challenge.protectionSpace.method == .digest)
            #expect(challenge.failureResponse == nil && challenge.protectionSpace.port == Int(proxy.port))
            answer(.useCredential(challenge.previousFailureCount == 0 ? Protected.wrong : Protected.ada))
        }
        #expect(await manager.status(secure.url("/")) == 200)
    }

    @Test func `neither a proxy nor an origin that imitates one receives the other's credentials`() async throws {
        // This server answers CONNECT with 407 and records what it receives.
        let proxy = try TestServer()
        proxy.route(nil, "*", .status(407).header("Proxy-Authenticate", "Basic realm=\"p\""))
        let manager = Protected.manager()
        manager.connectionConfiguration = Protected.proxy("http://127.0.0.1:\(proxy.port)")
        var request = URLRequest(url: try #require(URL(string: "https://server.test/")))
        request.setValue("Bearer mine", forHTTPHeaderField: "Authorization")
        request.setValue("a=b", forHTTPHeaderField: "Cookie")
        let operation = manager.enqueue(manager.makeOperation(request: request))
        await #expect { try await operation.finished() } throws: {
            ($0 as? URLError)?.code == .userAuthenticationRequired
        }
        #expect(!proxy.requests.isEmpty)
        for heard in proxy.requests {
            #expect(heard.headers["Authorization"] == nil && heard.headers["Cookie"] == nil)
        }
        // Without a proxy, a 407 is an ordinary response and gets no credential.
        let origin = try TestServer()
        origin.route("/", .status(407).header("Proxy-Authenticate", "Basic realm=\"p\""))
        let direct = Protected.manager()
        #expect(await direct.status(origin.url("/")) == 407)
        #expect(origin.requests.count == 1 && origin.requests.first?.headers["Proxy-Authorization"] == nil)
    }
}
