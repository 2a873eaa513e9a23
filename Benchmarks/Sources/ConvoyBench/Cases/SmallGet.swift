import Foundation

extension Case {
    /// Small GETs with 64 requests in flight.
    static let smallGet: Case = {
        let plan = RequestPlan(path: "small", fullCount: 50_000, inFlight: 64, expectedBytes: 11)
        let trial = Trial(
            name: "small-get", unit: "requests/s", limit: Trial.cLoop,
            subjects: [
                .limit(plan), .limit(plan, isTuned: true), .convoy(plan), .convoyFed(plan, named: "convoy-fed"),
                .convoyMeasured(plan, named: "convoy-metrics"), .convoyMonitored(plan, named: "convoy-monitored"),
                .urlSession(plan.reduced(to: 5_000)), .node(plan), .go(plan), .curl(plan.reduced(to: 5_000)),
            ])
        return Case(
            name: trial.name,
            summary: "50,000 GETs of 11 bytes, 64 in flight, keep-alive, with a completion handler each",
            trials: [trial],
            bars: [
                .atLeast(0.85, "of the C loop's requests per second") { $0.ratio(trial.name) },
                .atMost(1.35, "times the C loop's CPU time per request") { $0.ratio(trial.name, by: \.cpuMicroseconds) },
                .atLeast(0.87, "of the C loop's requests per second, when fed") { $0.ratio(trial.name, "convoy-fed") },
                .atMost(1.3, "times its CPU time per request, when fed") {
                    $0.ratio(trial.name, "convoy-fed", by: \.cpuMicroseconds)
                },
                .atLeast(10, "times URLSession's requests per second") { $0.ratio(trial.name, to: "urlsession") },
            ])
    }()

    /// Sequential requests: each is enqueued by the completion handler of the previous one.
    static let smallGetOne: Case = {
        let plan = RequestPlan(path: "small", fullCount: 50_000, inFlight: 1, expectedBytes: 11)
        let trial = Trial(
            name: "small-get-1", unit: "requests/s", limit: Trial.cLoop,
            subjects: [
                .limit(plan), .limit(plan, isTuned: true), .convoyFed(plan), .convoyAwaited(plan),
                .urlSession(plan.reduced(to: 5_000)), .node(plan.reduced(to: 10_000)),
                .go(plan.reduced(to: 10_000)), .curl(plan.reduced(to: 10_000)),
            ])
        return Case(
            name: trial.name, summary: "50,000 sequential GETs of 11 bytes", trials: [trial],
            bars: [
                .atLeast(0.6, "of the C loop's requests per second") { $0.ratio(trial.name) },
                .atLeast(1, "of Node's requests per second") { $0.ratio(trial.name, to: "node") },
            ])
    }()

    /// Small GETs with 64 streams on one connection.
    static let smallGetHTTP2: Case = {
        let plan = RequestPlan(path: "small", fullCount: 50_000, inFlight: 64, usesHTTP2: true, expectedBytes: 11)
        let trial = Trial(
            name: "small-get-h2", unit: "requests/s", limit: Trial.cLoop,
            subjects: [
                .limit(plan), .convoy(plan), .convoyFed(plan, named: "convoy-fed"), .node(plan.reduced(to: 20_000)),
                .go(plan.reduced(to: 20_000)), .curl(plan.reduced(to: 5_000)),
            ])
        return Case(
            name: trial.name, summary: "50,000 GETs of 11 bytes, 64 streams on one HTTP/2 connection over TLS",
            trials: [trial],
            bars: [.atLeast(0.8, "of the C loop's requests per second") { $0.ratio(trial.name) }])
    }()
}
