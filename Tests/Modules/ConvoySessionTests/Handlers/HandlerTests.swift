import ConvoyCache
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySession

/// The handlers of a manager, and the default behaviour without them.
@Suite struct HandlerTests {
    let fixture: SessionFixture

    init() throws {
        fixture = try SessionFixture()
        fixture.server.route("/text", .text("hello"))
        fixture.server.route("/gone", .status(404))
        fixture.server.route("/there", .redirect(to: "/text"))
        fixture.server.echo(at: "/echo")
    }

    private var manager: HTTPSessionManager { fixture.manager }

    private func run(_ path: String) async -> SessionDataTask {
        let task = manager.dataTask(with: fixture.request(path))
        task.resume()
        await task.end()
        fixture.settle()
        return task
    }

    // MARK: Redirects

    @Test func `redirects are followed unless the handler decides otherwise`() async throws {
        #expect(await run("/there").operation.responseString == "hello")
        manager.taskWillPerformHTTPRedirectionHandler = { task, response, request in
            #expect(task.taskIdentifier == 2 && response?.statusCode == 302)
            var request = request
            request.url = self.fixture.server.url("/echo")
            return request
        }
        #expect(await run("/there").currentRequest.url?.path == "/echo")
        manager.taskWillPerformHTTPRedirectionHandler = { _, _, _ in nil }
        manager.responseSerializer.acceptableStatusCodes = nil
        #expect(await run("/there").response?.statusCode == 302)
        manager.taskWillPerformHTTPRedirectionHandler = nil
        #expect(await run("/there").response?.statusCode == 200)
    }

    // MARK: Responses

    @Test func `the response handler can reject a response`() async throws {
        manager.dataTaskDidReceiveResponseHandler = { task, response in response.statusCode == 404 ? .cancel : .allow }
        #expect((await run("/gone").error as? URLError)?.code == .cancelled)
        #expect(await run("/text").operation.responseString == "hello")
    }

