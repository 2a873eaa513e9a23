import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import XCTest

@testable import ConvoyOperations

/// Counts of objects in the whole process. Uses XCTest, which runs tests serially.
final class EnduranceTests: XCTestCase {
    /// Promise 8: a finished operation and its closures leave nothing behind.
    func testTenThousandOperationsLeaveNothingBehind() throws {
        final class Token: Sendable {
            static let count = Atomic<Int>(0)
            init() { Self.count.add(1, ordering: .relaxed) }
            deinit { Self.count.subtract(1, ordering: .relaxed) }
            func use() {}
        }
        final class Counted: HTTPRequestOperation, @unchecked Sendable {
            static let count = Atomic<Int>(0)
            private let token = Token()
            required init(request: URLRequest) {
                super.init(request: request)
                change { $0.holder.transport = NetworkThreadBox.thread }
                Self.count.add(1, ordering: .relaxed)
            }
            deinit { Self.count.subtract(1, ordering: .relaxed) }
        }
        final class CountingManager: HTTPRequestOperationManager, @unchecked Sendable {
            override func makeOperation(request: URLRequest) -> HTTPRequestOperation {
                let operation = Counted(request: request)
                operation.completionQueue = completionQueue
                operation.completionGroup = completionGroup
                return operation
            }
        }
        let server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        server.route("GET", "/broken", .text("x").resetBeforeHead())
        server.redirect("/moved", to: "/quick")
        let group = DispatchGroup()
        // The shared thread exists forever after its first use.
        let _: Bool = NetworkThread.shared.perform {}
        let descriptors = ProcessMeters.openDescriptors
        do {
            let manager = CountingManager(baseURL: server.url)
            manager.completionQueue = testQueue
            manager.completionGroup = group
            manager.operationQueue.maxConcurrentOperationCount = 32
            let ended = Atomic<Int>(0)
            let paths = ["quick", "quick", "quick", "broken", "moved", "nowhere", "::"]
            for number in 0..<10_000 {
                let token = Token()
                let operation = manager.get(
                    paths[number % paths.count],
                    success: { _, _ in
                        token.use()
                        ended.add(1, ordering: .relaxed)
                    },
                    failure: { _, _ in
                        token.use()
                        ended.add(1, ordering: .relaxed)
                    })
                operation.downloadProgressHandler = { _, _, _ in token.use() }
                operation.redirectHandler = { _, request, _ in
                    token.use()
                    return request
                }
                operation.keepObserving(.state) { [token] _, _ in token.use() }
                switch number % 50 {
                case 0: operation.cancel()
                case 1:
                    operation.pause()
                    operation.resume()
                default: break
                }
            }
            XCTAssertEqual(group.wait(timeout: .now() + 120), .success)
            XCTAssertEqual(ended.load(ordering: .relaxed), 10_000)
            XCTAssertEqual((manager.operationQueue as? RequestOperationQueue)?.queuedOperationCount, 0)
        }
        testQueue.sync {}
        // The last references are released with the blocks that retained them, on other queues.
        try eventually(timeout: 20) { Counted.count.load(ordering: .relaxed) == 0 }
        try eventually(timeout: 20) { Token.count.load(ordering: .relaxed) == 0 }
        NetworkThreadBox.release()
        server.stop()
        try eventually(timeout: 20, "descriptors to be closed: \(ProcessMeters.descriptorTargets)") {
            ProcessMeters.openDescriptors <= descriptors
        }
    }

    /// The network thread of the test above, with connections that end with it.
    private enum NetworkThreadBox {
        static let box = Locked<(any Transport)?>(nil)
        static var thread: any Transport {
            box.withLock { box in
                let thread = box ?? NetworkThread()
                box = thread
                return thread
            }
        }
        static func release() { box.withLock { $0 = nil } }
    }

    /// Only handlers on the main queue wait for the main thread.
    func testTheWholeFlowWorksWhileTheMainThreadIsBlocked() throws {
        XCTAssertTrue(Thread.isMainThread)
        let server = try TestServer()
        server.route("POST", "/login", .json(text: #"{"token": "abc"}"#))
        server.route("GET", "/me", .json(text: #"{"name": "ada"}"#))
        server.servePattern(count: 5_000_000, at: "/file", etag: "\"v1\"")
        server.redirect("/moved", to: "/me")
        struct User: Decodable, Sendable { var name: String }

        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = testQueue
        let login = try manager.makeOperation(.post, "login", parameters: ["user": "ada"])
        let profile = try manager.makeOperation(.get, "me")
        profile.addDependency(login)
        profile.prepare = { request in
            let token = (login.responseObject as? [String: Any])?["token"] as? String ?? "none"
            request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        }
        let done = DispatchGroup()
        done.enter()
        let batch = URLConnectionOperation.batch(
            of: [login, profile], completionQueue: testQueue, completion: { _ in done.leave() })
        manager.enqueue(batch)

        done.enter()
        let download = HTTPRequestOperation(request: URLRequest(url: server.url("/file")))
        download.completionQueue = testQueue
        download.onFirstBytes {
            download.pause()
            download.resume()
        }
        download.completionBlock = { done.leave() }
        manager.enqueue(download)

        done.enter()
        Task.detached {
            let user: User? = try? await manager.get("moved")
            XCTAssertEqual(user?.name, "ada")
            done.leave()
        }
        // The main thread waits here, and serves no queue in the meantime.
        XCTAssertEqual(done.wait(timeout: .now() + 30), .success)
        XCTAssertEqual(download.responseData?.count, 5_000_000)
        XCTAssertEqual((profile.responseObject as? [String: String])?["name"], "ada")
        XCTAssertTrue(server.requests("GET", "/me").contains { $0.headers["Authorization"] == "Bearer abc" })
    }
}
