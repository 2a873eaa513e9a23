import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests of retry policies with servers that become unavailable and then available again.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)")) struct RestartTests {
    /// The number of operations that were refused a connection, and of those waiting at the gate.
    private final class Refusals: Sendable {
        private let counts = Locked((refused: 0, all: 0))
        let isNoticed = Signal()
        var refused: Int { counts.withLock { $0.refused } }
        var all: Int { counts.withLock { $0.all } }

        func add(_ event: RetryEvent) {
            counts.withLock { counts in
                counts.all += 1
                if case .error(let error) = event.reason, error.code == .cannotConnectToHost { counts.refused += 1 }
            }
            isNoticed.fire()
        }
    }

    @Test func `three hundred files arrive despite a server restart of three seconds`() throws {
        let nginx = try Nginx()
        let content = Data(repeating: 7, count: 50_000)
        for number in 0..<300 { try nginx.add(content, as: "\(number)") }
        let manager = HTTPRequestOperationManager()
        manager.completionQueue = testQueue
        manager.responseSerializer = HTTPResponseSerializer()
        manager.retryPolicy = RetryPolicy(maximumRetryCount: 5)
        (manager.operationQueue as? RequestOperationQueue)?.maxConcurrentOperationCountPerHost = 8
        let refusals = Refusals()
        let (some, all) = (Signal(), DispatchGroup())
        let arrived = Atomic<Int>(0)
        let failures = Log()
        manager.completionGroup = all
        let operations = (0..<300).map { manager.makeOperation(request: URLRequest(url: nginx.url("\($0)"))) }
        for (number, operation) in operations.enumerated() {
            operation.retryHandler = { refusals.add($1) }
            operation.setCompletionHandler(
                success: { _, object in
                    if (object as? Data) != content { failures.add("\(number): other bytes") }
                    if arrived.add(1, ordering: .relaxed).newValue == 20 { some.fire() }
                },
                failure: { operation, error in failures.add("\(number) after \(operation.retryCount): \(error)") })
        }
        manager.enqueue(operations)
        #expect(some.wait())
        nginx.halt()
        let restart = Guarded<Result<Void, any Error>?>(nil)
        DispatchQueue.global().asyncAfter(deadline: .now() + 3) {
            let result = Result { try nginx.restart() }
            restart.withLock { $0 = result }
        }
        #expect(refusals.isNoticed.wait())
        #expect(all.wait(timeout: .now() + 100) == .success)
        try #require(restart.withLock { $0 }).get()
        #expect(failures.all.isEmpty && arrived.load(ordering: .relaxed) == 300)
        // All operations have succeeded, so each call of the handler was followed by a retry. Waits at the gate are not
        // retries.
        let retries = operations.map(\.retryCount).reduce(0, +)
        #expect(eventually { refusals.all == retries }, "\(refusals.all) calls for \(retries) retries")
        // Eight operations were in progress when the first one was refused. Afterwards, only one probes the host.
        #expect(refusals.refused < 60, "\(refusals.refused) tries")
    }

    @Test func `an unreachable host fails all operations in about the time of one`() throws {
        let url = URL(string: "http://127.0.0.1:\(try LoopbackPort.free())/")
        let queue = RequestOperationQueue()
        var policy = RetryPolicy(maximumRetryCount: 3)
        policy.initialDelay = 0.1
        let probes = try (0..<100).map { _ in
            let probe = Probe(try #require(url))
            probe.operation.retryPolicy = policy
            return probe
        }
        let begun = ContinuousClock.now
        queue.addOperations(probes.map(\.operation), waitUntilFinished: false)
        for probe in probes {
            #expect(probe.outcome()?.count == 2)
            #expect(probe.error?.code == .cannotConnectToHost && probe.operation.retryCount == 3)
            #expect(probe.operation.retryRefusal == .tooManyRetries)
        }
        #expect(queue.closedGates.isEmpty)
        // The test measures real time, because refusals come from the system. Serially, the operations would take about
        // fifty times as long as the longest wait of one.
        #expect(ContinuousClock.now - begun < .seconds(policy.longestWait) * 20)
    }
}
