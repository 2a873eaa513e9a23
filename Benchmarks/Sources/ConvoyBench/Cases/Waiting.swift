import CLimit
import Convoy
import Foundation

extension Case {
    /// The memory used by requests that have not started.
    static let waiting: Case = {
        let trial = Trial(
            name: "waiting", unit: "bytes/operation", limit: nil,
            subjects: [
                Subject(Trial.convoy) { context in waitingGETs(context.count(50_000)) },
                Subject("operation") { context in bareOperations(context.count(50_000)) },
            ])
        return Case(
            name: trial.name, summary: "50,000 GETs with a completion handler each, in a suspended queue",
            trials: [trial],
            bars: [
                .atMost(600, "bytes more than a plain Foundation Operation") {
                    $0.excess(trial.name, over: "operation")
                }
            ])
    }()

    private static func waitingGETs(_ count: Int) -> Sample {
        let manager = HTTPRequestOperationManager(baseURL: URL(string: "http://127.0.0.1:9/"))
        manager.responseSerializer = HTTPResponseSerializer()
        manager.operationQueue.isSuspended = true
        let answers = Countdown(count)
        let sample = sample(of: count) {
            for _ in 0..<count {
                manager.get("small") { _, _ in
                    answers.done(true)
                } failure: { _, _ in
                    answers.done(false)
                }
            }
        }
        manager.operationQueue.cancelAllOperations()
        return sample
    }

    private static func bareOperations(_ count: Int) -> Sample {
        var operations: [Operation] = []
        operations.reserveCapacity(count)
        let sample = sample(of: count) {
            for _ in 0..<count { operations.append(Operation()) }
        }
        withExtendedLifetime(operations) {}
        return sample
    }

    private static func sample(of count: Int, _ making: () -> Void) -> Sample {
        let before = limit_allocated_bytes()
        let cost = Cost(of: making)
        let grown = limit_allocated_bytes() - before
        return Sample(Double(grown) / Double(count), cpuMicroseconds: cost.cpuSeconds * 1e6 / Double(count))
    }
}
