import Foundation

/// The cost of evaluating server trust.
extension Case {
    /// Requests on keep-alive connections, for which trust has already been evaluated.
    static let secureGet: Case = {
        let plan = RequestPlan(path: "small", fullCount: 30_000, inFlight: 64, isSecure: true, expectedBytes: 11)
        let trial = Trial(
            name: "tls-get", unit: "requests/s", limit: Trial.cLoop,
            subjects: [.limit(plan), .convoyFed(plan), .convoyPinned(plan, named: "convoy-pinned")])
        return Case(
            name: trial.name,
            summary: "30,000 GETs of 11 bytes over TLS, HTTP/1.1, 64 in flight, keep-alive, with and without pins",
            trials: [trial],
            bars: [
                .atMost(1.03, "times the CPU time per request with pins") {
                    $0.ratio(trial.name, "convoy-pinned", to: Trial.convoy, by: \.cpuMicroseconds)
                }
            ])
    }()

    /// Requests with a full handshake each.
    static let handshake: Case = {
        let plan = RequestPlan(path: "close", fullCount: 3_000, inFlight: 8, isSecure: true, expectedBytes: 11)
        let trial = Trial(
            name: "tls-handshake", unit: "requests/s", limit: Trial.cLoop,
            subjects: [.limit(plan), .convoyFed(plan), .convoyPinned(plan, named: "convoy-pinned")])
        return Case(
            name: trial.name, summary: "3,000 GETs of 11 bytes over TLS, each with a handshake, 8 in flight",
            trials: [trial],
            bars: [
                .atMost(1.05, "times the CPU time per handshake with pins") {
                    $0.ratio(trial.name, "convoy-pinned", to: Trial.convoy, by: \.cpuMicroseconds)
                },
                .atMost(1.05, "times the CPU time of the C loop, in which libcurl checks the certificate") {
                    $0.ratio(trial.name, "convoy-pinned", by: \.cpuMicroseconds)
                },
            ])
    }()
}
