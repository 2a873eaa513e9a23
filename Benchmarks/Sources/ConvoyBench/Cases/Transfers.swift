import CLimit
import Convoy
import Foundation
import FoundationNetworking

extension Case {
    /// The memory used by slow transfers.
    static let transfers: Case = {
        let plan = RequestPlan(path: "slow", fullCount: 5_000, inFlight: 1, expectedBytes: 8 << 10)
        let trial = Trial(
            name: "transfers", unit: "KB/transfer", limit: Trial.cLoop,
            subjects: [
                Subject(Trial.cLoop) { context in
                    let result = try LimitLoop.run(plan, context, limit_transfers)
                    return .transfers(
                        plan.requests(context), grownKilobytes: result.grown_kilobytes,
                        Cost(seconds: result.seconds, cpuSeconds: result.cpu_seconds))
                },
                Subject(Trial.convoy) { try slowTransfers(plan, $0) },
            ])
        return Case(
            name: trial.name, summary: "5,000 concurrent GETs of 8 KiB that arrive at 1 KiB per second", trials: [trial],
            bars: [
                .atLeast(5_000, "complete") { $0.detail("complete", trial.name) },
                .atMost(8, "KB per transfer more than the C loop") { $0.excess(trial.name) },
            ])
    }()

    private static func slowTransfers(_ plan: RequestPlan, _ context: Context) throws -> Sample {
        let requests = ConvoyRequests(plan, context)
        // A manager's own queue runs only 64 operations per host.
        requests.manager.operationQueue = RequestOperationQueue()
        try BenchError.check(failed: requests.enqueueAll(1), of: 1)
        let count = plan.requests(context)
        limit_reset_peak()
        let before = limit_memory("VmRSS")
        var failed = 0
        let cost = Cost { failed = requests.enqueueAll(count) }
        try BenchError.check(failed: failed, of: count)
        return .transfers(count, grownKilobytes: limit_memory("VmHWM") - before, cost)
    }
}

extension Sample {
    fileprivate static func transfers(_ count: Int, grownKilobytes: Int, _ cost: Cost) -> Sample {
        Sample(
            Double(grownKilobytes) / Double(count), cpuMicroseconds: cost.cpuSeconds * 1e6 / Double(count),
            details: ["complete": Double(count), "s": cost.seconds])
    }
}
