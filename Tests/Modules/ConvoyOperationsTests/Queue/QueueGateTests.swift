import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyOperations

/// The operations that a closed gate holds back, the duration of the wait, and the notifications, in simulated time.
struct QueueGateTests {
    let clock = ManualClock()
    let queue: RequestOperationQueue

    init() { queue = RequestOperationQueue(clock: clock) }

    private func waiting(
        _ host: String = "a", _ started: (@Sendable (PausableTestOperation) -> Void)? = nil
    )
        -> PausableTestOperation
    {
        PausableTestOperation(host: host, waitsAtGate: true, whenStarted: started)
    }

    private func close(_ host: String = "a", until seconds: Double) {
        queue.closeGate(forHost: host, until: UInt64(seconds * 1e9))
    }

    /// The closed gates, each with the seconds until it opens.
    private var closed: [String: Int] {
        Dictionary(
            uniqueKeysWithValues: queue.closedGates.map {
                ($0.host, Int($0.opensAt.timeIntervalSinceNow.rounded()))
            })
    }

    @Test func `a closed gate holds only the operations that wait at it, until it opens`() {
        queue.maxConcurrentOperationCount = 3
        let first = waiting()
        queue.addOperation(first)
        close(until: 2)
        let (held, cancelled, passing, other) = (
            waiting(), waiting(), PausableTestOperation(host: "a"), waiting("b")
        )
        queue.addOperations([held, cancelled, passing, other], waitUntilFinished: false)
        #expect(first.isExecuting && !held.isExecuting && passing.isExecuting && other.isExecuting)
        first.finish()
        #expect(!held.isExecuting)
        cancelled.cancel()
        #expect(cancelled.isFinished)
        clock.advance(by: 1.5)
        #expect(!held.isExecuting)
        clock.advance(by: 0.5)
        #expect(held.isExecuting)
        #expect(queue.closedGates.isEmpty)
        for operation in [held, passing, other] { operation.finish() }
        #expect(drains(queue))
    }

    @Test(arguments: [[3.0, 1.0], [1.0, 3.0]])
    func `the later of two closing times applies, regardless of their order`(deadlines: [Double]) {
        for deadline in deadlines { close(until: deadline) }
        let operation = waiting()
        queue.addOperation(operation)
        clock.advance(by: 2)
        #expect(!operation.isExecuting)
        clock.advance(by: 1)
        #expect(operation.isExecuting)
        operation.finish()
    }

    @Test func `the system clock opens a gate`() {
        let queue = RequestOperationQueue()
        let operation = waiting { $0.finish() }
        queue.closeGate(forHost: "a", until: MonotonicClock().now + 20_000_000)
        queue.addOperation(operation)
        #expect(drains(queue))
    }

    @Test func `the queue lists its closed gates and can open one or all of them`() {
        close("b", until: 60)
        close("a", until: 30)
        close("c", until: 10)
        #expect(queue.closedGates.map(\.host) == ["a", "b", "c"])
        #expect(closed == ["a": 30, "b": 60, "c": 10])
        let operations = ["a", "b", "c"].map { waiting($0) }
        queue.addOperations(operations, waitUntilFinished: false)
        #expect(queue.openGate(forHost: "A") && !queue.openGate(forHost: "A") && !queue.openGate(forHost: "none"))
        #expect(operations.map(\.isExecuting) == [true, false, false])
        clock.advance(by: 10)
        #expect(operations.map(\.isExecuting) == [true, false, true])
        queue.openAllGates()
        #expect(operations.map(\.isExecuting) == [true, true, true])
        #expect(queue.closedGates.isEmpty)
        for operation in operations { operation.finish() }
        // Hosts without operations are removed completely.
        #expect(queue.state.withLock { $0.lanes.hosts.gated.isEmpty && $0.lanes.hosts.hosts.allSatisfy { $0.members == 0 } })
    }

    @Test(arguments: [5.0, 20.0])
    func `a gate that was opened manually and closed again opens at its own time`(second: Double) {
        close(until: 10)
        queue.openGate(forHost: "a")
        close(until: second)
        let operation = waiting()
        queue.addOperation(operation)
        clock.advance(by: min(second, 10) - 1)
        #expect(!operation.isExecuting)
        clock.advance(by: 1)
        #expect(operation.isExecuting == (second < 10))
        clock.advance(by: 10)
        #expect(operation.isExecuting)
        operation.finish()
    }

