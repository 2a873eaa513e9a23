import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySession

/// Tasks: their states, their byte counts, and their operations.
@Suite struct TaskTests {
    let fixture: SessionFixture

    init() throws {
        fixture = try SessionFixture()
        fixture.server.route("/text", .text("hello"))
        fixture.server.echo(at: "/echo")
    }

    private var manager: HTTPSessionManager { fixture.manager }

    @Test func `a task starts suspended, and sends nothing until it is resumed`() async throws {
        let task = manager.dataTask(with: fixture.request("/text"))
        #expect(task.state == .suspended && task.operation.isPaused)
        #expect(manager.tasks == [task] && manager.dataTasks == [task] && manager.uploadTasks.isEmpty)
        task.suspend()
        #expect(fixture.server.requests.isEmpty)
        task.resume()
        #expect(task.state == .running || task.state == .completed)
        try await task.finished()
        #expect(task.state == .completed && task.response?.statusCode == 200 && task.error == nil)
        #expect(task.operation.responseObject as? Data == Data("hello".utf8))
        #expect(task.countOfBytesReceived == 5 && task.countOfBytesExpectedToReceive == 5)
        fixture.settle()
        try await waitUntil("all tasks have ended") { manager.tasks.isEmpty }
        task.resume()
        task.suspend()
        task.cancel()
        #expect(task.state == .completed && fixture.server.requests.count == 1)
    }

    @Test func `a task that was never resumed can be cancelled, and ends once`() async throws {
        let calls = Locked(0)
        let task = manager.dataTask(with: fixture.request("/text")) { _, _, error in
            #expect((error as? URLError)?.code == .cancelled)
            calls.withLock { $0 += 1 }
        }
        task.cancel()
        #expect(await task.end() is URLError)
        task.cancel()
        fixture.settle()
        #expect(calls.withLock { $0 } == 1 && task.state == .completed && fixture.server.requests.isEmpty)
    }

    @Test func `an unreferenced task that was never resumed is released`() throws {
        weak var operation: HTTPRequestOperation?
        do {
            let task = manager.dataTask(with: fixture.request("/text")) { _, _, _ in Issue.record("It has not started.") }
            operation = task.operation
            #expect(manager.tasks.count == 1)
        }
        #expect(operation == nil && manager.tasks.isEmpty)
    }

