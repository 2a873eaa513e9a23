import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// The capabilities of a user's subclass. Like user code, this file can use only public declarations.
@Suite struct SubclassTests {
    /// An operation that counts the lines of its response, and fails if there are too many.
    final class LineCount: HTTPRequestOperation, @unchecked Sendable {
        struct TooMany: Error { let count: Int }

        // The test sets the maximum before the start.
        var most = Int.max
        let heard = Locked<[String]>([])

        override func responseObject(for response: HTTPURLResponse?, data: Data?) throws -> Any? {
            heard.withLock { $0.append("\(response?.statusCode ?? 0) with \(data?.count ?? -1)") }
            guard let body = try super.responseObject(for: response, data: data) as? Data else { return nil }
            let count = body.split(separator: UInt8(ascii: "\n")).count
            guard count <= most else { throw TooMany(count: count) }
            return count
        }

        override func copySettings(to copy: URLConnectionOperation) {
            super.copySettings(to: copy)
            (copy as? Self)?.most = most
        }

        override func start() {
            heard.withLock { $0.append("start") }
            super.start()
        }

        override func cancel() {
            heard.withLock { $0.append("cancel") }
            super.cancel()
        }
    }

    /// A user's manager that creates operations of the user's own class.
    final class Manager: HTTPRequestOperationManager, @unchecked Sendable {
        override func makeOperation(request: URLRequest) -> HTTPRequestOperation {
            let operation = LineCount(request: request)
            operation.responseSerializer = HTTPResponseSerializer()
            return operation
        }
    }

    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/lines", .text("a\nb\nc"))
        server.route("GET", "/missing", .text("none", status: 404))
    }

    private func operation(_ path: String = "/lines") -> LineCount {
        let operation = LineCount(request: URLRequest(url: server.url(path)))
        operation.completionQueue = testQueue
        return operation
    }

    @Test func `a subclass processes the response`() async throws {
        let operation = operation()
        #expect(try await operation.value(as: Int.self) == 3)
        #expect(operation.heard.withLock { $0 } == ["start", "200 with 5"])
        #expect(operation.responseData?.count == 5)
    }

    @Test func `an error thrown by a subclass is the operation's error`() async throws {
        let operation = operation()
        operation.most = 2
        await #expect(throws: LineCount.TooMany.self) { try await operation.finished() }
        #expect(operation.responseObject == nil && operation.responseData?.count == 5)
        let missing = self.operation("/missing")
        await #expect(throws: NSError.self) { try await missing.finished() }
        #expect(missing.heard.withLock { $0 } == ["start", "404 with 4"])
    }

    @Test func `the properties of a subclass survive copying`() async throws {
        let operation = operation()
        operation.most = 2
        try? await operation.finished()
        let copy = operation.makeCopy()
        #expect(copy.most == 2 && copy.completionQueue === testQueue)
        await #expect(throws: LineCount.TooMany.self) { try await copy.finished() }
        let untyped = try #require(operation.copy() as? LineCount)
        #expect(untyped.most == 2)
    }

    @Test func `a manager creates a subclass, with handlers or awaited`() async throws {
        let manager = Manager(baseURL: server.url("/"))
        let operation = try manager.makeOperation(.get, "lines")
        operation.completionQueue = testQueue
        let lines: Int = try await manager.enqueue(operation).value()
        #expect(lines == 3)
        let awaited = try await manager.response(.get, "lines")
        #expect(awaited.responseObject as? Int == 3)
    }

    @Test func `a subclass of the transfer-only class can be observed, paused and cancelled`() async throws {
        final class Transfer: URLConnectionOperation, @unchecked Sendable {
            let heard = Locked<[String]>([])
            override func pause() {
                heard.withLock { $0.append("pause") }
                super.pause()
            }
            override func resume() {
                heard.withLock { $0.append("resume") }
                super.resume()
            }
        }
        let transfer = Transfer(request: URLRequest(url: server.url("/lines")))
        transfer.pause()
        transfer.resume()
        try await transfer.finished()
        #expect(transfer.heard.withLock { $0 } == ["pause", "resume"] && transfer.responseString == "a\nb\nc")
    }
}