    @Test func `operations behind a gate that opens in a suspended queue start when it resumes`() {
        close(until: 1)
        queue.isSuspended = true
        let operations = [waiting(), PausableTestOperation(host: "a")]
        queue.addOperations(operations, waitUntilFinished: false)
        clock.advance(by: 1)
        #expect(operations.map(\.isExecuting) == [false, false])
        queue.isSuspended = false
        #expect(operations.map(\.isExecuting) == [true, true])
        for operation in operations { operation.finish() }
    }

    @Test func `behind an open gate, all operations start in first-in, first-out order`() {
        queue.maxConcurrentOperationCount = 1
        let log = Log()
        let blocker = PausableTestOperation()
        queue.addOperation(blocker)
        var expected: [String] = []
        var random = SplitMix64.printingSeed()
        for number in 0..<100 {
            let operation = PausableTestOperation(host: "a", waitsAtGate: Bool.random(using: &random)) {
                log.add("\(number)")
                $0.finish()
            }
            queue.addOperation(operation)
            expected.append("\(number)")
            // A gate that was temporarily closed does not change the order.
            if number == 50 { close(until: 1) }
        }
        clock.advance(by: 1)
        blocker.finish()
        #expect(log.all == expected)
    }

    @Test func `operations that pass a closed gate start first, and the others keep their order`() {
        queue.maxConcurrentOperationCount = 1
        let log = Log()
        close(until: 1)
        for number in 0..<10 {
            queue.addOperation(
                PausableTestOperation(host: "a", waitsAtGate: number % 2 == 0) {
                    log.add("\(number)")
                    $0.finish()
                })
        }
        #expect(log.all == ["1", "3", "5", "7", "9"])
        clock.advance(by: 1)
        #expect(log.all == ["1", "3", "5", "7", "9", "0", "2", "4", "6", "8"])
        #expect(drains(queue))
    }

    @Test func `limits apply behind a gate, and the slots of a gated host go to other hosts`() {
        queue.maxConcurrentOperationCount = 2
        close(until: 1)
        let operations = (0..<4).map { _ in waiting() }
        let others = (0..<3).map { _ in PausableTestOperation(host: "b") }
        queue.addOperations(operations + others, waitUntilFinished: false)
        #expect(others.filter(\.isExecuting).count == 2)
        clock.advance(by: 1)
        #expect(operations.filter(\.isExecuting).isEmpty)
        for operation in others { operation.finish() }
        // The third other operation got a slot first: its host has no running operations, like the first host.
        #expect(operations.filter(\.isExecuting).count == 2)
        for operation in operations { operation.finish() }
        for operation in operations { operation.finish() }
        #expect(drains(queue))
    }

    // MARK: Hosts that refuse connections

    private func refuse(_ operation: PausableTestOperation, until seconds: Double, patience: Double = 100) {
        operation.closeGate(
            of: "a", until: UInt64(seconds * 1e9), patience: UInt64(patience * 1e9))
    }

    @Test func `the gate of a refusing host admits operations one by one until the host responds`() {
        let operations = (0..<6).map { _ in waiting() }
        queue.addOperation(operations[0])
        refuse(operations[0], until: 2)
        queue.addOperations(Array(operations[1...]), waitUntilFinished: false)
        let passing = PausableTestOperation(host: "a")
        queue.addOperation(passing)
        #expect(passing.isExecuting && operations.map(\.isExecuting) == [true, false, false, false, false, false])
        #expect(!operations[0].reportsAnswer)
        operations[0].pause()
        clock.advance(by: 2)
        #expect(operations.map(\.isExecuting) == [false, true, false, false, false, false])
        #expect(operations[1].reportsAnswer && queue.closedGates.map(\.host) == ["a"])
        // The host refuses the probe as well.
        refuse(operations[1], until: 5)
        operations[1].finish()
        #expect(operations.map(\.isExecuting) == [false, false, false, false, false, false])
        clock.advance(by: 3)
        #expect(operations.map(\.isExecuting) == [false, false, true, false, false, false])
        // The probe ends without a result, so the next operation becomes the probe.
        operations[2].cancel()
        #expect(operations.map(\.isExecuting) == [false, false, false, true, false, false])
        operations[3].pause()
        #expect(operations.map(\.isExecuting) == [false, false, false, false, true, false])
        operations[3].resume()
        operations[0].resume()
        #expect(operations.map(\.isExecuting) == [false, false, false, false, true, false])
        operations[4].hostDidAnswer("a")
        #expect(operations.map(\.isExecuting) == [true, false, false, true, true, true])
        #expect(queue.closedGates.isEmpty)
        // An operation still in progress does not delay others when the host refuses again.
        let late = [waiting(), waiting()]
        refuse(operations[5], until: 7)
        queue.addOperations(late, waitUntilFinished: false)
        clock.advance(by: 2)
        #expect(late.map(\.isExecuting) == [true, false])
        for operation in operations + [passing] + late { operation.finish() }
        for operation in late { operation.finish() }
        #expect(drains(queue) && queue.closedGates.isEmpty)
    }

