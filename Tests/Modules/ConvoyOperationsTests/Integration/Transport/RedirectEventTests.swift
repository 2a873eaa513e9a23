import ConvoySerialization
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The decisions about redirects that an operation reports.
@Suite struct RedirectEventTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.redirect("/a", to: "/b", status: 301)
        server.redirect("/b", to: "/end", status: 307)
        server.echo(at: "/end")
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
    }

    private func run(_ operation: HTTPRequestOperation) async -> HTTPRequestOperation {
        manager.enqueue(operation)
        try? await operation.finished()
        return operation
    }

    @Test func `an operation without redirects has no events`() async throws {
        #expect(try await run(manager.makeOperation(.get, "end")).redirects.isEmpty)
    }

    @Test func `followed redirects are listed in order, with the changes of the method`() async throws {
        let operation = try await run(manager.makeOperation(.post, "a", parameters: ["x": 1]))
        #expect(operation.redirects.map(\.outcome) == [.followed, .followed])
        #expect(operation.redirects.map(\.from) == [server.url("/a"), server.url("/b")])
        #expect(operation.redirects.map(\.to) == [server.url("/b"), server.url("/end")])
        let first = try #require(operation.redirects.first)
        #expect(first.previousMethod == "POST" && first.method == "GET" && first.methodReason == .postBecomesGet)
        #expect(first.body == .dropped)
        #expect(first.removedFields.contains { $0.name == "Content-Type" && $0.reason == .describesBody })
        #expect(
            operation.redirects.last?.methodReason == .keptByStatus
                && operation.redirects.last?.body == RedirectEvent.BodyOutcome.none)
    }

    @Test func `a redirect that is kept as the response is listed as kept`() async throws {
        let operation = try manager.makeOperation(.get, "a")
        operation.redirectHandler = { operation, request, _ in
            // Earlier redirects are available during the transfer.
            #expect(operation.redirects.count == (request.url?.path == "/b" ? 0 : 1))
            return request.url?.path == "/b" ? request : nil
        }
        _ = await run(operation)
        #expect(operation.statusCode == 307)
        #expect(operation.redirects.map(\.outcome) == [.followed, .keptAsResponse])
    }

    @Test func `the last event of a refused redirect is the reason for the failure`() async throws {
        server.redirect("/b", to: "ftp://h/?access_token=s3cret", status: 302)
        let operation = try await run(manager.makeOperation(.get, "a"))
        let error = try #require(operation.error as? URLError)
        #expect(error.code == .unsupportedURL && error.redirectRefusal == .unsupportedScheme("ftp"))
        #expect(operation.redirects.map(\.outcome) == [.followed, .refused(.unsupportedScheme("ftp"))])
    }

    @Test func `operations that share a transfer share its events`() async throws {
        let gate = TestServer.Gate()
        server.route("GET", "/end", .pattern(count: 1000).heldBody(by: gate, afterBytes: 10))
        manager.coalescesIdenticalRequests = true
        let first = manager.enqueue(try manager.makeOperation(.get, "a"))
        try await server.waitForRequests(count: 3, timeout: 100)
        let second = manager.enqueue(try manager.makeOperation(.get, "a"))
        while second.state != .executing { await Task.yield() }
        gate.open()
        try await first.finished()
        try await second.finished()
        #expect(first.redirects.count == 2 && first.redirects == second.redirects)
    }

    @Test func `the events are those of the latest attempt`() async throws {
        server.route("GET", "/end", inTurn: [.status(503), .text("there")])
        let operation = try manager.makeOperation(.get, "a")
        operation.retryPolicy = RetryPolicy(maximumRetryCount: 1)
        _ = await run(operation)
        #expect(operation.error == nil && operation.retryCount == 1 && operation.redirects.count == 2)
    }

    // MARK: Bodies

    @Test(arguments: ["PUT", "POST", "PATCH", "DELETE"], [301, 302, 303, 307, 308])
    func `a body is sent again if the method is preserved`(method: String, status: Int) async throws {
        server.redirect("/start", to: "/end", status: status)
        var request = URLRequest(url: server.url("/start"))
        request.httpMethod = method
        request.httpBody = Data("the body".utf8)
        let operation = await run(HTTPRequestOperation(request: request))
        let becomesGet = status == 303 || status < 303 && method == "POST"
        let last = try #require(server.requests("/end").first)
        #expect(last.method == (becomesGet ? "GET" : method) && last.text == (becomesGet ? "" : "the body"))
        #expect(operation.redirects.map(\.body) == [becomesGet ? .dropped : .sentAgain])
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func `a redirected HEAD request stays a HEAD request`(status: Int) async throws {
        server.redirect("/start", to: "/end", status: status)
        let operation = try await run(manager.makeOperation(.head, "start"))
        #expect(server.requests.map(\.method) == ["HEAD", "HEAD"] && operation.redirects.map(\.method) == ["HEAD"])
    }

    @Test func `a replayable stream is sent again`() async throws {
        let operation = manager.post(
            "b", constructingBody: { $0.appendPart(formData: Data("part".utf8), name: "p") }, success: nil)
        try await operation.finished()
        #expect(server.requests("/end").first?.text.contains("part") == true)
        #expect(operation.redirects.map(\.body) == [.sentAgain])
    }

    @Test func `a stream that cannot be replayed fails with that reason`() async throws {
        var request = URLRequest(url: server.url("/b"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: Data("once".utf8))
        let operation = await run(HTTPRequestOperation(request: request))
        #expect((operation.error as? URLError)?.redirectRefusal == .bodyCannotBeSentAgain)
        #expect(operation.redirects.map(\.outcome) == [.refused(.bodyCannotBeSentAgain)])
        #expect(server.requests("/end").isEmpty)
    }

    @Test(arguments: [false, true], [false, true])
    func `a body is sent to another origin only if the handler or the setting allows it`(
        hasHandler: Bool, isSet: Bool
    ) async throws {
        let other = try TestServer()
        other.echo(at: "/end")
        server.redirect("/away", to: other.url("/end").absoluteString, status: 307)
        let operation = try manager.makeOperation(.post, "away", parameters: ["a": "s3cret"])
        if hasHandler { operation.redirectHandler = { _, request, _ in request } }
        operation.connectionConfiguration.sendsBodiesAcrossOrigins = isSet
        _ = await run(operation)
        guard hasHandler || isSet else {
            #expect((operation.error as? URLError)?.redirectRefusal == .bodyForOtherOrigin)
            #expect("\(try #require(operation.error))".contains("another origin") && other.totalConnectionCount == 0)
            return
        }
        #expect(operation.error == nil && other.requests.map(\.text) == ["a=s3cret"])
    }
}
