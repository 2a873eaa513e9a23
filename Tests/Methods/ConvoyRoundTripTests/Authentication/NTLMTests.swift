import ConvoyOperations
import ConvoySecurity
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Tests libcurl's NTLM with an independent server.
@Suite(.enabled(if: NTLMServer.isInstalled, "not installed: \(NTLMServer.installHint)")) struct NTLMTests {
    @Test func `an authenticated connection is not used for other requests`() async throws {
        let server = try NTLMServer()
        let manager = Protected.manager()
        let url = server.url.appendingPathComponent("path")
        var connections: Set<String> = []
        for method in ["GET", "POST", "PUT", "GET"] {
            var request = URLRequest(url: url)
            request.httpMethod = method
            if method != "GET" { request.httpBody = Data("abc".utf8) }
            let operation = manager.enqueue(manager.makeOperation(request: request))
            try await operation.finished()
            let count = method == "GET" ? 0 : 3
            #expect(operation.responseString == "\(method) /path by ada with \(count) bytes", "\(server.process.output)")
            if let number = operation.response?.value(forHTTPHeaderField: "X-Connection") { connections.insert(number) }
        }
        #expect(connections.count == 4)
        manager.credential = nil
        #expect(await manager.status(url) == 401)
        manager.credential = Protected.wrong
        #expect(await manager.status(url) == 401)
    }

    @Test func `NTLM authenticates to a proxy, for requests and tunnels`() async throws {
        let proxy = try NTLMServer(.proxy), server = try NTLMServer()
        let url = server.url.appendingPathComponent("path")
        let manager = Protected.manager()
        manager.connectionConfiguration = Protected.proxy("http://127.0.0.1:\(proxy.port)")
        #expect(await manager.status(url) == 407)
        manager.connectionConfiguration = Protected.proxy("http://ada:secret@127.0.0.1:\(proxy.port)")
        manager.credential = nil
        #expect(await manager.status(url) == 401)
        manager.connectionConfiguration = Protected.proxy("http://ada:wrong@127.0.0.1:\(proxy.port)")
        #expect(await manager.status(url) == 407)
    }

    @Test func `a large body in memory arrives complete`() async throws {
        let server = try NTLMServer()
        let manager = Protected.manager()
        var request = URLRequest(url: server.url.appendingPathComponent("path"))
        request.httpMethod = "PUT"
        request.httpBody = Data(count: 3_000_000)
        let operation = manager.enqueue(manager.makeOperation(request: request))
        try await operation.finished()
        #expect(operation.responseString == "PUT /path by ada with 3000000 bytes")
    }
}
