import CLimit
import Foundation

/// Measures Convoy, the limit and its peers, and reports whether Convoy meets its targets.
@main
struct ConvoyBench {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            if arguments.first == Runner.subjectCommand {
                limit_die_with_parent()
                try Runner.runSubject(Array(arguments.dropFirst()))
            } else if arguments.first == InstructionCount.formCommand {
                limit_die_with_parent()
                try InstructionCount.runForm(Array(arguments.dropFirst()))
            } else if arguments.contains("--help") {
                print(arguments.first == InstructionCount.command ? InstructionCount.usage : Options.usage)
            } else if arguments.first == InstructionCount.command {
                try InstructionCount(Array(arguments.dropFirst())).run()
            } else {
                try bench(Options(arguments))
            }
        } catch {
            Report.note("convoy-bench: \(error)")
            exit(1)
        }
    }

    private static func bench(_ given: Options) throws {
        var options = given
        if !LossyLink.isHere {
            for benchCase in given.cases where benchCase.needsLossyLink { try LossyLink.run(benchCase, given) }
            options.cases.removeAll { $0.needsLossyLink }
            if options.cases.isEmpty { return }
        }
        let server = try BenchServer(isQuick: options.isQuick)
        defer { server.stop() }
        // Files in memory file systems are not removed automatically when the process ends.
        let signals = [SIGINT, SIGTERM, SIGHUP, SIGPIPE].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                server.stop()
                exit(128 + number)
            }
            source.resume()
            return source
        }
        defer { for source in signals { source.cancel() } }
        let runner = Runner(options: options, server: server)
        let report = Report(printsJSON: options.printsJSON, checksBars: !options.isQuick)
        if !options.printsJSON {
            print(
                "\(options.rounds) round(s), alternating subjects, files in \(server.fileSystem). Medians over the rounds;"
            )
            print("ratios are computed within each round before taking the median.")
        }
        var failures = 0
        for benchCase in options.cases {
            let results = try runner.run(benchCase)
            report.write(benchCase, results)
            failures += results.failures
            // Flush, so that output to a file or a pipe also appears case by case.
            fflush(nil)
        }
        if failures > 0 { throw BenchError("\(failures) run(s) failed") }
    }
}
