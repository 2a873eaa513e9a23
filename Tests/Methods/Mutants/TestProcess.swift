import Foundation
import Glibc

/// A run of the tests in a separate process that leaves nothing behind.
enum TestProcess {
    enum End {
        case passed(reachedEnd: Bool)
        case failed(String)
        case hung
    }

    /// Runs suites of one testing library until the first failure.
    static func run(
        _ binary: URL, _ suites: [String], usesXCTest: Bool, environment: [String: String], log: URL, limit: TimeInterval
    ) -> (end: End, seconds: TimeInterval) {
        // All processes of a run have this variable in their environment, so that they can be found.
        let mark = "CONVOY_MUTANT_RUN=\(getpid())-\(UInt64.random(in: 0...UInt64.max))"
        var variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        // The variable sets the seed of the mutants. The tests draw their own seeds.
        variables["CONVOY_SEED"] = nil
        variables["SWIFT_BACKTRACE"] = "enable=no"
        // The tests end with this program, and a mutant that allocates too much memory fails before the machine runs
        // out.
        var words = ["setpriv", "--pdeathsig", "KILL", "prlimit", "--data=6000000000", "--core=0", binary.path]
        if usesXCTest {
            words.append(suites.joined(separator: ","))
        } else {
            let names = suites.map { NSRegularExpression.escapedPattern(for: $0) }.joined(separator: "|")
            words += ["--testing-library", "swift-testing", "--no-parallel", "--filter", "^(\(names))/"]
        }
        var argv = words.map { strdup($0) } + [nil]
        var envp = variables.map { strdup("\($0.key)=\($0.value)") } + [strdup(mark), nil]
        defer { for pointer in argv + envp { free(pointer) } }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, log.path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP))

        let start = DispatchTime.now().uptimeNanoseconds
        func seconds() -> TimeInterval { TimeInterval(DispatchTime.now().uptimeNanoseconds - start) / 1e9 }
        var process: pid_t = 0
        guard posix_spawnp(&process, words[0], &actions, &attributes, &argv, &envp) == 0 else {
            return (.failed("could not be started"), 0)
        }
        var status: Int32 = 0
        var end: End?
        while true {
            let gone = waitpid(process, &status, WNOHANG) == process
            let text = (try? String(decoding: Data(contentsOf: log), as: UTF8.self)) ?? ""
            if let failure = failure(in: text) {
                end = .failed(failure)
            } else if gone {
                end =
                    status == 0
                    ? .passed(reachedEnd: text.contains("Test run with") || text.contains(" Executed "))
                    : .failed("ended with \(status & 0x7f == 0 ? "exit code \(status >> 8)" : "signal \(status & 0x7f)")")
            } else if seconds() > limit {
                end = .hung
            }
            if let end {
                kill(-process, SIGKILL)
                if !gone { waitpid(process, &status, 0) }
                killAll(with: mark)
                return (end, seconds())
            }
            usleep(50_000)
        }
    }

    /// Returns the first line that reports a failed test.
    private static func failure(in text: String) -> String? {
        guard text.contains("✘") || text.contains(": error: ") else { return nil }
        return text.split(separator: "\n").first { line in
            line.hasPrefix("✘") && !line.contains("known issue") || line.contains(": error: ") && line.contains(" : ")
        }.map(String.init)
    }

    private static func killAll(with mark: String) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? [] {
            guard let process = pid_t(name), process != getpid(),
                let environment = FileManager.default.contents(atPath: "/proc/\(name)/environ"),
                environment.range(of: Data(mark.utf8)) != nil
            else { continue }
            kill(process, SIGKILL)
        }
    }
}
