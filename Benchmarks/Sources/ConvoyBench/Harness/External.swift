import CLimit
import ConvoyTestSupport
import Foundation

/// External programs used as subjects.
enum External {
    /// Returns the path of a program on the PATH.
    static func find(_ name: String) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        return path.split(separator: ":").map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }

    /// The directory of the package's scripts.
    static let scripts = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Scripts")

    /// The sample printed by a script, as one JSON object.
    struct ScriptReport: Decodable {
        var seconds: Double
        var cpuSeconds: Double
        var peakKilobytes: Int
        var failed: Int
    }

    /// Runs a script that makes GETs. Its arguments are `URL COUNT IN_FLIGHT WARM_UP BYTES` and, for HTTP/2, the file
    /// with the certificate authority.
    static func requests(
        _ program: String, _ arguments: [String], plan: RequestPlan, context: Context
    ) throws -> Sample {
        let count = plan.requests(context)
        let result = try ProcessRunner.run(
            program,
            arguments + [
                plan.url(context).absoluteString, "\(count)", "\(plan.inFlight)", "\(plan.warmUp(context))",
                "\(plan.expectedBytes)",
            ] + (plan.usesHTTP2 ? [context.certificateAuthority.path] : []), timeout: 300)
        guard result.status == 0 else { throw BenchError("\(program): \(result.errorText)") }
        let report = try JSONDecoder().decode(ScriptReport.self, from: result.output)
        try BenchError.check(failed: report.failed, of: count)
        return .rate(
            count, Cost(seconds: report.seconds, cpuSeconds: report.cpuSeconds), peakKilobytes: report.peakKilobytes)
    }

    /// Builds a Go program once, and returns the executable.
    static func goProgram(_ name: String, context: Context) throws -> String {
        let program = context.scratch.appendingPathComponent(name).path
        if access(program, X_OK) != 0 {
            let result = try ProcessRunner.run(
                "go", ["build", "-o", program, scripts.appendingPathComponent("\(name).go").path],
                environment: ["GOCACHE": context.scratch.appendingPathComponent("go").path, "GO111MODULE": "off"],
                timeout: 300)
            guard result.status == 0 else { throw BenchError("go build: \(result.errorText)") }
        }
        return program
    }

    /// Runs a program that does not measure itself. Returns its elapsed time, its CPU time, and its memory, sampled
    /// every few milliseconds. (The peak that the kernel reports at the end is at least the memory that this process
    /// had when it started the program.)
    static func whole(
        _ program: String, _ arguments: [String], context: Context
    ) throws -> (cost: Cost, peakKilobytes: Int, output: String) {
        let log = context.scratch.appendingPathComponent("\(program).log")
        defer { try? FileManager.default.removeItem(at: log) }
        var before = rusage()
        getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &before)
        let start = limit_nanoseconds()
        let process = try ChildProcess(program, arguments, directory: context.scratch, log: log)
        var peak = 0
        while process.isRunning {
            peak = max(peak, limit_memory_of(process.id, "VmHWM"))
            usleep(1000)
        }
        let seconds = Double(limit_nanoseconds() - start) / 1e9
        var after = rusage()
        getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &after)
        guard process.exitStatus == 0 else { throw BenchError("\(program): \(process.output)") }
        return (Cost(seconds: seconds, cpuSeconds: after.seconds - before.seconds), peak, process.output)
    }
}

extension rusage {
    /// The user and system time, in seconds.
    fileprivate var seconds: Double {
        Double(ru_utime.tv_sec + ru_stime.tv_sec) + Double(ru_utime.tv_usec + ru_stime.tv_usec) / 1e6
    }
}
