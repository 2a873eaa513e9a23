import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import XCTest

@testable import ConvoyOperations

/// Promise 8: when its handlers have run, an operation holds no closure, and the library holds no operation. Counts objects
/// in the whole process, and therefore uses XCTest, which runs tests serially.
final class ReleaseTests: XCTestCase {
    func testARetainedOperationRetainsNoClosuresAfterItsHandlersHaveRun() throws {
        final class Token: Sendable { func use() {} }
        let server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        for isCancelled in [false, true] {
            weak var left: Token?
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/quick")))
            operation.completionQueue = testQueue
            let delivered = Signal()
            do {
                let token = Token()
                left = token
                operation.setCompletionHandler(success: { _, _ in token.use() }, failure: { _, _ in token.use() })
                operation.completionBlock = { token.use() }
                operation.downloadProgressHandler = { _, _, _ in token.use() }
                operation.uploadProgressHandler = { _, _, _ in token.use() }
                operation.redirectHandler = { _, request, _ in
                    token.use()
                    return request
                }
                operation.retryHandler = { _, _ in token.use() }
                operation.prepare = { _ in token.use() }
                operation.keepObserving(.state, on: testQueue) { _, _ in token.use() }
                operation.whenDelivered { [token] in
                    token.use()
                    delivered.fire()
                }
            }
            if isCancelled { operation.cancel() }
            RequestOperationQueue().addOperation(operation)
            XCTAssertTrue(delivered.wait())
            try eventually(timeout: 10, "the closures to be released") { left == nil }
            XCTAssertTrue(operation.isFinished && operation.completionBlock == nil && operation.dependencies.isEmpty)
        }
    }

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
}
