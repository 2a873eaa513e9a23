import ConvoyCache
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Handlers that receive responses before they are stored.
@Suite struct CacheResponseHandlerTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager
    let cache = HTTPCache()

    init() throws {
        server = try TestServer()
        server.route("/x", .text("body").header("Cache-Control", "max-age=600"))
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache
    }

    private func get(
        _ handler: URLConnectionOperation.CacheResponseHandler? = nil
    ) async throws -> HTTPRequestOperation {
        let operation = try manager.makeOperation(.get, "x")
        operation.cacheResponseHandler = handler
        manager.enqueue(operation)
        try await operation.finished()
        return operation
    }

    @Test func `the handler can refuse to store the response`() async throws {
        let seen = Locked<[String]>([])
        _ = try await get { operation, candidate in
            seen.withLock { $0.append("\(operation.request.url?.path ?? "") \(candidate.statusCode) \(candidate.length)") }
            return nil
        }
        #expect(seen.withLock { $0 } == ["/x 200 4"])
        #expect(try await get().cacheUse == nil)
        #expect(try await get().cacheUse == .fresh)
    }

    @Test func `the handler reads the body and runs before the operation finishes`() async throws {
        let body = Locked<Data?>(nil)
        let wasFinished = Locked(true)
        _ = try await get { operation, candidate in
            body.withLock { $0 = candidate.data }
            wasFinished.withLock { $0 = operation.isFinished }
            return candidate
        }
        #expect(body.withLock { $0 } == Data("body".utf8))
        #expect(!wasFinished.withLock { $0 })
        #expect(try await get().cacheUse == .fresh)
    }

    @Test func `a cancelled operation does not wait for the handler`() async throws {
        let gate = DispatchSemaphore(value: 0)
        let asked = Locked(false)
        let operation = try manager.makeOperation(.get, "x")
        operation.cacheResponseHandler = { _, candidate in
            asked.withLock { $0 = true }
            gate.wait()
            return candidate
        }
        manager.enqueue(operation)
        while !asked.withLock({ $0 }) { await Task.yield() }
        operation.cancel()
        try? await operation.finished()
        #expect((operation.error as? URLError)?.code == .cancelled)
        gate.signal()
    }

    @Test func `the handler is released when the operation has finished`() async throws {
        final class Token: Sendable {}
        weak var weakToken: Token?
        do {
            let token = Token()
            weakToken = token
            let operation = try await get { _, candidate in
                withExtendedLifetime(token) { candidate }
            }
            #expect(operation.cacheResponseHandler == nil)
        }
        while weakToken != nil { await Task.yield() }
    }
}