    @Test func `a running task does not need a reference`() async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: String.self)
        manager.dataTask(with: fixture.request("/text")) { _, object, _ in
            continuation.yield(String(decoding: object as? Data ?? Data(), as: UTF8.self))
            continuation.finish()
        }.resume()
        #expect(await stream.first { _ in true } == "hello")
    }

    @Test func `a suspended transfer resumes where it stopped`() async throws {
        let gate = TestServer.Gate()
        fixture.server.servePattern(count: 200_000, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 50_000) : response
        }
        let task = manager.dataTask(with: fixture.request("/file"))
        task.resume()
        try await waitUntil("the first bytes") { task.countOfBytesReceived > 0 }
        task.suspend()
        #expect(task.state == .suspended)
        task.resume()
        // The first transfer has stopped when the remaining bytes are requested.
        try await waitUntil("the remaining bytes are requested") { fixture.server.requests.count == 2 }
        gate.open()
        try await task.finished()
        #expect(task.operation.responseObject as? Data == PatternBytes.data(count: 200_000))
        #expect(fixture.server.requests.count == 2)
    }

    @Test func `each task has its own number, description and priority`() async throws {
        let first = manager.dataTask(with: fixture.request("/text"))
        let second = manager.uploadTask(with: fixture.request("/echo"), from: Data("body".utf8))
        #expect(first.taskIdentifier == 1 && second.taskIdentifier == 2)
        first.taskDescription = "mine"
        #expect(first.taskDescription == "mine" && second.taskDescription == nil)
        #expect(first.priority == SessionTask.defaultPriority)
        for (given, taken) in [(0.8, 0.75), (1, 1), (-3, 0), (.nan, 0.5), (0.3, 0.25), (.infinity, 1)] as [(Float, Float)] {
            first.priority = given
            #expect(first.priority == taken, "\(given)")
        }
        #expect(first.operation.queuePriority == .veryHigh)
        #expect(
            second.countOfBytesExpectedToSend == 4 && first.countOfBytesExpectedToSend == SessionTask.transferSizeUnknown)
        #expect(first.description.hasSuffix("1: suspended, GET \(fixture.server.url("/text"))>"), "\(first)")
        second.resume()
        try await second.finished()
        #expect(second.countOfBytesSent == 4)
    }

    @Test func `upload tasks send files, data and streams`() async throws {
        let file = fixture.file("up.txt")
        try Data("from a file".utf8).write(to: file)
        var streamed = fixture.request("/echo", method: "PUT")
        streamed.httpBodyStream = InputStream(data: Data("a stream".utf8))
        let tasks = [
            manager.uploadTask(with: fixture.request("/echo"), fromFile: file),
            manager.uploadTask(with: fixture.request("/echo", method: "PATCH"), from: Data("data".utf8)),
            manager.uploadTask(withStreamedRequest: streamed),
        ]
        #expect(manager.uploadTasks == tasks && manager.dataTasks.isEmpty)
        for task in tasks {
            task.resume()
            try await task.finished()
        }
        let requests = fixture.server.requests
        #expect(requests.map(\.method) == ["POST", "PATCH", "PUT"])
        #expect(requests.map(\.text) == ["from a file", "data", "a stream"])
        #expect(requests[0].headers["Content-Type"] == "text/plain" && requests[0].headers["Content-Length"] == "11")
        let missing = manager.uploadTask(with: fixture.request("/echo"), fromFile: fixture.file("none"))
        missing.resume()
        #expect(await missing.end() != nil && fixture.server.requests.count == 3)
    }

    @Test func `progress is reported in both directions`() async throws {
        let sent = Locked<Int64>(0)
        let received = Locked<Int64>(0)
        let task = manager.dataTask(
            with: fixture.request("/text"),
            downloadProgress: { progress in received.withLock { $0 = progress.bytesReceived } }, completionHandler: nil)
        let upload = manager.uploadTask(
            with: fixture.request("/echo"), from: Data(count: 100_000),
            progress: { progress in sent.withLock { $0 = progress.bytesSent } }, completionHandler: nil)
        task.resume()
        upload.resume()
        try await task.finished()
        try await upload.finished()
        try await waitUntil("the progress") { sent.withLock { $0 } == 100_000 && received.withLock { $0 } == 5 }
    }

    @Test func `a task's Progress controls the task`() async throws {
        let task = manager.dataTask(with: fixture.request("/text"))
        let progress = task.progress
        progress.resume()
        try await task.finished()
        try await waitUntil("the progress") { progress.completedUnitCount == 5 }
        let other = manager.dataTask(with: fixture.request("/text"))
        other.progress.cancel()
        #expect(await other.end() is URLError)
    }

    // MARK: Operations

    @Test func `a task's operation can have and be a dependency`() async throws {
        let first = manager.dataTask(with: fixture.request("/text"))
        let second = manager.dataTask(with: fixture.request("/echo"))
        second.operation.addDependency(first.operation)
        second.resume()
        #expect(fixture.server.requests.isEmpty)
        first.resume()
        try await second.finished()
        #expect(fixture.server.requests.map(\.path) == ["/text", "/echo"])
    }

    @Test func `a task in a custom queue waits there until it is resumed`() async throws {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let tasks = (0..<20).map { _ in manager.dataTask(with: fixture.request("/text")) }
        for task in tasks { queue.addOperation(task.operation) }
        #expect(queue.queuedOperationCount == 20 && fixture.server.requests.isEmpty)
        for task in tasks { task.resume() }
        for task in tasks { try await task.finished() }
        #expect(fixture.server.requests.count == 20 && manager.queuedOperationCount == 0)
    }

    @Test func `tasks can be members of a batch`() async throws {
        let tasks = (0..<5).map { _ in manager.dataTask(with: fixture.request("/text")) }
        let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
        let batch = URLConnectionOperation.batch(of: tasks.map(\.operation), progress: nil) { operations in
            continuation.yield(operations.count)
            continuation.finish()
        }
        manager.enqueue(batch)
        #expect(fixture.server.requests.isEmpty)
        for task in tasks { task.resume() }
        #expect(await stream.first { _ in true } == 5)
        #expect(fixture.server.requests.count == 5)
    }
}
