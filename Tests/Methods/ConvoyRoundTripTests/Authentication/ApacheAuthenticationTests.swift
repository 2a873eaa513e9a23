import ConvoyOperations
import ConvoySerialization
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Basic and Digest authentication, verified by Apache.
@Suite(.enabled(if: ApacheServer.isInstalled, "not installed: \(ApacheServer.installHint)"))
struct ApacheAuthenticationTests {
    @Test(arguments: ["basic", "digest"], [false, true])
    func `Apache accepts the right password, over HTTP/1.1 and HTTP/2`(method: String, isSecure: Bool) async throws {
        let server = try ApacheServer(users: ["ada": "secret", "jäsøn": "päss\"wörd"])
        let base = isSecure ? server.secureURL : server.url
        let url = base.appendingPathComponent("\(method)/small")
        let manager = Protected.manager()
        if isSecure { manager.connectionConfiguration.certificateAuthorities = server.certificateAuthority }
        for _ in 0..<3 { #expect(await manager.status(url) == 200) }
        manager.credential = URLCredential(user: "jäsøn", password: "päss\"wörd", persistence: .none)
        #expect(await manager.status(url) == 200)
        manager.credential = Protected.wrong
        #expect(await manager.status(url) == 401)
        manager.credential = nil
        #expect(await manager.status(url) == 401)
    }

    @Test func `uploads from memory and replayable streams are authenticated`() async throws {
        let server = try ApacheServer()
        let manager = Protected.manager()
        let body = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0) })
        let url = server.url.appendingPathComponent("digest/new")
        #expect(await manager.status(url, "PUT", body: body) == 201)
        let uploaded: Data = try await manager.get(url)
        #expect(uploaded == body)
        let directory = try TemporaryDirectory()
        let file = try directory.write(body, to: "body")
        let other = server.url.appendingPathComponent("basic/other")
        try await manager.upload(other, method: .put, from: .file(file))
        #expect(try await manager.get(other, as: Data.self) == body)
    }

    @Test func `Apache's proof of the password is verified, including after redirects and for a 404`()
        async throws
    {
        let server = try ApacheServer()
        let manager = Protected.manager()
        // Each request has its own count and target.
        for path in ["small", "small?a=1&b=%22", "missing", "small?ü"] {
            let url = try #require(URL(string: "digest/\(path)", relativeTo: server.url))
            let operation = manager.enqueue(manager.makeOperation(request: URLRequest(url: url)))
            try? await operation.finished()
            #expect((operation.error as? URLError)?.responseAuthenticationFailure == nil)
            #expect(operation.statusCode == (path == "missing" ? 404 : 200))
            let info = operation.response?.value(forHTTPHeaderField: "Authentication-Info")
            // Apache sends no Authentication-Info field with an error.
            #expect(info?.contains("rspauth=") == (path == "missing" ? nil : true), "\(path)")
        }
    }

    @Test func `a one-time nonce is requested again without rejecting the password`() async throws {
        let server = try ApacheServer(nonceLifetime: 0)
        let manager = Protected.manager()
        let url = server.url.appendingPathComponent("digest/small")
        for _ in 0..<5 { #expect(await manager.status(url) == 200) }
    }

    @Test func `a hundred concurrent requests share a nonce, each with its own count`() async throws {
        let server = try ApacheServer()
        let manager = Protected.manager()
        let url = server.url.appendingPathComponent("digest/small")
        #expect(await manager.status(url) == 200)
        let operations = (0..<100).map { _ in manager.makeOperation(request: URLRequest(url: url)) }
        manager.enqueue(operations)
        for operation in operations { try await operation.finished() }
        #expect(operations.allSatisfy { $0.statusCode == 200 })
    }
}
