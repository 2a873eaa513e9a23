import CEpoll
import ConvoySupport
import Foundation

/// A program that runs beside the tests until it is stopped.
///
/// The program has its own process group, which also contains a guard: a shell that reads from a pipe whose other end
/// only this process has, and that kills the group when that end is closed. The guard is started before the program, so
/// that a test run that crashes at any time leaves nothing behind. (The kernel's parent-death signal is not suitable,
/// because it is sent when the *thread* that started the program ends.)
public final class ChildProcess: Sendable {
    /// The process ID, which is also that of the group.
    public let id: pid_t
    /// The file with the standard output and standard error of the program.
    public let log: URL
    private let lifeline: Int32
    private let exitDescriptor: Int32
    private struct State {
        var status: Int32?
        var isReleased = false
    }
    private let state = Locked(State())

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: A path, or a name to look up.
    ///   - arguments: The arguments of the program.
    ///   - environment: Variables that are added to those of this process.
    ///   - directory: The working directory.
    ///   - log: The file for the output.
    ///   - descriptors: Descriptors that the program gets as 3, 4 and so on. They stay open in this process.
    /// - Throws: `ProcessError`.
    public init(
        _ program: String, _ arguments: [String], environment: [String: String] = [:], directory: URL, log: URL,
        descriptors: [Int32] = []
    ) throws {
        guard let path = Spawn.find(program) else { throw ProcessError.notInstalled(program) }
        let input = open("/dev/null", O_RDONLY | O_CLOEXEC)
        let output = open(log.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { for descriptor in [input, output] where descriptor >= 0 { close(descriptor) } }
        guard input >= 0, output >= 0 else { throw ProcessError.system("open", errno) }
        let pipe = try Spawn.pipe()
        defer { close(pipe.reading) }
        let all = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        // The guard waits for the end of the pipe, and ignores the signal that terminates the program. The program does
        // not get the pipe.
        let number = 3 + descriptors.count
        let script =
            "( trap '' TERM INT HUP; read -r line; kill -s KILL -- -$$ ) <&\(number) & exec \(number)<&-; exec \"$@\""
        do {
            id = try Spawn.start(
                "/bin/sh", ["-c", script, "sh", path] + arguments, environment: all, directory: directory.path,
                descriptors: [input, output, output] + descriptors + [pipe.reading])
        } catch {
            close(pipe.writing)
            throw error
        }
        self.log = log
        lifeline = pipe.writing
        exitDescriptor = cepoll_pidfd_open(id)
    }

    deinit {
        stop()
    }

    /// Whether the program is still running.
    public var isRunning: Bool { exitStatus == nil }

    /// The exit status, or 128 plus the number of a signal; nil while the program runs.
    public var exitStatus: Int32? {
        state.withLock { state in
            if let status = state.status { return status }
            var raw: Int32 = 0
            guard waitpid(id, &raw, WNOHANG) == id else { return nil }
            state.status = Spawn.status(raw)
            return state.status
        }
    }

    /// The output so far.
    public var output: String {
        (try? Data(contentsOf: log)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// Stops the program and every process of its group: sends SIGTERM, and kills remaining processes after `grace`
    /// seconds. Returns when the program has ended. Stopping again has no effect.
    public func stop(grace: TimeInterval = 2) {
        let isFirst = state.withLock { !exchangeReleased(&$0) }
        guard isFirst else { return }
        if isRunning {
            kill(-id, SIGTERM)
            waitForExit(grace)
        }
        // As long as the guard exists, the number of the group cannot be reused.
        kill(-id, SIGKILL)
        while isRunning { waitForExit(1) }
        close(lifeline)
        if exitDescriptor >= 0 { close(exitDescriptor) }
    }

    /// Waits until the program is ready, by polling `condition` every few milliseconds.
    ///
    /// - Returns: False if the program has ended, or was not ready in time.
    func becomesReady(within seconds: TimeInterval, _ condition: () -> Bool) -> Bool {
        let deadline = DispatchTime.now() + seconds
        while DispatchTime.now() < deadline, isRunning {
            if condition() { return true }
            waitForExit(0.003)
        }
        return false
    }

    private func exchangeReleased(_ state: inout State) -> Bool {
        let old = state.isReleased
        state.isReleased = true
        return old
    }

    private func waitForExit(_ seconds: TimeInterval) {
        // If the system has no descriptors for processes, `poll` only waits.
        var watched = pollfd(fd: exitDescriptor, events: Int16(POLLIN), revents: 0)
        poll(&watched, 1, Int32((exitDescriptor >= 0 ? seconds : min(seconds, 0.02)) * 1000))
    }
}
