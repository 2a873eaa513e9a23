import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Promise 7: completion groups balance on every path, and a batch's completion runs once, after every member's own
/// completion handler.
@Suite struct GroupAndBatchTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        server.route("GET", "/broken", .text("x").resetBeforeHead())
    }

    private final class Log: Sendable {
        let entries = Locked<[String]>([])
        let completed = Signal()
        func add(_ entry: String) { entries.withLock { $0.append(entry) } }
        var all: [String] { entries.withLock { $0 } }
    }

    private func member(_ path: String, _ name: String, _ log: Log) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url(path)))
        operation.completionQueue = testQueue
        operation.setCompletionHandler(
            success: { _, _ in log.add("\(name) succeeded") }, failure: { _, _ in log.add("\(name) failed") })
        return operation
    }

    private func batch(_ members: [HTTPRequestOperation], _ log: Log) -> [Operation] {
        URLConnectionOperation.batch(
            of: members, completionQueue: testQueue,
            progress: { done, total in log.add("\(done)/\(total)") },
            completion: { operations in
                log.add("completed \(operations.count)")
                log.completed.fire()
            })
    }

    @Test(arguments: QueueKind.allCases)
    func `a batch with failing, cancelled and duplicate members completes once`(kind: QueueKind) throws {
        let log = Log()
        let (good, bad, cancelled) = (
            member("/quick", "good", log), member("/broken", "bad", log), member("/quick", "cancelled", log)
        )
        let operations = batch([good, bad, cancelled, good], log)
        #expect(operations.count == 4)
        let after = BlockOperation { log.add("after") }
        after.addDependency(try #require(operations.last))
        let queue = kind.make()
        queue.isSuspended = true
        queue.addOperations(operations + [after], waitUntilFinished: false)
        cancelled.cancel()
        queue.isSuspended = false
        #expect(log.completed.wait())
        queue.waitUntilAllOperationsAreFinished()
        testQueue.sync {}
        let all = log.all
        #expect(Set(all.prefix(6)) == ["good succeeded", "bad failed", "cancelled failed", "1/3", "2/3", "3/3"])
        #expect(all.filter { $0.contains("/") } == ["1/3", "2/3", "3/3"])
        #expect(Array(all.dropFirst(6)) == ["completed 3", "after"])
    }

    @Test(arguments: QueueKind.allCases) func `an empty batch completes without operations`(kind: QueueKind) {
        let log = Log()
        let operations = batch([], log)
        #expect(operations.count == 1)
        kind.make().addOperations(operations, waitUntilFinished: true)
        #expect(log.all == ["completed 0"])
    }

    @Test func `a batch that is never enqueued retains nothing`() {
        let log = Log()
        weak var leftMember: HTTPRequestOperation?
        weak var leftEnd: Operation?
        do {
            let operations = batch([member("/quick", "a", log)], log)
            leftMember = operations.first as? HTTPRequestOperation
            leftEnd = operations.last
        }
        #expect(leftMember == nil && leftEnd == nil)
        #expect(log.all.isEmpty)
    }

    @Test func `an operation can be in two batches`() {
        let log = Log()
        let shared = member("/quick", "shared", log)
        let (one, two) = (batch([shared], log), batch([shared, member("/quick", "other", log)], log))
        let queue = RequestOperationQueue()
        queue.addOperations(one + two.dropFirst(), waitUntilFinished: false)
        #expect(log.completed.wait())
        #expect(log.completed.wait())
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.all.filter { $0.hasPrefix("completed") }.sorted() == ["completed 1", "completed 2"])
    }

    @Test func `handlers can be set after batching`() {
        let log = Log()
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/quick")))
        operation.completionQueue = testQueue
        let operations = batch([operation], log)
        operation.completionBlock = { log.add("late") }
        RequestOperationQueue().addOperations(operations, waitUntilFinished: false)
        #expect(log.completed.wait())
        #expect(log.all == ["late", "1/1", "completed 1"])
    }

    @Test func `a member that has already finished counts as completed`() {
        let log = Log()
        let operation = member("/quick", "early", log)
        let delivered = Signal()
        operation.whenDelivered { delivered.fire() }
        operation.start()
        #expect(delivered.wait())
        let operations = batch([operation], log)
        RequestOperationQueue().addOperations(Array(operations.suffix(1)), waitUntilFinished: true)
        #expect(log.all == ["early succeeded", "1/1", "completed 1"])
    }

    @Test(arguments: QueueKind.allCases) func `a cancelled batch finishes without calling its completion`(
        kind: QueueKind
    ) throws {
        let log = Log()
        let only = member("/quick", "a", log)
        let delivered = Signal()
        only.whenDelivered { delivered.fire() }
        let operations = batch([only], log)
        let end = try #require(operations.last)
        let queue = kind.make()
        queue.isSuspended = true
        queue.addOperations(operations, waitUntilFinished: false)
        end.cancel()
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(delivered.wait())
        testQueue.sync {}
        #expect(end.isFinished)
        #expect(log.all == ["a succeeded"])
    }

    // MARK: Groups

    @Test func `an operation leaves its completion group on every path`() {
        let group = DispatchGroup()
        let queue = OperationQueue()
        let paths: [(HTTPRequestOperation) -> Void] = [
            { queue.addOperation($0) },
            { $0.cancel() },
            {
                $0.cancel()
                $0.start()
            },
            {
                queue.addOperation($0)
                $0.cancel()
            },
            {
                $0.pause()
                $0.cancel()
            },
            { $0.start() },
        ]
        for path in paths {
            for name in ["/quick", "/broken", "/nowhere"] {
                let operation = HTTPRequestOperation(request: URLRequest(url: server.url(name)))
                operation.completionGroup = group
                operation.completionQueue = testQueue
                operation.completionBlock = {}
                path(operation)
            }
        }
        #expect(group.wait(timeout: .now() + 100) == .success)
        // An operation that is never started blocks nothing, and can be released.
        do {
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/quick")))
            operation.completionGroup = group
        }
        #expect(group.wait(timeout: .now()) == .success)
    }

    @Test func `an operation is in its completion group from the moment it is enqueued`() throws {
        let group = DispatchGroup()
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/quick")))
        operation.completionGroup = group
        operation.completionQueue = testQueue
        operation.completionBlock = {}
        queue.addOperation(operation)
        #expect(group.wait(timeout: .now()) == .timedOut)
        queue.isSuspended = false
        #expect(group.wait(timeout: .now() + 100) == .success)
    }
}
