import ConvoyTestSupport
import Foundation

/// A loopback interface in a separate network namespace that delays each packet by 25 ms and loses one in a hundred,
/// for a round-trip time of 50 ms.
enum LossyLink {
    private static let setUp = "ip link set lo up && tc qdisc add dev lo root netem delay 25ms loss 1%"
    private static let variable = "CONVOY_BENCH_LINK"

    /// Whether this process runs in the namespace.
    static var isHere: Bool { ProcessInfo.processInfo.environment[variable] != nil }

    /// Runs a case in the namespace, and prints its output. If the machine does not permit that, prints the reason.
    static func run(_ benchCase: Case, _ options: Options) throws {
        let trial = try? ProcessRunner.run("unshare", ["--net", "sh", "-c", setUp], timeout: 30)
        guard let trial, trial.status == 0 else {
            let reason = trial?.errorText.trimmingCharacters(in: .whitespacesAndNewlines) ?? "unshare is not installed"
            return Report.note("\(benchCase.name): skipped, because a lossy link cannot be created: \(reason)")
        }
        let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        var arguments = [benchCase.name, "--rounds", "\(max(options.rounds, 9))"]
        if options.isQuick { arguments = [benchCase.name, "--quick"] }
        if options.printsJSON { arguments.append("--json") }
        let result = try ProcessRunner.run(
            "unshare", ["--net", "sh", "-c", "\(setUp) && exec \"$@\"", "sh", executable] + arguments,
            environment: [variable: "1"], timeout: 3600)
        FileHandle.standardOutput.write(result.output)
        guard result.status == 0 else { throw BenchError("\(benchCase.name): \(result.errorText)") }
    }
}
