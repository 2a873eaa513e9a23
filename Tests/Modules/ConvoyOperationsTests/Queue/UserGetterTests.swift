import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that properties of a user's class are not read on a network thread, which runs no user code.
@Suite struct UserGetterTests {
    /// The properties read on a network thread, and the number read elsewhere.
    private final class Places: Sendable {
        private let state = Locked((network: Set<String>(), elsewhere: 0))
        var onNetworkThread: Set<String> { state.withLock { $0.network } }
        var elsewhere: Int { state.withLock { $0.elsewhere } }

        func note<Value>(_ value: Value, _ name: String = #function) -> Value {
            let isOnNetwork = NetworkThread.isCurrent
            state.withLock { state in
                if isOnNetwork { state.network.insert(name) } else { state.elsewhere += 1 }
            }
            return value
        }
    }

    private static let places = Places()

    private final class UserRequest: HTTPRequestOperation, @unchecked Sendable {
        override var isReady: Bool { places.note(super.isReady) }
        override var isExecuting: Bool { places.note(super.isExecuting) }
        override var isFinished: Bool { places.note(super.isFinished) }
        override var isCancelled: Bool { places.note(super.isCancelled) }
    }

    private final class UserBlock: ScheduledOperation, @unchecked Sendable {
        override var isReady: Bool { places.note(super.isReady) }
        override var isFinished: Bool { places.note(super.isFinished) }
        override var isCancelled: Bool { places.note(super.isCancelled) }
        override func main() {}
    }

    private final class ForeignOperation: Operation, @unchecked Sendable {
        override var isReady: Bool { places.note(super.isReady) }
        override var isFinished: Bool { places.note(super.isFinished) }
        override var isCancelled: Bool { places.note(super.isCancelled) }
        override func main() {}
    }

    enum Kind: CaseIterable, Sendable { case request, block, foreign }

    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/x", .text("x"))
        server.route("GET", "/tired", inTurn: [.status(503), .text("well")])
    }

    private func make(_ kind: Kind) -> Operation {
        switch kind {
        case .request: UserRequest(request: URLRequest(url: server.url("/x")))
        case .block: UserBlock()
        case .foreign: ForeignOperation()
        }
    }

    private func expectEnd(of operations: [Operation]) {
        #expect(eventually { operations.allSatisfy { $0.isFinished } })
        #expect(Self.places.onNetworkThread.isEmpty && Self.places.elsewhere > 0, "\(Self.places.onNetworkThread)")
    }

    @Test(arguments: Kind.allCases, [1, 100]) func `user getters run on another thread when a dependency has finished`(
        kind: Kind, slots: Int
    ) {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = slots
        var operations: [Operation] = []
        for _ in 0..<20 {
            let request = HTTPRequestOperation(request: URLRequest(url: server.url("/x")))
            let dependents = (0..<2).map { _ in make(kind) }
            for dependent in dependents { dependent.addDependency(request) }
            operations += dependents + [request]
        }
        queue.addOperations(operations, waitUntilFinished: false)
        expectEnd(of: operations)
        #expect(drains(queue))
    }

    @Test(arguments: Kind.allCases) func `user getters run on another thread when another operation returns its slot`(
        kind: Kind
    ) {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let operations = (0..<40).map { number in
            number % 2 == 0 ? HTTPRequestOperation(request: URLRequest(url: server.url("/x"))) : make(kind)
        }
        queue.addOperations(operations, waitUntilFinished: false)
        expectEnd(of: operations)
        #expect(drains(queue))
    }

    @Test(arguments: [true, false]) func `user getters run on another thread in a Foundation queue`(isMixed: Bool) {
        let queue = OperationQueue()
        let other = isMixed ? RequestOperationQueue() : queue
        var operations: [Operation] = []
        for _ in 0..<20 {
            let request = HTTPRequestOperation(request: URLRequest(url: server.url("/x")))
            let dependents = [make(.request), make(.block)]
            for dependent in dependents { dependent.addDependency(request) }
            queue.addOperations(dependents, waitUntilFinished: false)
            other.addOperation(request)
            operations += dependents + [request]
        }
        expectEnd(of: operations)
        #expect(drains(queue) && drains(other))
    }

    @Test(arguments: [true, false]) func `user getters run on another thread on retry, pause and cancellation`(
        isQueued: Bool
    ) throws {
        let operations = (0..<10).map { number in
            let operation = UserRequest(request: URLRequest(url: server.url("/tired")))
            var policy = RetryPolicy()
            (policy.initialDelay, policy.maximumGateDuration) = (0, 0)
            operation.retryPolicy = policy
            return operation
        }
        let queue = RequestOperationQueue()
        for operation in operations { if isQueued { queue.addOperation(operation) } else { operation.start() } }
        for operation in operations.prefix(5) { operation.pause() }
        operations.last?.cancel()
        for operation in operations { operation.resume() }
        let delivered = DispatchGroup()
        for operation in operations {
            delivered.enter()
            operation.whenDelivered { delivered.leave() }
        }
        #expect(delivered.wait(timeout: .now() + patience) == .success)
        expectEnd(of: operations)
        #expect(operations.prefix(9).allSatisfy { $0.error == nil } && drains(queue))
    }
}
