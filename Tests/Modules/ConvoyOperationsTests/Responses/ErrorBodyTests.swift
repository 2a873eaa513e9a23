import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that the bodies of error responses are awaited for a limited time. The received part is available.
@Suite struct ErrorBodyTests {
    let server: TestServer

    init() throws { server = try TestServer() }

    /// Gets a response, with a time limit that waiting for the complete body would exceed.
    private func get(
        _ response: TestServer.Response, timeout: TimeInterval = 4, _ change: (HTTPRequestOperation) -> Void = { _ in }
    ) throws -> HTTPRequestOperation {
        server.route("GET", "/", response)
        let probe = Probe(server.url("/"), timeout: timeout)
        probe.operation.responseSerializer = HTTPResponseSerializer()
        change(probe.operation)
        probe.operation.start()
        _ = try #require(probe.outcome())
        return probe.operation
    }

    private var anyStatus: HTTPResponseSerializer {
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        return serializer
    }

    private func status(_ operation: HTTPRequestOperation) -> Int? {
        operation.error is HTTPError ? operation.response?.statusCode : nil
    }

    private func body(_ count: Int, status: Int = 500) -> TestServer.Response {
        .bytes(Data(repeating: 0x2E, count: count), status: status)
    }

    @Test(arguments: zip([401, 404, 500], [TestServer.Response.Framing.automatic, .chunked, .closeDelimited]))
    func `an error body that stalls ends with the received bytes`(code: Int, framing: TestServer.Response.Framing) throws {
        let operation = try get(body(100, status: code).framed(framing).stalls(afterBytes: 10))
        #expect(status(operation) == code)
        #expect(operation.responseData?.count == 10)
    }

    @Test func `an error body that never begins is empty`() throws {
        let operation = try get(body(100).stalls(afterBytes: 0))
        #expect(status(operation) == 500)
        #expect(operation.responseData?.isEmpty == true)
    }

    @Test func `an error body that trickles is abandoned`() throws {
        var drip = body(20_000).framed(.chunked)
        drip.effects.pace = .drip(bytes: 1, interval: 0.02)
        let operation = try get(drip)
        #expect(status(operation) == 500)
        #expect(operation.responseData.map { 1..<20_000 ~= $0.count } == true)
    }

    @Test func `an error body that is far too long is truncated`() throws {
        let operation = try get(TestServer.Response.pattern(count: 1 << 30).status(502).framed(.closeDelimited))
        #expect(status(operation) == 502)
        let count = try #require(operation.responseData?.count)
        #expect(count > 900 << 10 && count <= 1 << 20)
    }

    @Test func `an error body that arrives slowly but steadily is complete`() throws {
        let operation = try get(body(6_000).bandwidth(bytesPerSecond: 3_000))
        #expect(status(operation) == 500)
        #expect(operation.responseData?.count == 6_000)
    }

    @Test func `an error body that is accepted as the response is awaited`() throws {
        let operation = try get(body(100).stalls(afterBytes: 10), timeout: 2) { $0.responseSerializer = anyStatus }
        #expect((operation.error as? URLError)?.code == .timedOut)
        // The body is slower than an error body may be in its first second.
        let slow = try get(body(1_200).framed(.chunked).bandwidth(bytesPerSecond: 800)) { $0.responseSerializer = anyStatus }
        #expect(slow.error == nil)
        #expect(slow.responseData?.count == 1_200)
    }

    @Test func `an error body is not written to the file`() throws {
        let output = OutputStream(toMemory: ())
        let operation = try get(body(100).stalls(afterBytes: 10)) { $0.outputStream = output }
        #expect(status(operation) == 500)
        #expect(operation.responseData?.count == 10)
        #expect(output.property(forKey: .dataWrittenToMemoryStreamKey) as? Data ?? Data() == Data())
    }

    @Test func `a retry follows an error body that does not end`() throws {
        server.route("GET", "/", inTurn: [body(100, status: 503).stalls(afterBytes: 10), .text("there")])
        let probe = Probe(server.url("/"), timeout: 4)
        probe.operation.responseSerializer = HTTPResponseSerializer()
        probe.operation.retryPolicy = RetryPolicy(maximumRetryCount: 1)
        probe.operation.start()
        #expect(try #require(probe.outcome()) == Probe.succeeded)
        #expect(probe.operation.responseString == "there")
    }

    @Test func `a known credential is sent although the challenge's body does not end`() throws {
        server.route("GET", "/") { request in
            guard request.headers["Authorization"] == nil else { return .text("let in") }
            return body(100, status: 401).header("WWW-Authenticate", "Basic realm=\"x\"").stalls(afterBytes: 10)
        }
        let probe = Probe(server.url("/"), timeout: 4)
        probe.operation.responseSerializer = HTTPResponseSerializer()
        probe.operation.credential = URLCredential(user: "ada", password: "secret", persistence: .none)
        probe.operation.start()
        #expect(try #require(probe.outcome()) == Probe.succeeded)
        #expect(probe.operation.responseString == "let in")
    }

    @Test func `a known credential is sent even if every status is accepted`() throws {
        let asked = body(100, status: 401).header("WWW-Authenticate", "Basic realm=\"x\"").stalls(afterBytes: 10)
        server.route("GET", "/") { $0.headers["Authorization"] == nil ? asked : .text("let in") }
        for answersLate in [false, true] {
            let probe = Probe(server.url("/"), timeout: 4)
            probe.operation.responseSerializer = anyStatus
            let credential = URLCredential(user: "ada", password: "secret", persistence: .none)
            if answersLate {
                probe.operation.authenticationChallengeHandler = { $2(.useCredential(credential)) }
            } else {
                probe.operation.credential = credential
            }
            probe.operation.start()
            #expect(try #require(probe.outcome()) == Probe.succeeded)
            #expect(probe.operation.responseString == "let in")
        }
    }

    @Test func `an accepted challenge that is not answered is received completely`() throws {
        let slow = body(1_300, status: 401).framed(.chunked).bandwidth(bytesPerSecond: 900)
        server.route("GET", "/", slow.header("WWW-Authenticate", "Basic realm=\"x\""))
        let probe = Probe(server.url("/"), timeout: 10)
        probe.operation.responseSerializer = anyStatus
        probe.operation.authenticationChallengeHandler = { $2(.performDefaultHandling) }
        probe.operation.start()
        #expect(try #require(probe.outcome()) == Probe.succeeded)
        #expect(probe.operation.statusCode == 401)
        #expect(probe.operation.responseData?.count == 1_300)
    }

    @Test(arguments: [TestServer.Response.Framing.automatic, .chunked])
    func `an error body that exceeds the memory limit reports its status`(framing: TestServer.Response.Framing) throws {
        let operation = try get(body(50_000, status: 404).framed(framing)) { $0.maximumBodySize = 1_000 }
        #expect(status(operation) == 404)
        #expect(operation.responseData?.count == 1_000)
    }

    @Test func `an operation that accepts the status receives all of a shared error body`() async throws {
        let gate = TestServer.Gate()
        server.route("GET", "/", body(1_300, status: 404).held(by: gate).bandwidth(bytesPerSecond: 900))
        let operations = [HTTPResponseSerializer(), anyStatus].map { serializer in
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/")))
            operation.responseSerializer = serializer
            operation.coalescesIdenticalRequests = true
            return operation
        }
        for operation in operations { operation.start() }
        try await server.waitForRequests(count: 1, timeout: 100)
        gate.open()
        for operation in operations { try? await operation.finished() }
        #expect(operations[1].error == nil)
        #expect(operations[1].responseData?.count == 1_300)
        #expect(server.requests.count == 1)
    }
}
