import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyOperations

/// Start rates, in simulated time.
struct QueueStartRateTests {
    let clock = ManualClock()
    let queue: RequestOperationQueue

    init() { queue = RequestOperationQueue(clock: clock) }

    private func operations(_ count: Int, _ host: String? = "a") -> [PausableTestOperation] {
        (0..<count).map { _ in PausableTestOperation(host: host) }
    }

    private func running(_ operations: [PausableTestOperation]) -> Int { operations.filter(\.isExecuting).count }

    @Test func `a burst starts immediately, and the other operations start one by one`() {
        queue.maximumStartRate = StartRate(perSecond: 10, burst: 3)
        let all = operations(4, "a") + operations(4, "b")
        queue.addOperations(all, waitUntilFinished: false)
        #expect(running(all) == 3)
        clock.advance(by: 0.09)
        #expect(running(all) == 3)
        for count in 4...8 {
            clock.advance(by: 0.1)
            #expect(running(all) == count)
        }
        for operation in all { operation.finish() }
        // After an idle time, a full burst is available again, and no more.
        clock.advance(by: 100)
        let later = operations(5)
        queue.addOperations(later, waitUntilFinished: false)
        #expect(running(later) == 3)
        queue.cancelAllOperations()
        #expect(drains(queue))
    }

    @Test func `each host has its own rate`() {
        queue.maximumStartRatePerHost = StartRate(perSecond: 1)
        let (a, b, none) = (operations(3, "a"), operations(2, "b"), operations(5, nil))
        queue.addOperations(a + b + none, waitUntilFinished: false)
        #expect(running(a) == 1 && running(b) == 1 && running(none) == 5)
        clock.advance(by: 1)
        #expect(running(a) == 2 && running(b) == 2)
        clock.advance(by: 1)
        #expect(running(a) == 3)
        for operation in a + b + none { operation.finish() }
        #expect(drains(queue))
    }

    @Test func `a rate-limited host delays no other, and operations without a host do not count`() {
        queue.maximumStartRate = StartRate(perSecond: 1)
        let (first, second, block) = (operations(1)[0], operations(1, "b")[0], operations(1, nil)[0])
        second.queuePriority = .veryHigh
        queue.addOperations([first, second, block], waitUntilFinished: false)
        #expect(first.isExecuting && !second.isExecuting && block.isExecuting)
        // The operation waited in the lanes because no slot was free.
        queue.maxConcurrentOperationCount = 2
        let late = operations(1, nil)[0]
        queue.addOperation(late)
        #expect(!late.isExecuting)
        block.finish()
        #expect(late.isExecuting && !second.isExecuting)
        clock.advance(by: 1)
        #expect(!second.isExecuting)
        late.finish()
        #expect(second.isExecuting)
        for operation in [first, second] { operation.finish() }
        #expect(drains(queue))
    }

    @Test func `operations waiting for a start keep their order, and higher priorities start first`() {
        queue.maximumStartRate = StartRate(perSecond: 1)
        let log = Log()
        let names: [(String, Operation.QueuePriority)] = [
            ("first", .normal), ("low", .low), ("normal", .normal), ("high", .high), ("normal too", .normal),
        ]
        for (name, priority) in names {
            let operation = PausableTestOperation(host: "a") {
                log.add(name)
                $0.finish()
            }
            operation.queuePriority = priority
            queue.addOperation(operation)
        }
        for _ in 0..<4 { clock.advance(by: 1) }
        #expect(log.all == ["first", "high", "normal", "normal too", "low"])
        #expect(drains(queue))
    }

    @Test func `a dependent that has waited for its dependency also counts towards the rate`() {
        queue.maximumStartRate = StartRate(perSecond: 1)
        let all = operations(2)
        all[1].addDependency(all[0])
        queue.addOperations(all.reversed(), waitUntilFinished: false)
        #expect(all.map(\.isExecuting) == [true, false])
        clock.advance(by: 5)
        #expect(!all[1].isExecuting)
        all[0].finish()
        #expect(all[1].isExecuting)
        all[1].finish()
        #expect(drains(queue))
    }

    @Test func `an operation waiting for its start is cancelled immediately and does not use up a start`() {
        queue.maximumStartRate = StartRate(perSecond: 1)
        let all = operations(3)
        queue.addOperations(all, waitUntilFinished: false)
        all[1].cancel()
        #expect(all[1].isFinished && !all[2].isExecuting)
        clock.advance(by: 1)
        #expect(all[2].isExecuting)
        for operation in all { operation.finish() }
        #expect(drains(queue))
    }

