import CLimit
import Convoy
import ConvoyTestSupport
import Foundation
import Synchronization

extension Case {
    /// Small requests while another transfer uses all the bandwidth it can get.
    static let beside: Case = {
        let trials = LargeTransfer.allCases.map { transfer in
            var subjects = [Subject(Trial.convoy) { try Beside(transfer, $0).convoy() }]
            if transfer.hasProgram {
                subjects.append(Subject("apart", needs: "curl") { try Beside(transfer, $0).apart() })
                subjects.append(Subject("node", needs: "node") { try Beside(transfer, $0).node() })
            }
            return Trial(
                name: "beside-\(transfer)", unit: "ms", limit: transfer.hasProgram ? "apart" : nil, subjects: subjects)
        }
        return Case(
            name: "beside",
            summary: "2,000 GETs of 11 bytes per second during a large transfer in the same manager: 99th percentile",
            trials: trials,
            bars: trials.map { trial in
                .atMost(5, "ms for 99 of 100 GETs (\(trial.name))") { $0.median(trial.name, Trial.convoy) }
            }, needsLargeFile: true)
    }()
}

/// GETs at a constant rate during a large transfer. The time of each GET is measured from its scheduled start, so a
/// client that is late with one is also late with those after it. The GETs are answered by a separate server, which the
/// large transfer does not delay.
struct Beside {
    private let transfer: LargeTransfer
    private let context: Context
    private let count: Int
    /// The number of warm-up GETs that are made while the large transfer starts.
    private let warmUp: Int
    private static let interval: UInt64 = 500_000

    init(_ transfer: LargeTransfer, _ context: Context) {
        (self.transfer, self.context) = (transfer, context)
        count = context.count(6_000)
        warmUp = context.isQuick ? 20 : 400
    }

    /// Runs both the GETs and the large transfer in one manager.
    func convoy() throws -> Sample {
        let manager = self.manager()
        let files = context.scratch.appendingPathComponent("beside")
        let repeated = try transfer.operation(manager, context).map { RepeatedTransfer(manager, in: files, $0) }
        try repeated?.start()
        let times = get(manager)
        var sample = try self.sample(times)
        if let repeated {
            let finished = try repeated.stop()
            if finished.seconds > 0, let size = transfer.size(context) {
                sample.details["MiB/s"] = Double(size) * Double(finished.count) / 1048576 / finished.seconds
            }
        }
        return sample
    }

    /// Runs the large transfer with the `curl` program, so that only the machine and the server are shared.
    func apart() throws -> Sample {
        let programs = try transfer.curl(context).enumerated().map { number, arguments in
            // The directory is the subject's own, and the program ends with it.
            try ChildProcess(
                "sh", ["-c", "while curl \"$@\"; do :; done", "sh", "-q", "-s", "-f"] + arguments,
                directory: context.scratch, log: context.scratch.appendingPathComponent("curl-\(number).log"))
        }
        defer { for program in programs { program.stop() } }
        let times = get(manager())
        guard programs.allSatisfy(\.isRunning) else { throw BenchError("curl: \(programs.map(\.output))") }
        return try sample(times)
    }

    /// Runs both in one process of Node.
    func node() throws -> Sample {
        let result = try ProcessRunner.run(
            "node",
            [
                External.scripts.appendingPathComponent("beside.mjs").path, transfer.rawValue,
                context.url.absoluteString, context.secureURL.absoluteString, context.sinkURL.absoluteString,
                context.certificateAuthority.path, context.largeFile.path, context.scratch.path, "\(count)", "\(warmUp)",
            ], timeout: 300)
        guard result.status == 0 else { throw BenchError("node: \(result.errorText)") }
        struct Output: Decodable {
            var milliseconds: [Double]
            var peakKilobytes: Int
        }
        let output = try JSONDecoder().decode(Output.self, from: result.output)
        return try sample(output.milliseconds, peakKilobytes: output.peakKilobytes)
    }

    private func manager() -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: context.url)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.completionQueue = DispatchQueue(label: "bench.completion")
        manager.connectionConfiguration.certificateAuthorities = context.certificateAuthority
        return manager
    }

    /// Makes the GETs, and returns the time of each successful one in milliseconds.
    private func get(_ manager: HTTPRequestOperationManager) -> [Double] {
        let total = warmUp + count
        let times = Times()
        let countdown = Countdown(total)
        let start = limit_nanoseconds() + Self.interval
        for number in 0..<total {
            let due = start + UInt64(number) * Self.interval
            let isWarmUp = number < warmUp
            limit_sleep_until(due)
            manager.get(context.sinkURL) { _, object in
                let isRight = (object as? Data)?.count == 11
                if isRight, !isWarmUp { times.add(Double(limit_nanoseconds() - due) / 1e6) }
                countdown.done(isRight)
            } failure: { _, error in
                Report.note("\(error)")
                countdown.done(false)
            }
        }
        _ = countdown.wait()
        return times.values
    }

    /// Returns the 99th percentile and other figures.
    private func sample(_ milliseconds: [Double], peakKilobytes: Int? = nil) throws -> Sample {
        try BenchError.check(failed: count - milliseconds.count, of: count)
        let sorted = milliseconds.sorted()
        func percentile(_ part: Double) -> Double { sorted[min(sorted.count - 1, Int(part * Double(sorted.count)))] }
        return Sample(
            percentile(0.99), peakKilobytes: peakKilobytes,
            details: ["p50": percentile(0.5), "p99": percentile(0.99), "p99.9": percentile(0.999)])
    }
}

private final class Times: Sendable {
    private let collected = Mutex<[Double]>([])
    var values: [Double] { collected.withLock { $0 } }

    func add(_ milliseconds: Double) { collected.withLock { $0.append(milliseconds) } }
}
