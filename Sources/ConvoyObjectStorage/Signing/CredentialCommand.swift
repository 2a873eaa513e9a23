import CEpoll
import ConvoySupport
import Foundation

/// A command that prints credentials as JSON, in the format of Amazon's `credential_process`. The credentials are kept
/// until shortly before they expire.
final class CredentialCommand: Sendable {
    /// The printed document.
    private struct Document: Decodable {
        let version: Int
        let accessKeyID: String
        let secretAccessKey: String
        let sessionToken: String?
        let expiration: String?

        enum CodingKeys: String, CodingKey {
            case version = "Version", accessKeyID = "AccessKeyId", secretAccessKey = "SecretAccessKey"
            case sessionToken = "SessionToken", expiration = "Expiration"
        }
    }

    private struct Known {
        let credentials: ObjectStorageCredentials
        /// The time after which the command runs again; nil for credentials that do not expire.
        let renewal: Date?
    }

    private let command: String
    private let known = Locked<Known?>(nil)
    /// Held while the command runs, on threads that may block, so that concurrent requests wait for one run instead of
    /// prompting the user several times.
    private let turn = NSLock()
    /// The time limit of the command, in seconds.
    private let limit: TimeInterval
    private static let maximumLength = 64 << 10

    /// - Parameter command: A command line for `/bin/sh`.
    init(_ command: String, limit: TimeInterval = 60) {
        self.command = command
        self.limit = limit
    }

    /// Returns the credentials. Blocks while the command runs.
    func credentials() throws(ObjectStorageError) -> ObjectStorageCredentials {
        turn.lock()
        defer { turn.unlock() }
        if let known = known.withLock({ $0 }), known.renewal.map({ $0 > Date() }) ?? true { return known.credentials }
        let fresh = try Self.parsed(try output())
        known.withLock { $0 = fresh }
        return fresh.credentials
    }

    private static func parsed(_ output: Data) throws(ObjectStorageError) -> Known {
        guard let document = try? JSONDecoder().decode(Document.self, from: output) else {
            throw failure("It did not print credentials as JSON: Version, AccessKeyId and SecretAccessKey.")
        }
        guard document.version == 1 else { throw failure("It printed version \(document.version) instead of 1.") }
        var expiration: Date?
        if let text = document.expiration {
            expiration = StorageDate.parse(text)
            guard let expiration else { throw failure("Its Expiration is not an ISO 8601 time.") }
            guard expiration > Date() else { throw failure("It printed credentials that have expired.") }
        }
        return Known(
            credentials: ObjectStorageCredentials(
                accessKeyID: document.accessKeyID, secretAccessKey: document.secretAccessKey,
                sessionToken: document.sessionToken),
            renewal: expiration.map { $0 - min(300, $0.timeIntervalSinceNow / 2) })
    }

    private static func failure(_ reason: String) -> ObjectStorageError {
        ObjectStorageError(.noCredentials, "The command for credentials failed. \(reason)")
    }

    // MARK: The process

    /// Runs the command, and returns its output.
    private func output() throws(ObjectStorageError) -> Data {
        var ends: [Int32] = [-1, -1]
        guard pipe2(&ends, O_CLOEXEC) == 0 else { throw Self.failure(SystemError().text) }
        let (reader, writer) = (ends[0], ends[1])
        defer { close(reader) }
        let process: pid_t
        do throws(SystemError) {
            defer { close(writer) }
            process = try Self.start(command, output: writer)
        } catch {
            throw Self.failure(error.text)
        }
        let end = MonotonicClock.now + MonotonicTime(limit * 1e9)
        var (output, problem) = read(reader, until: end)
        var status: Int32 = 0
        if problem == nil { problem = wait(for: process, until: end, &status) }
        if problem != nil {
            kill(process, SIGKILL)
            while waitpid(process, &status, 0) < 0, errno == EINTR {}
        }
        if let problem { throw Self.failure(problem) }
        // The bits of WIFEXITED and WEXITSTATUS.
        guard status & 0x7F == 0 else { throw Self.failure("It was ended by signal \(status & 0x7F).") }
        guard status >> 8 & 0xFF == 0 else { throw Self.failure("Its exit status was \(status >> 8 & 0xFF).") }
        return output
    }

    /// Starts a shell with the command. Standard input and standard error are those of this process, so that the command
    /// can prompt.
    private static func start(_ command: String, output: Int32) throws(SystemError) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
        // This process may ignore or block signals.
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var process: pid_t = 0
        var words: [UnsafeMutablePointer<CChar>?] = ["sh", "-c", command].map { (word: String) in strdup(word) }
        words.append(nil)
        defer { for word in words { free(word) } }
        let code = posix_spawn(&process, "/bin/sh", &actions, &attributes, words, environ)
        guard code == 0 else { throw SystemError(code: code) }
        return process
    }

    /// Reads the output to its end. Returns a problem if it is too long or takes too long.
    private func read(_ descriptor: Int32, until end: MonotonicTime) -> (output: Data, problem: String?) {
        var output = Data()
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let now = MonotonicClock.now
            guard now < end else { return (output, timeout) }
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, Int32(clamping: (end - now) / 1_000_000 + 1)) > 0 else { continue }
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count > 0 else { return (output, count < 0 ? SystemError().text : nil) }
            output.append(contentsOf: buffer[..<count])
            guard output.count <= Self.maximumLength else { return (output, "Its output is too long.") }
        }
    }

    /// Waits for the end of the process, which may have closed its output earlier. Returns a problem if it takes too long.
    private func wait(for process: pid_t, until end: MonotonicTime, _ status: inout Int32) -> String? {
        var pause: UInt32 = 500
        while waitpid(process, &status, WNOHANG) == 0 {
            guard MonotonicClock.now < end else { return timeout }
            pause = min(pause * 2, 50_000)
            usleep(pause)
        }
        return nil
    }

    private var timeout: String { "It did not end within \(Int(limit)) seconds." }
}