    @Test(arguments: ["/text", "/gone", "/empty", "/held"])
    func `a task waiting for a response decision can be suspended and cancelled`(path: String) async throws {
        let gate = TestServer.Gate()
        fixture.server.route("/empty", .status(204))
        fixture.server.route("/held", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 50_000))
        let (asked, decided) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        manager.dataTaskDidReceiveResponseHandler = { _, _ in
            asked.signal()
            decided.wait()
            return .allow
        }
        let task = manager.dataTask(with: fixture.request(path))
        task.resume()
        await wait(for: asked)
        task.suspend()
        try await waitUntil("the stop") { task.state == .suspended }
        task.cancel()
        try await waitUntil("the end") { task.state == .completed }
        decided.signal()
        let error = await task.end()
        #expect((error as? URLError)?.code == .cancelled)
        // The handler is still called for another response.
        gate.open()
        decided.signal()
        #expect(await run("/text").operation.responseString == "hello")
    }

    @Test(arguments: ["/text", "/empty"])
    func `a task suspended before the decision calls the handler again`(path: String) async throws {
        fixture.server.route("/empty", .status(204))
        let (asked, decided) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let count = Locked(0)
        manager.dataTaskDidReceiveResponseHandler = { _, _ in
            count.withLock { $0 += 1 }
            asked.signal()
            decided.wait()
            return .allow
        }
        let task = manager.dataTask(with: fixture.request(path))
        task.resume()
        await wait(for: asked)
        task.suspend()
        task.resume()
        decided.signal()
        decided.signal()
        try await task.finished()
        #expect(task.operation.responseData == Data((path == "/text" ? "hello" : "").utf8))
        #expect(count.withLock { $0 } <= 2)
    }

    private func wait(for semaphore: DispatchSemaphore) async {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                semaphore.wait()
                continuation.resume()
            }
        }
    }

    @Test func `data is reported as it arrives, and is complete at the end`() async throws {
        let data = Locked(Data())
        manager.dataTaskDidReceiveDataHandler = { _, bytes in data.withLock { $0.append(bytes) } }
        fixture.server.route("/large", .pattern(count: 5_000_000))
        let task = await run("/large")
        #expect(data.withLock { $0 } == PatternBytes.data(count: 5_000_000))
        #expect(task.operation.responseData?.count == 5_000_000)
    }

    @Test func `a slow data handler slows the sender down`() async throws {
        let go = DispatchSemaphore(value: 0)
        let taken = Locked(0)
        manager.dataTaskDidReceiveDataHandler = { _, bytes in
            guard bytes.count > 5 else { return }
            if taken.withLock({ $0 }) == 0 { go.wait() }
            taken.withLock { $0 += bytes.count }
        }
        fixture.server.route("/endless", .pattern(count: 64 << 20))
        let task = manager.dataTask(with: fixture.request("/endless"))
        task.resume()
        try await waitUntil("more bytes than the backlog limit") { task.countOfBytesReceived > 1 << 20 }
        // The count is bounded at two checks, between which 64 MiB would arrive many times over.
        let before = task.countOfBytesReceived
        _ = try await manager.get("text").finished()
        #expect(task.countOfBytesReceived < 4 << 20 && before < 4 << 20)
        go.signal()
        try await task.finished()
        fixture.settle()
        #expect(taken.withLock { $0 } == 64 << 20)
    }

    @Test func `sent bytes are reported as they are sent`() async throws {
        let total = Locked<[Int64]>([])
        manager.taskDidSendBodyDataHandler = { _, _, sent, expected in total.withLock { $0 += [sent, expected] } }
        let task = manager.uploadTask(with: fixture.request("/echo"), from: Data(count: 200_000))
        task.resume()
        try await task.finished()
        fixture.settle()
        #expect(total.withLock { Array($0.suffix(2)) } == [200_000, 200_000])
    }

    // MARK: Challenges

    @Test(arguments: ["use", "default", "cancel", "reject"])
    func `a challenge handler can choose any of four outcomes`(outcome: String) async throws {
        fixture.server.route("/secret") { request in
            request.headers["Authorization"] == "Basic dXNlcjpwYXNz"
                ? .text("in") : .status(401, headers: ["WWW-Authenticate": "Basic realm=\"r\""])
        }
        manager.taskDidReceiveAuthenticationChallengeHandler = { task, challenge, answer in
            #expect(challenge.protectionSpace.realm == "r" && task.taskIdentifier == 1)
            DispatchQueue.global().async {
                switch outcome {
                case "use": answer(.useCredential(URLCredential(user: "user", password: "pass", persistence: .none)))
                case "default": answer(.performDefaultHandling)
                case "cancel": answer(.cancel)
                default: answer(.rejectProtectionSpace)
                }
            }
        }
        let task = await run("/secret")
        switch outcome {
        case "use": #expect(task.operation.responseString == "in")
        case "cancel": #expect((task.error as? URLError)?.code == .userCancelledAuthentication)
        default: #expect(task.response?.statusCode == 401)
        }
    }

    @Test func `the session's handler responds if the task's does not`() async throws {
        fixture.server.route("/secret") { request in
            request.headers["Authorization"] == nil
                ? .status(401, headers: ["WWW-Authenticate": "Basic realm=\"r\""]) : .text("in")
        }
        manager.sessionDidReceiveAuthenticationChallengeHandler = { _, answer in
            answer(.useCredential(URLCredential(user: "u", password: "p", persistence: .none)))
        }
        #expect(await run("/secret").operation.responseString == "in")
    }

    // MARK: Bodies and caching

    @Test func `the handler provides a body that must be sent again`() async throws {
        fixture.server.route("/moved", .redirect(to: "/echo", status: 307))
        func upload() -> SessionUploadTask {
            var request = fixture.request("/moved", method: "POST")
            request.httpBodyStream = InputStream(data: Data("once".utf8))
            return manager.uploadTask(withStreamedRequest: request)
        }
        let lost = upload()
        lost.resume()
        #expect((await lost.end() as? URLError)?.code == .requestBodyStreamExhausted)
        manager.taskNeedNewBodyStreamHandler = { _ in InputStream(data: Data("again".utf8)) }
        let task = upload()
        task.resume()
        try await task.finished()
        #expect(fixture.server.requests.last?.text == "again")
    }

    @Test func `the cache handler can prevent a response from being stored`() async throws {
        let fixture = try SessionFixture { $0.cache = HTTPCache() }
        fixture.server.route("/cached", .text("body").header("Cache-Control", "max-age=600"))
        fixture.manager.dataTaskWillCacheResponseHandler = { task, candidate in
            fixture.note("\(task.taskIdentifier)")
            return nil
        }
        for _ in 0..<2 {
            let task = fixture.manager.dataTask(with: fixture.request("/cached"))
            task.resume()
            try await task.finished()
        }
        #expect(fixture.server.requests.count == 2 && fixture.notes == ["1", "2"])
        fixture.manager.dataTaskWillCacheResponseHandler = nil
        for _ in 0..<2 {
            let task = fixture.manager.dataTask(with: fixture.request("/cached"))
            task.resume()
            try await task.finished()
        }
        #expect(fixture.server.requests.count == 3)
    }

    // MARK: Ends

    @Test func `the end of a task is reported after its own handlers, with its results`() async throws {
        manager.postsNotifications = true
        manager.taskDidCompleteHandler = { [fixture] task, error in
            fixture.note("did complete \(task.taskIdentifier) \(error == nil)")
        }
        let observer = NotificationCenter.default.addObserver(
            forName: .networkingTaskDidComplete, object: nil, queue: nil
        ) { [fixture] notification in
            guard let task = notification.object as? SessionTask, task.taskDescription == "told" else { return }
            let keys = (notification.userInfo ?? [:]).keys.compactMap { $0 as? String }.sorted()
            fixture.note("posted " + keys.map { $0.split(separator: ".").last ?? "" }.sorted().joined(separator: " "))
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        for path in ["/text", "/gone"] {
            let task = manager.dataTask(with: fixture.request(path)) { [fixture] _, _, _ in fixture.note("own") }
            task.taskDescription = "told"
            task.resume()
            await task.end()
            fixture.settle()
        }
        #expect(
            fixture.notes == [
                "own", "did complete 1 true", "posted responsedata responseserializer serializedresponse",
                "own", "did complete 2 false", "posted error responsedata responseserializer serializedresponse",
            ], "\(fixture.notes)")
    }

    @Test func `the start notification of a request's task is posted once`() async throws {
        manager.postsNotifications = true
        let observer = NotificationCenter.default.addObserver(
            forName: .networkingTaskDidResume, object: nil, queue: nil
        ) { [fixture] notification in
            guard let task = notification.object as? SessionTask, let url = task.originalRequest.url,
                url.port == fixture.server.url.port
            else { return }
            fixture.note(url.path)
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        let _: Data = try await manager.get(fixture.server.url("/text").absoluteString)
        let task = manager.get(fixture.server.url("/echo").absoluteString, success: { _, _ in }, failure: { _, _ in })
        await task.end()
        fixture.settle()
        #expect(fixture.notes == ["/text", "/echo"])
    }

    @Test func `resuming and suspending are each posted once`() async throws {
        manager.postsNotifications = true
        let names: [Notification.Name] = [.networkingTaskDidResume, .networkingTaskDidSuspend]
        let observers = names.map { name in
            NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { [fixture] notification in
                guard (notification.object as? SessionTask)?.taskDescription == "posted" else { return }
                fixture.note(name == .networkingTaskDidResume ? "resume" : "suspend")
            }
        }
        defer { for observer in observers { NotificationCenter.default.removeObserver(observer) } }
        let gate = TestServer.Gate()
        fixture.server.route("/held", TestServer.Response.text("x").held(by: gate))
        let task = manager.dataTask(with: fixture.request("/held"))
        task.taskDescription = "posted"
        task.suspend()
        task.resume()
        task.resume()
        task.suspend()
        task.suspend()
        task.resume()
        gate.open()
        try await task.finished()
        task.suspend()
        fixture.settle()
        #expect(fixture.notes == ["resume", "suspend", "resume"])
    }
}
