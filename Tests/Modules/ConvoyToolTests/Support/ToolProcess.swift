import ConvoyTestSupport
import Foundation
import Synchronization
import Testing

/// The program `convoy` as a child process, as a user runs it.
final class ToolProcess: Sendable {
    /// The result of a run.
    struct Result: Sendable {
        /// The exit status, or the negated number of the signal that ended the program.
        var status: Int32
        var output: String
        var errors: String

        var outputLines: [String] { output.split(separator: "\n").map(String.init) }
        var errorLines: [String] { errors.split(separator: "\n").map(String.init) }

        /// Returns the objects of `--json`, one per line.
        func objects() throws -> [[String: any Sendable]] {
            try outputLines.map { line in
                let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
                return try #require(object).compactMapValues { value -> (any Sendable)? in
                    switch value {
                    case let text as String: text
                    case let number as NSNumber: number.doubleValue
                    default: nil
                    }
                }
            }
        }
    }

    /// The process ID, which is also that of its group.
    let id: pid_t
    private let directory: URL
    private let hasEnded = Atomic(false)

    /// Returns the executable, which the package manager puts next to the tests. Fails the test if it is missing.
    static func executable() throws -> URL {
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        let tool = tests.deletingLastPathComponent().appendingPathComponent("convoy")
        try #require(
            FileManager.default.isExecutableFile(atPath: tool.path),
            "\(tool.path) does not exist: build the product convoy first")
        return tool
    }

    /// Starts the program.
    ///
    /// - Parameters:
    ///   - directory: The working directory.
    ///   - columns: The width of the terminal on which the program runs; nil for no terminal.
    convenience init(
        _ arguments: [String], in directory: URL, input: String = "", environment: [String: String] = [:],
        columns: Int? = nil
    ) throws {
        let tool = try Self.executable().path
        guard let columns else {
            try self.init(tool, arguments, directory, input, environment)
            return
        }
        let command = ([tool] + arguments).map { "'\($0)'" }.joined(separator: " ")
        try self.init(command: "exec \(command)", in: directory, environment: environment, columns: columns)
    }

    /// Starts a shell command that runs the program as `$convoy`.
    ///
    /// - Parameter columns: The width of the terminal on which the program runs; nil for no terminal.
    convenience init(
        command: String, in directory: URL, input: String = "", environment: [String: String] = [:],
        columns: Int? = nil
    ) throws {
        let environment = environment.merging(["convoy": try Self.executable().path, "SHELL": "/bin/bash"]) { $1 }
        guard let columns else {
            try self.init("/bin/bash", ["-c", command], directory, input, environment)
            return
        }
        // `script` provides the terminal, and writes what the terminal receives to its own output.
        let script = "stty cols \(columns) rows 24; \(command)"
        try self.init("/usr/bin/script", ["-qec", script, "/dev/null"], directory, input, environment)
    }

    private init(
        _ program: String, _ arguments: [String], _ directory: URL, _ input: String, _ environment: [String: String]
    ) throws {
        self.directory = directory.appendingPathComponent(".run-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
        var variables = ProcessInfo.processInfo.environment
        variables["TERM"] = "xterm"
        variables["LC_ALL"] = "C.UTF-8"
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "NO_COLOR"] { variables[name] = nil }
        // Ignore the configuration of the user who runs the tests.
        variables["XDG_CONFIG_HOME"] = self.directory.appendingPathComponent("no-configuration").path
        // Use files rather than pipes, because a full pipe would block the program until it is read.
        try Data(input.utf8).write(to: self.directory.appendingPathComponent("input"))
        var files: [Int32] = []
        defer { for file in files { close(file) } }
        for (name, flags) in [("input", O_RDONLY), ("output", O_WRONLY | O_CREAT), ("errors", O_WRONLY | O_CREAT)] {
            let file = open(self.directory.appendingPathComponent(name).path, flags | O_CLOEXEC, 0o600)
            guard file >= 0 else { throw ProcessError.system("open", errno) }
            files.append(file)
        }
        id = try Spawn.start(
            program, arguments, environment: variables.merging(environment) { $1 }, directory: directory.path,
            descriptors: files)
    }

    /// Kills a process that a failed test did not wait for, together with its group.
    deinit {
        guard !hasEnded.load(ordering: .relaxed) else { return }
        kill(-id, SIGKILL)
        var status: Int32 = 0
        waitpid(id, &status, 0)
    }

    /// Runs the program to completion.
    static func run(
        _ arguments: [String], in directory: URL, input: String = "", environment: [String: String] = [:],
        columns: Int? = nil
    ) async throws -> Result {
        try await ToolProcess(
            arguments, in: directory, input: input, environment: environment, columns: columns
        ).finished()
    }

    /// Returns a loop in which a shell waits, for at most half a minute, so that an aborted test does not leave a shell
    /// behind.
    static func shellWait(for condition: String) -> String {
        "for n in {1..1500}; do \(condition) && break; sleep 0.02; done"
    }

    /// Returns a shell command that runs a job in a separate process group, while the shell executes other commands with the
    /// job's `$pid`. The shell exits with the status of the job.
    ///
    /// If a job is stopped, bash's `wait` may return the status of the stop, and `wait -f` may not find the process.
    static func shell(job command: String, meanwhile: String) -> String {
        """
        set -m
        ( bash -c 'echo $$ >pid; exec \(command)'; echo $? >status ) &
        \(shellWait(for: "[ -s pid ]")); read pid <pid
        \(meanwhile)
        \(shellWait(for: "[ -s status ]")); exit $(cat status)
        """
    }

    /// Runs a shell command that runs the program as `$convoy`.
    static func run(command: String, in directory: URL, columns: Int? = nil) async throws -> Result {
        try await ToolProcess(command: command, in: directory, columns: columns).finished()
    }

    /// Waits until the program has written a string to its standard output, after another string if one is given.
    func waitForOutput(_ text: String, behind earlier: String? = nil) async throws {
        try await waitUntil("\(text.debugDescription) in the output") {
            var output = try String(decoding: Data(contentsOf: file("output")), as: UTF8.self)[...]
            if let earlier { output = output.range(of: earlier).map { output[$0.upperBound...] } ?? "" }
            return output.contains(text)
        }
    }

    /// Returns the standard output so far.
    func output() throws -> String { String(decoding: try Data(contentsOf: file("output")), as: UTF8.self) }

    /// Returns the standard error so far.
    func errors() throws -> String { String(decoding: try Data(contentsOf: file("errors")), as: UTF8.self) }

    func send(signal: Int32) { kill(id, signal) }

    /// Waits for the program to end. If it takes more than half a minute, it is killed and the test fails.
    func finished() async throws -> Result {
        let watchdog = DispatchWorkItem { [id] in
            Issue.record("convoy was killed, because it had not ended after 30 seconds")
            kill(id, SIGKILL)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + 30, execute: watchdog)
        let status = await Spawn.end(of: id)
        hasEnded.store(true, ordering: .relaxed)
        watchdog.cancel()
        let signal = status & 0x7F
        let result = Result(
            status: signal == 0 ? (status >> 8) & 0xFF : -signal,
            output: String(decoding: try Data(contentsOf: file("output")), as: UTF8.self),
            errors: String(decoding: try Data(contentsOf: file("errors")), as: UTF8.self))
        try FileManager.default.removeItem(at: directory)
        return result
    }

    private func file(_ name: String) -> URL { directory.appendingPathComponent(name) }
}