    @Test func `a start after a pause counts towards the rate`() {
        queue.maximumStartRate = StartRate(perSecond: 1)
        let operation = operations(1)[0]
        queue.addOperation(operation)
        operation.pause()
        operation.resume()
        #expect(!operation.isExecuting)
        clock.advance(by: 1)
        #expect(operation.isExecuting)
        operation.finish()
        #expect(drains(queue))
    }

    @Test func `changing the rate wakes the queue`() {
        for perHost in [true, false] {
            func set(_ rate: StartRate?) {
                if perHost { queue.maximumStartRatePerHost = rate } else { queue.maximumStartRate = rate }
            }
            set(StartRate(perSecond: 1.0 / 3_600))
            #expect((perHost ? queue.maximumStartRatePerHost : queue.maximumStartRate) == StartRate(perSecond: 1.0 / 3_600))
            let all = operations(6)
            queue.addOperations(all, waitUntilFinished: false)
            clock.advance(by: 1)
            #expect(running(all) == 1)
            // The rest of the last interval is shortened to one of the new intervals.
            set(StartRate(perSecond: 10))
            #expect(running(all) == 1)
            clock.advance(by: 0.1)
            #expect(running(all) == 2)
            // A slower rate applies from the next start.
            set(StartRate(perSecond: 1))
            clock.advance(by: 0.1)
            #expect(running(all) == 3)
            clock.advance(by: 0.9)
            #expect(running(all) == 3)
            clock.advance(by: 0.1)
            #expect(running(all) == 4)
            set(nil)
            #expect(running(all) == 6)
            for operation in all { operation.finish() }
            #expect(drains(queue))
        }
        #expect(queue.maximumStartRate == nil && queue.maximumStartRatePerHost == nil)
    }

    @Test func `a timer of an earlier rate starts nothing`() {
        queue.maximumStartRatePerHost = StartRate(perSecond: 1)
        queue.maximumStartRate = StartRate(perSecond: 1)
        let all = operations(4)
        queue.addOperations(all, waitUntilFinished: false)
        clock.advance(by: 0.3)
        queue.maximumStartRatePerHost = StartRate(perSecond: 3)
        queue.maximumStartRate = StartRate(perSecond: 3)
        clock.advance(by: 0.34)
        #expect(running(all) == 2)
        clock.advance(by: 0.34)
        #expect(running(all) == 3)
        // The timers of the first rate fire after a second.
        clock.advance(by: 0.1)
        #expect(running(all) == 3)
        clock.advance(by: 0.3)
        #expect(running(all) == 4)
        for operation in all { operation.finish() }
        #expect(drains(queue))
    }

    @Test func `a host is remembered only as long as its rate requires`() {
        queue.maximumStartRatePerHost = StartRate(perSecond: 1)
        for round in 0..<3 {
            for number in 0..<1_000 {
                let operation = PausableTestOperation(host: "host\(number)") { $0.finish() }
                queue.addOperation(operation)
                #expect(operation.isFinished == (round != 1), "\(number)")
                if round == 1 { operation.cancel() }
            }
            // The second round starts immediately, and the third one later.
            if round == 1 { clock.advance(by: 1) }
        }
        clock.advance(by: 1)
        for number in 0..<1_000 {
            queue.addOperation(PausableTestOperation(host: "other\(number)") { $0.finish() })
        }
        #expect(queue.state.withLock { $0.lanes.hosts.hosts.count } < 2_500)
        #expect(drains(queue))
    }

    @Test func `the system clock starts waiting operations`() {
        let queue = RequestOperationQueue()
        queue.maximumStartRate = StartRate(perSecond: 200)
        queue.maximumStartRatePerHost = StartRate(perSecond: 150, burst: 2)
        let start = DispatchTime.now()
        let all = (0..<20).map { _ in PausableTestOperation(host: "a") { $0.finish() } }
        queue.addOperations(all, waitUntilFinished: false)
        #expect(drains(queue))
        #expect(DispatchTime.now().uptimeNanoseconds - start.uptimeNanoseconds >= 18 * 1_000_000_000 / 150)
    }

    // MARK: Random load

