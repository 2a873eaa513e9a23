import ConvoyCache
import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Handlers that use their caller, release it, or do not return.
@Suite struct CacheCalledBackTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("/x", .text("body").header("Cache-Control", "max-age=600").header("Set-Cookie", "a=1"))
        server.route("/y", .text("other").header("Cache-Control", "max-age=600").header("Set-Cookie", "b=1"))
    }

    private func manager() -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        return manager
    }

    @Test func `a cache's own handler can empty the cache and load from it`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-called-back")
        for cache in [HTTPCache(), try HTTPCache(directory: directory.file("cache"))] {
            let manager = manager()
            manager.cache = cache
            let (url, other) = (server.url("/x"), server.url("/y"))
            cache.responseHandler = { candidate in
                if candidate.url?.path == "/x" {
                    // The response of the inner operation waits for the handler as well.
                    let inner = manager.makeOperation(request: URLRequest(url: other))
                    let done = DispatchSemaphore(value: 0)
                    inner.completionBlock = { done.signal() }
                    manager.enqueue(inner)
                    done.wait()
                }
                cache.removeAll()
                cache.remove(for: url)
                cache.removeStored(since: .distantPast)
                _ = cache.currentDiskUsage
                #expect(throws: Never.self) { try cache.flush() }
                cache.responseHandler = cache.responseHandler
                return candidate
            }
            let operation = manager.enqueue(manager.makeOperation(request: URLRequest(url: url)))
            try await operation.finished()
            #expect(operation.responseString == "body")
            cache.responseHandler = nil
        }
    }

    @Test func `an acceptance handler can set cookies and release the manager`() async throws {
        let store = CookieStore()
        let held = Locked<HTTPRequestOperationManager?>(manager())
        held.withLock { $0?.cookieStore = store }
        let host = try #require(server.url.host)
        store.acceptanceHandler = { [weak store] cookie, _ in
            store?.removeAll()
            store?.setCookie(Cookie(name: "nested", value: "1", domain: host))
            store?.acceptanceHandler = nil
            held.withLock { $0 = nil }
            return true
        }
        let operation = try #require(
            held.withLock { manager in
                manager.map { $0.enqueue($0.makeOperation(request: URLRequest(url: server.url("/x")))) }
            })
        try await operation.finished()
        #expect(operation.responseString == "body")
        #expect(store.cookies.map(\.name) == ["nested", "a"])
    }

    @Test(arguments: [true, false])
    func `an operation that times out does not wait for a handler`(isCookie: Bool) async throws {
        let gate = DispatchSemaphore(value: 0)
        let manager = manager()
        let asked = Locked(0)
        let operation = manager.makeOperation(request: URLRequest(url: server.url("/x")))
        if isCookie {
            let store = CookieStore()
            store.acceptanceHandler = { _, _ in
                asked.withLock { $0 += 1 }
                gate.wait()
                return true
            }
            operation.cookieStore = store
        } else {
            operation.cache = HTTPCache()
            operation.cacheResponseHandler = { _, candidate in
                asked.withLock { $0 += 1 }
                gate.wait()
                return candidate
            }
        }
        operation.totalTimeout = 0.5
        let ends = Locked(0)
        operation.setCompletionHandler(
            success: { _, _ in ends.withLock { $0 += 10 } }, failure: { _, _ in ends.withLock { $0 += 1 } })
        manager.enqueue(operation)
        await #expect(throws: URLError.self) { try await operation.finished() }
        #expect((operation.error as? URLError)?.code == .timedOut && asked.withLock { $0 } == 1)
        gate.signal()
        // Requests on the same network thread come after all effects of the handler's return.
        let next = manager.enqueue(manager.makeOperation(request: URLRequest(url: server.url("/y"))))
        try await next.finished()
        #expect((operation.error as? URLError)?.code == .timedOut && ends.withLock { $0 } <= 1)
    }
}
