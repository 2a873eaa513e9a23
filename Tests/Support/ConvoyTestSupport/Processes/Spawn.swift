import CEpoll
import Foundation

/// The error if a program could not be run.
public enum ProcessError: Error, CustomStringConvertible, Equatable {
    /// The program is not on the PATH or in the usual directories. The value explains how to install it.
    case notInstalled(String)
    /// A system call failed. The values are its name and its `errno`.
    case system(String, Int32)
    /// The program ended or did not become ready. The value is its output.
    case didNotStart(String)

    public var description: String {
        switch self {
        case .notInstalled(let hint): "not installed: \(hint)"
        case .system(let call, let code): "\(call) failed with errno \(code)"
        case .didNotStart(let output): "the program did not start: \(output)"
        }
    }
}

/// Functions that find and start programs.
public enum Spawn {
    /// Returns the path of a program. Also searches Debian's directory for servers, which may not be on the PATH.
    static func find(_ name: String) -> String? {
        if name.contains("/") { return access(name, X_OK) == 0 ? name : nil }
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let directories = path.split(separator: ":").map(String.init) + ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        return directories.map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }

    /// Starts a program in its own process group with default signal handling and only these descriptors, as 0, 1, 2
    /// and so on. Returns its process ID, which is also that of the group.
    public static func start(
        _ path: String, _ arguments: [String], environment: [String: String], directory: String?, descriptors: [Int32]
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // Move the descriptors above the target numbers first, because a target may be a descriptor that has not been
        // copied yet.
        var lifted: [Int32] = []
        defer { for descriptor in lifted { close(descriptor) } }
        for (number, descriptor) in descriptors.enumerated() {
            let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, Int32(descriptors.count + 3))
            guard copy >= 0 else { throw ProcessError.system("fcntl", errno) }
            lifted.append(copy)
            posix_spawn_file_actions_adddup2(&actions, copy, Int32(number))
        }
        posix_spawn_file_actions_addclosefrom_np(&actions, Int32(descriptors.count))
        if let directory { posix_spawn_file_actions_addchdir_np(&actions, directory) }

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t(), all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        var argv = ([path] + arguments).map { strdup($0) } + [nil]
        var envp = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in argv + envp { free(text) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, path, &actions, &attributes, &argv, &envp)
        guard code == 0 else { throw ProcessError.system("posix_spawn \(path)", code) }
        return pid
    }

    /// Returns a pipe that no other child inherits by accident.
    static func pipe() throws -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        guard pipe2(&ends, O_CLOEXEC) == 0 else { throw ProcessError.system("pipe2", errno) }
        return (ends[0], ends[1])
    }

    /// Waits for the end of a child without blocking a thread, and returns its status as reported by `waitpid`. Call
    /// this once per child, whose process ID is not reused until then.
    public static func end(of pid: pid_t) async -> Int32 {
        let descriptor = cepoll_pidfd_open(pid)
        if descriptor >= 0 {
            let source = DispatchSource.makeReadSource(fileDescriptor: descriptor)
            await withCheckedContinuation { ended in
                source.setEventHandler { source.cancel() }
                // The handler is called once, in any case.
                source.setCancelHandler {
                    close(descriptor)
                    ended.resume()
                }
                source.activate()
            }
        }
        // Poll if the system has no descriptors for processes, or none is free.
        var raw: Int32 = 0
        while waitpid(pid, &raw, WNOHANG) == 0 { try? await Task.sleep(for: .milliseconds(5)) }
        return raw
    }

    /// Returns the exit status as in a shell: 128 plus the number of a signal.
    static func status(_ raw: Int32) -> Int32 {
        let signal = raw & 0x7F
        return signal == 0 ? (raw >> 8) & 0xFF : 128 + signal
    }
}
