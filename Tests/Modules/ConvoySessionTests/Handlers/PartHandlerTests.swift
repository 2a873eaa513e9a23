import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySession

/// The handlers of a session if an operation uses other operations, shares a transfer, or authenticates a connection.
@Suite struct PartHandlerTests {
    let fixture: SessionFixture
    private var manager: HTTPSessionManager { fixture.manager }
    private let length = 40_000

    init() throws {
        fixture = try SessionFixture()
        fixture.server.servePattern(count: length, at: "/file", etag: "\"1\"")
        fixture.server.route("/moved", .redirect(to: "/nowhere"))
    }

    private func download(_ path: String) async -> SessionDownloadTask {
        let task = manager.downloadTask(
            with: fixture.request(path), destination: { [fixture] _, _ in fixture.file("file") }, completionHandler: nil)
        task.resume()
        await task.end()
        fixture.settle()
        return task
    }

    @Test func `the session's handler decides about a download's redirect and receives the task`() async throws {
        let tasks = Locked<[Int]>([])
        manager.taskWillPerformHTTPRedirectionHandler = { [fixture] task, response, request in
            tasks.withLock { $0.append(task.taskIdentifier) }
            var request = request
            request.url = fixture.server.url("/file")
            return response?.statusCode == 302 ? request : nil
        }
        let task = await download("/moved")
        #expect(task.error == nil && fixture.contents("file") == PatternBytes.data(count: length))
        #expect(tasks.withLock { $0 } == [task.taskIdentifier])
    }

    @Test func `the session's handler responds to a download's challenge`() async throws {
        let file = PatternBytes.data(count: 1000)
        fixture.server.route("/secret") { request in
            request.headers["Authorization"] == nil
                ? .status(401).header("WWW-Authenticate", "Basic realm=\"files\"")
                : TestServer.Response(status: 200, body: .data(file))
        }
        let realms = Locked<[String?]>([])
        manager.taskDidReceiveAuthenticationChallengeHandler = { task, challenge, answer in
            realms.withLock { $0.append(challenge.protectionSpace.realm) }
            answer(.useCredential(URLCredential(user: "ada", password: "secret", persistence: .none)))
        }
        let task = await download("/secret")
        #expect(task.error == nil && fixture.contents("file") == file)
        #expect(realms.withLock { $0 } == ["files"])
    }

    @Test func `tasks share a transfer unless a handler receives the data`() async throws {
        manager.operationManager.coalescesIdenticalRequests = true
        func run(_ path: String, expecting count: Int) async throws {
            let gate = TestServer.Gate()
            fixture.server.route(path, .text("held").heldBody(by: gate, afterBytes: 1))
            let isAsked = ConnectionConfiguration().isAsked(about: Target(fixture.server.url(path)))
            try #require(!isAsked, "an earlier server on this port has required authentication")
            let tasks = (0..<2).map { _ in manager.dataTask(with: fixture.request(path)) }
            for task in tasks { task.resume() }
            try await waitUntil("the first bytes") { tasks.allSatisfy { $0.response != nil } }
            gate.open()
            for task in tasks { #expect(await task.end() == nil) }
            #expect(fixture.server.requests(path).count == count)
        }
        try await run("/shared", expecting: 1)
        let heard = Locked(Data())
        manager.dataTaskDidReceiveDataHandler = { _, data in heard.withLock { $0 += data } }
        try await run("/heard", expecting: 2)
        fixture.settle()
        #expect(heard.withLock { $0 }.sorted() == Data("heldheld".utf8).sorted())
    }

    @Test(.enabled(if: NTLMServer.isInstalled, Comment(rawValue: NTLMServer.installHint)))
    func `the session's handler is called for connection-based authentication`() async throws {
        let server = try NTLMServer()
        let asked = Locked<[String]>([])
        manager.sessionDidReceiveAuthenticationChallengeHandler = { challenge, answer in
            asked.withLock { $0.append("session \(challenge.protectionSpace.method)") }
            answer(
                .useCredential(
                    URLCredential(user: NTLMServer.user, password: NTLMServer.password, persistence: .none)))
        }
        manager.taskDidReceiveAuthenticationChallengeHandler = { _, _, answer in
            asked.withLock { $0.append("task") }
            answer(.cancel)
        }
        let task = manager.dataTask(with: URLRequest(url: server.url.appendingPathComponent("page")))
        task.resume()
        #expect(await task.end() == nil)
        #expect(asked.withLock { $0 } == ["session \(AuthenticationMethod.ntlm)"])
        #expect(task.operation.responseString?.contains("by ada") == true)
    }
}
