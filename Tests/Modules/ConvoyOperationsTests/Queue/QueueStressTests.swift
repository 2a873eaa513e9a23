import ConvoySupport
import ConvoyTestSupport
import Foundation
import Synchronization
import Testing

@testable import ConvoyOperations

/// `CONVOY_STRESS_SECONDS` sets the duration of the test, in seconds; 1 by default.
@Suite(.serialized)
struct QueueStressTests {
    private static let seconds = ProcessInfo.processInfo.environment["CONVOY_STRESS_SECONDS"].flatMap(Double.init) ?? 1

    /// An operation that responds and acts slowly, so that other events can occur before the queue receives a property,
    /// and before a phase ends.
    private final class HesitatingOperation: AskedTestOperation, @unchecked Sendable {
        override func didAnswer(_ question: QueueQuestion) { hesitate() }
        override func willLeave(_ phase: Phase) { hesitate() }

        private func hesitate() {
            switch UInt8.random(in: 0...255) {
            case 0: letOthersRun(microseconds: 100)
            case 1..<20: sched_yield()
            default: break
            }
        }
    }

    /// The state shared by the threads: the open operations, and the current limit.
    private final class Field: Sendable {
        struct Contents {
            var open: [PausableTestOperation] = []
            var made = 0
        }

        let queue = RequestOperationQueue()
        let gauge = Gauge()
        let contents = Locked(Contents())
        let wrong = Locked(0)
        let hesitates: Bool

        init(hesitates: Bool = false) { self.hesitates = hesitates }

        func any(_ random: inout SplitMix64) -> PausableTestOperation? {
            contents.withLock { $0.open.randomElement(using: &random) }
        }

        func add(_ random: inout SplitMix64) {
            guard contents.withLock({ $0.open.count }) < 400 else { return }
            let kind = hesitates ? HesitatingOperation.self : PausableTestOperation.self
            let operation = kind.init(
                host: ["a", "b", "c", nil].randomElement(using: &random) ?? nil,
                direct: Bool.random(using: &random), waitsAtGate: Bool.random(using: &random), gauge: gauge)
            operation.queuePriority = [.veryLow, .low, .normal, .high, .veryHigh].randomElement(using: &random) ?? .normal
            if Int.random(in: 0..<3, using: &random) == 0, let other = any(&random) { operation.addDependency(other) }
            queue.addOperation(operation)
            // Other operations may depend on this one only now. Otherwise a barrier between an operation and its
            // dependency, if that is added after the barrier, would wait forever.
            contents.withLock {
                $0.open.append(operation)
                $0.made += 1
            }
            switch Int.random(in: 0..<40, using: &random) {
            case 0: queue.addBarrierBlock {}
            case 1:
                let foreign = BlockOperation {}
                foreign.addDependency(operation)
                queue.addOperation(foreign)
            case 2: queue.addOperation {}
            default: break
            }
        }

        /// Removes the finished operations, and counts those that did not finish exactly once.
        func sweep() {
            let over = contents.withLock { contents in
                let over = contents.open.filter { $0.isFinished }
                contents.open.removeAll { $0.isFinished }
                return over
            }
            let wrong = over.filter { $0.timesFinished > 1 }.count
            self.wrong.withLock { $0 += wrong }
        }

        func step(_ random: inout SplitMix64) {
            let operation = any(&random)
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<35: add(&random)
            case 35..<50: operation?.pause()
            case 50..<70: contents.withLock { $0.open.first { $0.current == .paused } }?.resume()
            case 70..<88: contents.withLock { $0.open.first { $0.isExecuting } }?.finish()
            case 88..<92: operation?.cancel()
            case 92..<95: operation?.queuePriority = [.veryLow, .normal, .veryHigh].randomElement(using: &random) ?? .low
            case 95: queue.maxConcurrentOperationCountPerHost = Int.random(in: 1...6, using: &random)
            case 96: queue.isSuspended.toggle()
            case 97: if let operation, let other = any(&random) { operation.removeDependency(other) }
            case 98:
                switch Int.random(in: 0..<8, using: &random) {
                case 0: queue.openGate(forHost: "a")
                case 1: queue.openAllGates()
                case 2: _ = queue.closedGates
                case 3: queue.cancelAllOperations()
                default:
                    queue.closeGate(
                        forHost: ["a", "b", "d"].randomElement(using: &random) ?? "a",
                        until: MonotonicClock().now + .random(in: 50_000...2_000_000, using: &random))
                }
            default: sweep()
            }
        }

        /// Lets all operations finish. Returns false if they hang.
        func settle() -> Bool {
            queue.isSuspended = false
            return eventually {
                queue.resumeAll()
                for case let operation as PausableTestOperation in queue.queuedOperations { operation.finish() }
                return queue.queuedOperationCount == 0
            }
        }
    }

    @Test func `under concurrent calls from eight threads, every operation finishes once within the limit`() {
        let field = Field()
        field.queue.maxConcurrentOperationCount = 5
        run(field) { _, _ in }
        #expect(field.gauge.most <= 5)
    }

    @Test func `slow operations finish once within the limit under concurrent calls`() {
        let field = Field(hesitates: true)
        field.queue.maxConcurrentOperationCount = 5
        run(field) { _, _ in }
        #expect(field.gauge.most <= 5)
    }

    @Test func `every operation finishes once while the limit and the rates change`() {
        let field = Field()
        run(field) { field, random in
            if Int.random(in: 0..<50, using: &random) == 0 {
                field.queue.maxConcurrentOperationCount = [-1, 1, 2, 8, 32].randomElement(using: &random) ?? 4
            }
            if Int.random(in: 0..<100, using: &random) == 0 {
                // The rates are fast, so that operations both wait and start.
                let rate = StartRate(
                    perSecond: .random(in: 500...50_000, using: &random), burst: .random(in: 1...9, using: &random))
                if Bool.random(using: &random) {
                    field.queue.maximumStartRate = Bool.random(using: &random) ? nil : rate
                } else {
                    field.queue.maximumStartRatePerHost = Bool.random(using: &random) ? nil : rate
                }
            }
            if Int.random(in: 0..<200, using: &random) == 0 {
                field.queue.overflowPolicy = Bool.random(using: &random) ? .refuse : .dropOldest
                field.queue.maximumLength = Bool.random(using: &random) ? nil : Int.random(in: 1...300, using: &random)
            }
        }
    }

    private func run(
        _ field: Field, _ extra: @escaping @Sendable (Field, inout SplitMix64) -> Void
    ) {
        let deadline = DispatchTime.now() + Self.seconds
        let doors = (0..<8).map { _ in Door() }
        var seeds = SplitMix64.printingSeed(of: "a queue under stress")
        for door in doors {
            let seeded = seeds.fork()
            Thread {
                var random = seeded
                while DispatchTime.now() < deadline {
                    for _ in 0..<20 {
                        field.step(&random)
                        extra(field, &random)
                    }
                }
                door.open()
            }.start()
        }
        for door in doors { while !door.wait() {} }
        guard field.settle() else {
            Issue.record("operations are left:\n\(QueueReport(of: field.queue))")
            return
        }
        #expect(drains(field.queue))
        field.sweep()
        let (left, made) = field.contents.withLock { ($0.open.count, $0.made) }
        #expect(left == 0)
        #expect(made > 100)
        #expect(field.wrong.withLock { $0 } == 0)
        #expect(field.gauge.now == 0)
        print("stress: \(made) operations, at most \(field.gauge.most) concurrently")
    }
}
