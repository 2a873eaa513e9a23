import Convoy
import Foundation
import Synchronization

extension Case {
    /// The queue without a network.
    static let operations: Case = {
        let counts = [10_000, 100_000]
        var trials: [Trial] = []
        var bars: [Bar] = []
        for shape in OperationShape.allCases {
            let names = counts.map(shape.trialName)
            for (name, count) in zip(names, counts) {
                var subjects = [
                    Subject(Trial.convoy) { OperationRun(shape, $0.count(count), $0).throughConvoy() }
                ]
                if let fewer = shape.foundationCount(count) {
                    subjects.append(
                        Subject("foundation") { OperationRun(shape, $0.count(fewer), $0).throughFoundation() })
                }
                trials.append(Trial(name: name, unit: "us/operation", limit: nil, subjects: subjects))
            }
            // Compare CPU time, because elapsed time includes other load on the machine. Foundation's independent
            // operation is the reference for every shape, because the cost of its waiting operations is unbounded.
            for (name, free) in zip(names, counts.map(OperationShape.free.trialName)) {
                bars.append(
                    .atMost(0.7, "of the CPU time of Foundation's independent operation (\(name))") {
                        $0.ratio(name, to: "foundation", in: free, by: \.cpuMicroseconds)
                    })
            }
            bars.append(
                .atMost(1.25, "times the CPU time from 10,000 to 100,000 (\(shape.rawValue))") {
                    $0.ratio(names[1], to: Trial.convoy, in: names[0], by: \.cpuMicroseconds)
                })
        }
        return Case(
            name: "operations", summary: "operations that do nothing: created, enqueued, run, finished and released",
            trials: trials, bars: bars)
    }()
}

/// The dependencies between the operations.
private enum OperationShape: String, CaseIterable, Sendable {
    /// All operations are independent.
    case free
    /// Each operation depends on the previous one.
    case chain
    /// One operation depends on all others.
    case fanIn = "fan-in"
    /// A tenth of the operations depend on one that comes last; the others are independent.
    case blocked

    func trialName(_ count: Int) -> String { "operations-\(rawValue)-\(count / 1000)k" }

    /// Returns the number of operations for Foundation's queue, which needs quadratic time for waiting ones; nil for
    /// none.
    func foundationCount(_ count: Int) -> Int? {
        switch self {
        case .free: count
        case .chain: count > 10_000 ? nil : 2_000
        case .fanIn: count > 10_000 ? nil : 10_000
        case .blocked: count > 10_000 ? nil : 1_000
        }
    }
}

/// Runs this number of operations of a shape, repeatedly until 100,000 have been run.
private struct OperationRun {
    let shape: OperationShape
    let count: Int
    let repeats: Int

    init(_ shape: OperationShape, _ count: Int, _ context: Context) {
        self.shape = shape
        self.count = count
        repeats = max(1, min(context.count(100_000) / count, 10))
    }

    func throughConvoy() -> Sample {
        measure(RequestOperationQueue.init) { ScheduledBlockOperation($0) }
    }

    func throughFoundation() -> Sample {
        measure(OperationQueue.init) { BlockOperation(block: $0) }
    }

    private typealias Maker = (@escaping @Sendable () -> Void) -> Operation

    private func measure(_ makeQueue: () -> OperationQueue, _ make: Maker) -> Sample {
        // The first run requests memory from the system.
        once(makeQueue(), make)
        let cost = Cost { for _ in 0..<repeats { once(makeQueue(), make) } }
        let total = Double(count * repeats)
        return Sample(
            cost.seconds * 1e6 / total, cpuMicroseconds: cost.cpuSeconds * 1e6 / total,
            details: ["count": Double(count)])
    }

    private func once(_ queue: OperationQueue, _ make: Maker) {
        let ran = Ran()
        func one() -> Operation { make { ran.count.wrappingAdd(1, ordering: .relaxed) } }
        switch shape {
        case .free:
            for _ in 0..<count { queue.addOperation(one()) }
        case .chain:
            var last = one()
            let first = last
            for _ in 1..<count {
                let next = one()
                next.addDependency(last)
                queue.addOperation(next)
                last = next
            }
            queue.addOperation(first)
        case .fanIn:
            let last = one()
            for _ in 1..<count {
                let operation = one()
                last.addDependency(operation)
                queue.addOperation(operation)
            }
            queue.addOperation(last)
        case .blocked:
            let gate = one()
            for _ in 0..<(count / 10) {
                let operation = one()
                operation.addDependency(gate)
                queue.addOperation(operation)
            }
            for _ in 0..<(count - count / 10 - 1) { queue.addOperation(one()) }
            queue.addOperation(gate)
        }
        queue.waitUntilAllOperationsAreFinished()
        precondition(ran.count.load(ordering: .relaxed) == count, "an operation did not run")
    }

    private final class Ran: Sendable { let count = Atomic<Int>(0) }
}
