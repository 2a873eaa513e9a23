import CLimit
import Convoy
import Foundation
import FoundationNetworking

extension Case {
    /// Requests whose response is decoded as a value with async/await.
    static let jsonGet: Case = {
        let plan = RequestPlan(path: "json", fullCount: 10_000, inFlight: 1, expectedBytes: 1024)
        let trial = Trial(
            name: "json-get", unit: "us/request", limit: Trial.cLoop,
            subjects: [
                Subject(Trial.cLoop) { context in
                    let result = try LimitLoop.run(plan, context, limit_requests)
                    return .time(plan.requests(context), Cost(seconds: result.seconds, cpuSeconds: result.cpu_seconds))
                },
                Subject("json-decoder") { try JSONGet(plan, $0).decode() },
                Subject(Trial.convoy) { try JSONGet(plan, $0).throughConvoy(tasks: 1) },
                Subject("convoy-64-tasks") { try JSONGet(plan, $0).throughConvoy(tasks: 64) },
                Subject("urlsession") { try JSONGet(plan.reduced(to: 2_000), $0).throughURLSession() },
            ])
        return Case(
            name: trial.name,
            summary: "sequential GETs of a 1 KB JSON object, decoded into a Decodable with async/await",
            trials: [trial],
            bars: [
                .atMost(1.5, "times the combined time of the C loop and the decoder") { results in
                    ratioToParts(results, trial.name, Trial.convoy, by: \.value)
                },
                .atMost(1.4, "times the CPU time of both, with 64 tasks") { results in
                    ratioToParts(results, trial.name, "convoy-64-tasks", by: \.cpuMicroseconds)
                },
            ])
    }()
}

/// Returns one subject's figure divided by the cost of receiving and decoding without Convoy, from the medians over the
/// rounds.
private func ratioToParts(
    _ results: Results, _ trial: String, _ subject: String, by figure: (Sample) -> Double?
) -> Double? {
    guard let whole = results.median(trial, subject, figure), let loop = results.median(trial, Trial.cLoop, figure),
        let decoder = results.median(trial, "json-decoder", figure)
    else { return nil }
    return whole / (loop + decoder)
}

extension Sample {
    /// Returns a sample in microseconds per request.
    static func time(_ requests: Int, _ cost: Cost) -> Sample {
        Sample(
            cost.seconds * 1e6 / Double(requests), cpuMicroseconds: cost.cpuSeconds * 1e6 / Double(requests))
    }
}

/// The subjects of `json-get`.
private struct JSONGet {
    let plan: RequestPlan
    let context: Context
    let count: Int

    init(_ plan: RequestPlan, _ context: Context) {
        self.plan = plan
        self.context = context
        count = plan.requests(context)
    }

    /// Decodes with `JSONDecoder` alone, without a network.
    func decode() throws -> Sample {
        let data = Data(JSONDocument.text.utf8)
        var users = 0
        let decodeAll = { [count] in
            for _ in 0..<count { users += try JSONDecoder().decode(JSONDocument.self, from: data).users.count }
        }
        try decodeAll()
        let cost = try Cost { try decodeAll() }
        guard users > 2 * count else { throw BenchError("wrong document") }
        return .time(count, cost)
    }

    func throughConvoy(tasks: Int) throws -> Sample {
        let manager = HTTPRequestOperationManager(baseURL: context.url)
        return try measure(tasks: tasks) { try await manager.get("json", as: JSONDocument.self) }
    }

    func throughURLSession() throws -> Sample {
        let session = URLSession(configuration: .ephemeral)
        let url = plan.url(context)
        return try measure(tasks: 1) {
            let (data, _) = try await session.data(from: url)
            return try JSONDecoder().decode(JSONDocument.self, from: data)
        }
    }

    private func measure(tasks: Int, _ get: @escaping @Sendable () async throws -> JSONDocument) throws -> Sample {
        let run = { @Sendable (count: Int) in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for task in 0..<tasks {
                    let share = count / tasks + (task < count % tasks ? 1 : 0)
                    group.addTask {
                        for _ in 0..<share where try await get().users.isEmpty { throw BenchError("wrong document") }
                    }
                }
                try await group.waitForAll()
            }
        }
        let warmUp = plan.warmUp(context), count = count
        try blocking { try await run(warmUp) }
        return .time(count, try Cost { try blocking { try await run(count) } })
    }
}
