import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// A response that is complete before the request's body has been sent ends the operation, regardless of what then
/// happens to the stream or the connection (RFC 9113, section 8.1; RFC 9112, section 9.5).
@Suite(.serialized) struct EarlyFinalResponseTests {
    /// The server's action after its response.
    enum Sequel: String, CaseIterable, Sendable { case nothing, resetNoError, resetCancel, close, resetConnection }

    static let statuses = [200, 204, 303, 413, 503]
    static let sizes = [0, 1000, 100_000, 5_000_000]

    private func send(
        to url: String, _ configuration: ConnectionConfiguration, size: Int, isStreamed: Bool, thread: NetworkThread
    ) throws -> HTTPRequestOperation {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = "POST"
        request.timeoutInterval = 10
        let body = Data(repeating: 65, count: size)
        if isStreamed { request.httpBodyStream = InputStream(data: body) } else { request.httpBody = body }
        let operation = HTTPRequestOperation(request: request, thread: thread)
        operation.connectionConfiguration = configuration
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        operation.responseSerializer = serializer
        let isDone = DispatchSemaphore(value: 0)
        operation.completionBlock = { isDone.signal() }
        operation.start()
        try isDone.waitOrThrow(timeout: 40, "\(operation)")
        return operation
    }

    @Test(arguments: Sequel.allCases, [false, true])
    func `a complete response over HTTP/2 ends the request`(sequel: Sequel, isStreamed: Bool) throws {
        let tls = try ServerTLS(protocols: ServerTLS.http2)
        let server = try StreamServer(tls: tls) { request in
            let status = Int(request.path.split(separator: "/").first ?? "") ?? 200
            let response: [StreamServer.Step] =
                status == 204
                ? [.head(status: 204, ends: true)]
                : [.head(status: status, fields: [("content-length", "5")]), .data("early")]
            switch sequel {
            case .nothing: return response
            case .resetNoError: return response + [.reset(0)]
            case .resetCancel: return response + [.reset(8)]
            case .close: return response + [.close]
            case .resetConnection: return response + [.resetConnection]
            }
        }
        defer { server.stop() }
        let shared = NetworkThread()
        let configuration = ConnectionConfiguration(certificateAuthorities: tls.certificateAuthority)
        let ends = sequel == .close || sequel == .resetConnection
        for status in Self.statuses {
            for size in Self.sizes {
                // Send the request twice, so that a reused connection is tested as well.
                for round in 0..<2 {
                    let operation = try send(
                        to: "https://localhost:\(server.port)/\(status)/\(size)/\(round)", configuration, size: size,
                        isStreamed: isStreamed, thread: ends ? NetworkThread() : shared)
                    let name: Comment = "\(status), \(size) bytes, round \(round), \(sequel)"
                    // A reset connection may lose bytes sent earlier.
                    if sequel == .resetConnection, (operation.error as? URLError)?.code == .networkConnectionLost {
                        continue
                    }
                    #expect(operation.error == nil && operation.statusCode == status, "\(name) \(operation.error as Any)")
                    #expect(operation.responseData.map { $0.count } ?? 0 == (status == 204 ? 0 : 5), "\(name)")
                }
            }
        }
    }

    @Test(arguments: [Sequel.nothing, .close, .resetConnection], [false, true])
    func `a complete response over HTTP/1.1 ends the request`(sequel: Sequel, isStreamed: Bool) throws {
        let connections = try ReplayConnections(tls: nil)
        connections.start { channel in
            while channel.endOfHead == nil { guard channel.receive() else { return } }
            let line = String(decoding: channel.received.prefix { $0 != 13 }, as: UTF8.self)
            let status = Int(line.split(separator: "/").dropFirst().first ?? "") ?? 200
            let fields = sequel == .nothing ? "Connection: close\r\n" : ""
            let text =
                status == 204
                ? "HTTP/1.1 204 X\r\n\(fields)\r\n" : "HTTP/1.1 \(status) X\r\n\(fields)Content-Length: 5\r\n\r\nearly"
            guard channel.send(Array(text.utf8)) else { return }
            switch sequel {
            case .close: channel.finish()
            case .resetConnection: channel.reset()
            default: channel.drain()
            }
        }
        defer { connections.stop() }
        for status in Self.statuses {
            for size in Self.sizes {
                // A thread of its own: the next request must not meet a connection whose close has not arrived yet.
                let operation = try send(
                    to: "http://127.0.0.1:\(connections.port)/\(status)/\(size)", ConnectionConfiguration(), size: size,
                    isStreamed: isStreamed, thread: NetworkThread())
                let name: Comment = "\(status), \(size) bytes, \(sequel)"
                if sequel == .resetConnection, (operation.error as? URLError)?.code == .networkConnectionLost { continue }
                #expect(operation.error == nil && operation.statusCode == status, "\(name) \(operation.error as Any)")
            }
        }
    }
}