    private struct Rates {
        var overall: StartRate?
        var perHost: StartRate?

        init(_ random: inout SplitMix64) {
            func rate(_ random: inout SplitMix64) -> StartRate {
                StartRate(perSecond: .random(in: 0.5...20, using: &random), burst: .random(in: 1...4, using: &random))
            }
            overall = Bool.random(using: &random) ? rate(&random) : nil
            perHost = Bool.random(using: &random) || overall == nil ? rate(&random) : nil
        }
    }

    /// Returns whether any of these times, in nanoseconds, came too early.
    private func breaks(_ rate: StartRate?, _ times: [UInt64]) -> Bool {
        guard let rate else { return false }
        let interval = 1e9 / rate.startsPerSecond
        // From any start on, at most the number allowed by the rate plus a burst may follow. Each start may lose a
        // nanosecond.
        for first in times.indices {
            for last in first..<min(times.count, first + 40) {
                let needed = Double(last - first + 1 - rate.burst) * (interval - 1)
                if Double(times[last] - times[first]) < needed - 1 { return true }
            }
        }
        return false
    }

    @Test func `under random load, no rate is exceeded, and no operation or start is lost`() {
        var random = SplitMix64.printingSeed()
        for _ in 0..<PropertyBudget.rounds(15) {
            let rates = Rates(&random)
            let clock = ManualClock()
            let queue = RequestOperationQueue(clock: clock)
            queue.maximumStartRate = rates.overall
            queue.maximumStartRatePerHost = rates.perHost
            queue.maxConcurrentOperationCount = Int.random(in: 3...50, using: &random)
            let starts = Locked<[(time: UInt64, host: String)]>([])
            var open: [PausableTestOperation] = []
            func step() {
                switch Int.random(in: 0..<100, using: &random) {
                case 0..<35:
                    let host = ["a", "b", "c", nil].randomElement(using: &random) ?? nil
                    let operation = PausableTestOperation(
                        host: host, direct: true, waitsAtGate: Bool.random(using: &random)
                    ) { _ in
                        if let host { starts.withLock { $0.append((clock.now, host)) } }
                    }
                    operation.queuePriority = [.low, .normal, .high].randomElement(using: &random) ?? .normal
                    if Bool.random(using: &random), let other = open.randomElement(using: &random) {
                        operation.addDependency(other)
                    }
                    queue.addOperation(operation)
                    open.append(operation)
                case 35..<45: open.randomElement(using: &random)?.pause()
                case 45..<60: open.first { $0.current == .paused }?.resume()
                case 60..<80: open.first { $0.isExecuting }?.finish()
                case 80..<83: open.randomElement(using: &random)?.cancel()
                case 83: queue.isSuspended.toggle()
                case 84: queue.closeGate(forHost: "a", until: clock.now + 300_000_000)
                default: clock.advance(by: .random(in: 0...0.2, using: &random))
                }
                open.removeAll { $0.isFinished }
            }
            for _ in 0..<600 { step() }
            queue.isSuspended = false
            // Advance the clock until all operations have started.
            var steps = 0
            while queue.queuedOperationCount > 0, steps < 100_000 {
                steps += 1
                queue.resumeAll()
                for operation in open where operation.isExecuting { operation.finish() }
                clock.advance(by: 0.05)
            }
            #expect(queue.queuedOperationCount == 0, "\(QueueReport(of: queue))")
            let times = starts.withLock { $0 }
            #expect(times.count > 20)
            #expect(!breaks(rates.overall, times.map(\.time)))
            for host in ["a", "b", "c"] {
                #expect(!breaks(rates.perHost, times.filter { $0.host == host }.map(\.time)))
            }
        }
    }

    @Test func `a queue that always has operations to start reaches its rate`() {
        queue.maximumStartRate = StartRate(perSecond: 8, burst: 2)
        let started = Locked(0)
        for number in 0..<1_000 {
            queue.addOperation(
                PausableTestOperation(host: "\(number % 7)") {
                    started.withLock { $0 += 1 }
                    $0.finish()
                })
        }
        // The steps are shorter than the interval and divide it.
        for _ in 0..<(100 * 16) { clock.advance(by: 1.0 / 16) }
        #expect(started.withLock { $0 } == 2 + 100 * 8)
        queue.cancelAllOperations()
        #expect(drains(queue))
    }
}