    @Test func `the gate of a host that refuses for too long opens for all operations`() {
        let operations = (0..<3).map { _ in waiting() }
        queue.addOperation(operations[0])
        refuse(operations[0], until: 1, patience: 3)
        queue.addOperations(Array(operations[1...]), waitUntilFinished: false)
        operations[0].pause()
        clock.advance(by: 1)
        #expect(operations[1].isExecuting)
        refuse(operations[1], until: 4, patience: 3)
        clock.advance(by: 3)
        #expect(!operations[2].isExecuting)
        refuse(operations[1], until: 5, patience: 3)
        #expect(operations[2].isExecuting && queue.closedGates.isEmpty)
        refuse(operations[2], until: 6, patience: 3)
        #expect(queue.closedGates.isEmpty)
        operations[2].hostDidAnswer("a")
        refuse(operations[2], until: 6, patience: 3)
        #expect(queue.closedGates.map(\.host) == ["a"])
        for operation in operations { operation.cancel() }
        #expect(drains(queue))
    }

    @Test func `without a waiting operation to probe the host, later operations start freely`() {
        let operation = waiting()
        queue.addOperation(operation)
        refuse(operation, until: 1)
        operation.finish()
        clock.advance(by: 1)
        let later = (0..<2).map { _ in waiting() }
        queue.addOperations(later, waitUntilFinished: false)
        #expect(later.allSatisfy { $0.isExecuting } && queue.closedGates.isEmpty)
        for operation in later { operation.finish() }
    }

    @Test func `once a refusing host has requested a delay, all operations start after it`() {
        let operations = (0..<3).map { _ in waiting() }
        queue.addOperation(operations[0])
        refuse(operations[0], until: 1)
        queue.addOperations(Array(operations[1...]), waitUntilFinished: false)
        clock.advance(by: 1)
        #expect(operations.map(\.isExecuting) == [true, true, false])
        close(until: 3)
        clock.advance(by: 2)
        #expect(operations.map(\.isExecuting) == [true, true, true])
        for operation in operations { operation.finish() }
    }

    // MARK: Notifications

    @Test func `operations that wait before or after a gate closes are notified once of its opening time`() {
        queue.maxConcurrentOperationCount = 1
        let blocker = PausableTestOperation()
        let (there, passing) = (waiting(), PausableTestOperation(host: "a"))
        let blocked = waiting()
        blocked.addDependency(blocker)
        queue.addOperations([blocker, there, passing, blocked], waitUntilFinished: false)
        #expect(there.gateDeadlines.isEmpty)
        close(until: 2)
        let late = waiting()
        queue.addOperation(late)
        #expect(there.gateDeadlines == [2_000_000_000] && late.gateDeadlines == [2_000_000_000])
        // The operation is not notified before the gate is its only obstacle.
        #expect(blocked.gateDeadlines.isEmpty)
        // The gate stays closed longer, and the level and age change, but the wait is still the same.
        close(until: 3)
        there.queuePriority = .veryLow
        late.queuePriority = .high
        clock.advance(by: 2.5)
        #expect(there.gateDeadlines.count == 1 && late.gateDeadlines.count == 1)
        blocker.finish()
        #expect(blocked.gateDeadlines == [3_000_000_000])
        passing.finish()
        #expect(passing.gateDeadlines.isEmpty)
        clock.advance(by: 0.5)
        #expect(late.isExecuting)
        // If the gate closes again, the remaining operations are notified of a new wait.
        close(until: 9)
        #expect(there.gateDeadlines == [2_000_000_000, 9_000_000_000] && late.gateDeadlines.count == 1)
        queue.cancelAllOperations()
        #expect(drains(queue))
    }

    @Test func `each of many waiting operations is notified, but not a cancelled one`() {
        let operations = (0..<1_000).map { number in
            let operation = waiting()
            operation.queuePriority = number % 3 == 0 ? .low : .normal
            return operation
        }
        queue.isSuspended = true
        queue.addOperations(operations, waitUntilFinished: false)
        for operation in operations.prefix(10) { operation.cancel() }
        close(until: 1)
        #expect(operations.prefix(10).filter { !$0.gateDeadlines.isEmpty }.isEmpty)
        #expect(operations.dropFirst(10).filter { $0.gateDeadlines == [1_000_000_000] }.count == 990)
        queue.cancelAllOperations()
        #expect(drains(queue))
    }
}
