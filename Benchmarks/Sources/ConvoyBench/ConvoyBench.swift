import CLimit
import Foundation

/// Measures Convoy beside the limit and its peers, and says whether it keeps what it promises.
@main
struct ConvoyBench {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            if arguments.first == Runner.subjectCommand {
                limit_die_with_parent()
                try Runner.runSubject(Array(arguments.dropFirst()))
            } else if arguments.contains("--help") {
                print(Options.usage)
            } else {
                try bench(Options(arguments))
            }
        } catch {
            Report.note("convoy-bench: \(error)")
            exit(1)
        }
    }

    private static func bench(_ options: Options) throws {
        let server = try BenchServer(isQuick: options.isQuick)
        defer { server.stop() }
        // What is in memory file systems stays there until somebody removes it.
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
        let report = Report(printsJSON: options.printsJSON, judges: !options.isQuick)
        if !options.printsJSON {
            print(
                "\(options.rounds) round(s), the subjects in turn; files are in \(server.fileSystem). Medians over the rounds;"
            )
            print("a ratio is taken within each round, and its median is over those.")
        }
        var failures = 0
        for benchCase in options.cases {
            let results = try runner.run(benchCase)
            report.write(benchCase, results)
            failures += results.failures
            // Into a file or a pipe, too, case by case.
            fflush(nil)
        }
        if failures > 0 { throw BenchError("\(failures) run(s) failed") }
    }
}
