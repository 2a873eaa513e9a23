import CEpoll
import Foundation

/// Runs a program to its end and returns its output.
///
/// The calling thread does all the work and is blocked until the end; no other thread or queue is used. Output of any
/// size is read as it arrives, which prevents deadlocks.
public enum ProcessRunner {
    /// The result of a program.
    public struct Result: Sendable {
        /// The exit status, or 128 plus the number of the signal that ended the program.
        public var status: Int32
        /// The standard output.
        public var output: Data
        /// The standard error.
        public var errors: Data
        /// Whether the program was killed after the timeout.
        public var timedOut: Bool
        /// The standard output as a string.
        public var text: String { String(decoding: output, as: UTF8.self) }
        /// The standard error as a string.
        public var errorText: String { String(decoding: errors, as: UTF8.self) }
    }

    /// Runs a program.
    ///
    /// - Parameters:
    ///   - program: A path, or a name to look up.
    ///   - arguments: The arguments of the program.
    ///   - input: The standard input.
    ///   - environment: Variables that are added to those of this process.
    ///   - directory: The working directory.
    ///   - timeout: The time in seconds after which the program and every process of its group is killed.
    /// - Throws: `ProcessError`.
    public static func run(
        _ program: String, _ arguments: [String] = [], input: Data = Data(), environment: [String: String] = [:],
        directory: URL? = nil, timeout: TimeInterval = 60
    ) throws -> Result {
        guard let path = Spawn.find(program) else { throw ProcessError.notInstalled(program) }
        let source = try inputFile(input)
        defer { close(source) }
        let out = try Spawn.pipe()
        defer { close(out.reading) }
        let err: (reading: Int32, writing: Int32)
        let pid: pid_t
        do {
            err = try Spawn.pipe()
        } catch {
            close(out.writing)
            throw error
        }
        defer { close(err.reading) }
        do {
            defer { close(out.writing); close(err.writing) }
            pid = try Spawn.start(
                path, arguments, environment: ProcessInfo.processInfo.environment.merging(environment) { $1 },
                directory: directory?.path, descriptors: [source, out.writing, err.writing])
        }
        return collect(pid, out.reading, err.reading, timeout)
    }

    /// Returns a file rather than a pipe, so that a program that does not read its input cannot block this one or cause
    /// SIGPIPE.
    private static func inputFile(_ input: Data) throws -> Int32 {
        guard !input.isEmpty else {
            let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard null >= 0 else { throw ProcessError.system("open", errno) }
            return null
        }
        let directory = try TemporaryDirectory(prefix: "convoy-input")
        let url = try directory.write(input, to: "input")
        let descriptor = open(url.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw ProcessError.system("open", errno) }
        return descriptor
    }

    private static func collect(_ pid: pid_t, _ out: Int32, _ err: Int32, _ timeout: TimeInterval) -> Result {
        var result = Result(status: -1, output: Data(), errors: Data(), timedOut: false)
        let exit = cepoll_pidfd_open(pid)
        defer { if exit >= 0 { close(exit) } }
        var watched = [out, err, exit].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var deadline = DispatchTime.now() + timeout
        var hasEnded = false
        while watched[0].fd >= 0 || watched[1].fd >= 0 || !hasEnded {
            let now = DispatchTime.now()
            if now >= deadline {
                // After the program has ended, do not wait for a grandchild that holds the pipe.
                if hasEnded { break }
                result.timedOut = true
                kill(-pid, SIGKILL)
                deadline = now + 1
            }
            let left = (deadline.uptimeNanoseconds - min(now.uptimeNanoseconds, deadline.uptimeNanoseconds)) / 1_000_000
            poll(&watched, 3, Int32(min(left + 1, 1000)))
            if watched[0].revents != 0, !take(out, into: &result.output) { watched[0].fd = -1 }
            if watched[1].revents != 0, !take(err, into: &result.errors) { watched[1].fd = -1 }
            if !hasEnded {
                var status: Int32 = 0
                if waitpid(pid, &status, WNOHANG) == pid {
                    hasEnded = true
                    result.status = Spawn.status(status)
                    watched[2].fd = -1
                    deadline = min(deadline, .now() + 0.5)
                }
            }
        }
        return result
    }

    private static func take(_ descriptor: Int32, into data: inout Data) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = read(descriptor, &bytes, bytes.count)
        // Appending a slice of an array would copy it byte by byte, which is slow in a debug build.
        if count > 0 { bytes.withUnsafeBytes { data.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[..<count])) } }
        return count > 0 || (count < 0 && errno == EINTR)
    }
}
