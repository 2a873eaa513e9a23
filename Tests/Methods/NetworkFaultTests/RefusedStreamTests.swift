import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Requests that an HTTP/2 server has not processed, which are sent again regardless of their method, unlike all others
/// (RFC 9113, sections 6.8 and 8.7; RFC 9110, section 15.5.20).
@Suite(.serialized) struct RefusedStreamTests {
    /// The server's response to the first request for a path.
    enum Refusal: String, CaseIterable, Sendable {
        case refusedStream
        case refusedStreamBehindBody
        case goAwayBelow
        case goAwayBelowThenClose
        case goAwayCalm
        case misdirected
        case requiresHTTP1
        // The server may have processed requests with these refusals.
        case goAwayAt
        case goAwayAbove
        case goAwayAfterHead
        case internalError
        case cancelled
        case closed

        var provesNothingProcessed: Bool {
            switch self {
            case .refusedStream, .refusedStreamBehindBody, .goAwayBelow, .goAwayBelowThenClose, .goAwayCalm, .misdirected,
                .requiresHTTP1:
                true
            case .goAwayAt, .goAwayAbove, .goAwayAfterHead, .internalError, .cancelled, .closed: false
            }
        }

        func steps(for request: StreamServer.Request) -> [StreamServer.Step] {
            let below = request.stream >= 2 ? request.stream - 2 : 0
            switch self {
            case .refusedStream: return [.reset(7)]
            case .refusedStreamBehindBody: return [.awaitBody, .reset(7)]
            case .goAwayBelow: return [.goAway(last: below), .awaitBody]
            case .goAwayBelowThenClose: return [.goAway(last: below), .close]
            case .goAwayCalm: return [.goAway(last: below, code: 11), .close]
            case .misdirected: return [.head(status: 421, fields: [("content-length", "5")]), .data("wrong")]
            case .requiresHTTP1: return [.reset(13)]
            case .goAwayAt: return [.awaitBody, .process, .goAway(last: request.stream), .close]
            case .goAwayAbove: return [.awaitBody, .process, .goAway(last: request.stream + 2), .close]
            case .goAwayAfterHead:
                return [.awaitBody, .process, .head(status: 200), .goAway(last: below), .close]
            case .internalError: return [.awaitBody, .process, .reset(2)]
            case .cancelled: return [.awaitBody, .process, .reset(8)]
            case .closed: return [.awaitBody, .process, .close]
            }
        }
    }

    private func send(
        _ method: String, to url: String, _ configuration: ConnectionConfiguration, size: Int, thread: NetworkThread
    ) throws -> HTTPRequestOperation {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = method
        request.timeoutInterval = 20
        if method != "GET" { request.httpBody = Data(repeating: 65, count: size) }
        let operation = HTTPRequestOperation(request: request, thread: thread)
        operation.connectionConfiguration = configuration
        operation.responseSerializer = HTTPResponseSerializer()
        operation.collectsMetrics = true
        let isDone = DispatchSemaphore(value: 0)
        operation.completionBlock = { isDone.signal() }
        operation.start()
        try isDone.waitOrThrow(timeout: 60, "\(operation)")
        return operation
    }

    @Test(arguments: Refusal.allCases, [0, 10, 30_000])
    func `only requests that were not processed are sent again`(refusal: Refusal, size: Int) throws {
        let tls = try ServerTLS(protocols: ServerTLS.http2)
        let server = try StreamServer(tls: tls) { request in
            if request.path != "/first", request.earlier == 0 { return refusal.steps(for: request) }
            return [.awaitBody, .process, .head(status: 200, fields: [("content-length", "4")]), .data("done")]
        }
        defer { server.stop() }
        let configuration = ConnectionConfiguration(certificateAuthorities: tls.certificateAuthority)
        for method in ["POST", "PATCH", "PUT", "GET"] {
            // Test the first stream of a connection, and a reused connection.
            for isReused in [false, true] {
                let thread = NetworkThread()
                if isReused {
                    let first = try send(
                        "GET", to: "https://localhost:\(server.port)/first", configuration, size: 0, thread: thread)
                    #expect(first.error == nil)
                }
                let path = "/\(method)/\(isReused)"
                let operation = try send(
                    method, to: "https://localhost:\(server.port)\(path)", configuration, size: size, thread: thread)
                let name: Comment = "\(refusal), \(method), \(size) bytes, reused: \(isReused): \(operation.error as Any)"
                let isIdempotent = method == "PUT" || method == "GET"
                if refusal.provesNothingProcessed {
                    #expect(operation.error == nil, name)
                    #expect(server.processed(path) == 1 && server.arrived(path) == 2, name)
                } else if !isIdempotent {
                    #expect(operation.error != nil, name)
                    #expect(server.processed(path) == 1 && server.arrived(path) == 1, name)
                }
            }
        }
    }

    @Test(arguments: [Refusal.misdirected, .requiresHTTP1])
    func `metrics of a repeated request report a failure only without a response`(refusal: Refusal) throws {
        let tls = try ServerTLS(protocols: ServerTLS.http2)
        let server = try StreamServer(tls: tls) { request in
            if request.earlier == 0 { return refusal.steps(for: request) }
            return [.awaitBody, .process, .head(status: 200, fields: [("content-length", "4")]), .data("done")]
        }
        defer { server.stop() }
        let configuration = ConnectionConfiguration(certificateAuthorities: tls.certificateAuthority)
        let operation = try send(
            "POST", to: "https://localhost:\(server.port)/", configuration, size: 10, thread: NetworkThread())
        let transactions = try #require(operation.metrics).transactions
        #expect(transactions.map(\.statusCode) == [refusal == .misdirected ? 421 : nil, 200])
        #expect(transactions.map { $0.failureReason == nil } == [refusal == .misdirected, true])
    }

    @Test func `a server that always refuses receives a bounded number of requests`() throws {
        let tls = try ServerTLS(protocols: ServerTLS.http2)
        let server = try StreamServer(tls: tls) { _ in [.reset(7)] }
        defer { server.stop() }
        let configuration = ConnectionConfiguration(certificateAuthorities: tls.certificateAuthority)
        let operation = try send(
            "POST", to: "https://localhost:\(server.port)/refused", configuration, size: 10, thread: NetworkThread())
        #expect(operation.error is URLError)
        #expect((2...100).contains(server.arrived("/refused")), "\(server.arrived("/refused"))")
    }
}
