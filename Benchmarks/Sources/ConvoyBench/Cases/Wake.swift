import CLimit
import Convoy
@_spi(Benchmarks) import ConvoyTransport
import Foundation
import FoundationNetworking

extension Case {
    /// A round trip from another thread to the network thread and back.
    static let wake: Case = {
        let counts = [0, 1_000, 4_000]
        let trials = counts.map { count in
            Trial(
                name: "wake-\(count)", unit: "us", limit: Trial.cLoop,
                subjects: [
                    Subject(Trial.cLoop) { try Wake(idle: count, $0).throughTheLimit() },
                    Subject(Trial.convoy) { try Wake(idle: count, $0).throughConvoy() },
                ])
        }
        return Case(
            name: "wake", summary: "perform on the network thread from another thread and back, with idle sockets",
            trials: trials,
            bars: trials.map { trial in
                .atMost(1.5, "times an eventfd and epoll loop in C (\(trial.name))") { $0.ratio(trial.name) }
            })
    }()
}

/// A ping-pong between the main thread of a process and a loop that watches many idle sockets.
private struct Wake {
    let idle: Int
    let rounds: Int
    let port: Int32

    init(idle: Int, _ context: Context) throws {
        self.idle = idle
        rounds = context.count(50_000)
        // Run both threads on one core. Otherwise the scheduler decides whether they share a core or an idle one must
        // be woken, which has ten times the effect of anything measured here.
        guard limit_stay_on_one_core() == 0 else { throw BenchError("sched_setaffinity: errno \(errno)") }
        port = limit_silent_server()
        guard port > 0 else { throw BenchError("no silent server: errno \(errno)") }
    }

    func throughTheLimit() throws -> Sample {
        var descriptors = [Int32](repeating: -1, count: idle)
        guard limit_connect(port, Int32(idle), &descriptors) == 0 else { throw BenchError("connect: errno \(errno)") }
        try waitForConnections()
        var nanoseconds = [UInt32](repeating: 0, count: rounds)
        let cpu = limit_cpu_seconds()
        guard limit_wake(descriptors, Int32(idle), limit_eventfd(), Int32(rounds), &nanoseconds) == 0 else {
            throw BenchError("cannot set up the C loop")
        }
        return sample(nanoseconds, cpuSeconds: limit_cpu_seconds() - cpu)
    }

    func throughConvoy() throws -> Sample {
        guard let url = URL(string: "http://127.0.0.1:\(port)/") else { throw BenchError("bad URL") }
        let manager = HTTPRequestOperationManager(baseURL: url)
        // A manager's own queue runs only 64 operations per host.
        manager.operationQueue = RequestOperationQueue()
        for _ in 0..<idle { manager.get("silence", success: nil) }
        try waitForConnections()
        let reply = limit_eventfd()
        var nanoseconds = [UInt32](repeating: 0, count: rounds)
        let cpu = limit_cpu_seconds()
        for round in 0..<rounds {
            let start = limit_nanoseconds()
            NetworkThreadWake.perform { limit_signal(reply) }
            limit_wait(reply)
            nanoseconds[round] = UInt32(clamping: limit_nanoseconds() - start)
        }
        return sample(nanoseconds, cpuSeconds: limit_cpu_seconds() - cpu)
    }

    /// Waits until all connections are open and the loop that opened them sleeps.
    private func waitForConnections() throws {
        let deadline = DispatchTime.now() + 30
        while limit_silent_connections() < Int32(idle) {
            guard DispatchTime.now() < deadline else {
                throw BenchError("\(limit_silent_connections()) of \(idle) connections")
            }
            usleep(10_000)
        }
        usleep(200_000)
    }

    private func sample(_ nanoseconds: [UInt32], cpuSeconds: Double) -> Sample {
        let sorted = nanoseconds.sorted()
        return Sample(
            Double(sorted[sorted.count / 2]) / 1000, cpuMicroseconds: cpuSeconds * 1e6 / Double(rounds),
            details: ["p99 us": Double(sorted[sorted.count * 99 / 100]) / 1000])
    }
}
