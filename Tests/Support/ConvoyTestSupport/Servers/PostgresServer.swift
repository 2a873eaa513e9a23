import ConvoySupport
import Foundation

/// Debian's PostgreSQL on a free loopback port, with a separate data directory and no password.
///
/// PostgreSQL refuses to run as root. In that case, it runs as the user `postgres`, or as `nobody`.
public final class PostgresServer: Sendable {
    /// The port on 127.0.0.1.
    public let port: UInt16
    /// The address in the format of libpq.
    public var address: String { "postgresql://convoy@127.0.0.1:\(port)/postgres" }
    private let directory: TemporaryDirectory
    private let programs: String
    private let current: Locked<ChildProcess?>

    /// The directory of the programs; nil if they are not installed.
    private static let programs: String? = {
        let root = "/usr/lib/postgresql"
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).compactMap { Int($0) }
        let places = versions.sorted(by: >).map { "\(root)/\($0)/bin" }
        return places.first { FileManager.default.isExecutableFile(atPath: "\($0)/initdb") }
            ?? Spawn.find("initdb").map { URL(fileURLWithPath: $0).deletingLastPathComponent().path }
    }()

    /// Whether PostgreSQL is installed.
    public static var isInstalled: Bool { programs != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint = "PostgreSQL. Debian, Ubuntu: apt-get install postgresql"

    /// The server shared by all tests of this process, each of which uses its own schema; nil if PostgreSQL is not
    /// installed.
    public static let shared: PostgresServer? = isInstalled ? try? PostgresServer() : nil

    /// Creates a cluster, starts it, and returns when it responds. Takes some seconds.
    ///
    /// - Parameter synchronizes: Whether the server waits for the disk, as in production.
    /// - Throws: `ProcessError`.
    public init(synchronizes: Bool = false) throws {
        guard let programs = Self.programs else { throw ProcessError.notInstalled(Self.installHint) }
        self.programs = programs
        directory = try TemporaryDirectory(prefix: "convoy-pg")
        let data = directory.file("data").path
        if let user = Self.user {
            guard chown(directory.url.path, user.id, user.group) == 0 else { throw ProcessError.system("chown", errno) }
        }
        let initialization = Self.command(
            "\(programs)/initdb",
            ["--no-sync", "--no-instructions", "-A", "trust", "-U", "convoy", "-E", "UTF8", "--locale=C.UTF-8", "-D", data])
        let result = try ProcessRunner.run(initialization.program, initialization.arguments)
        guard result.status == 0 else { throw ProcessError.didNotStart("initdb: \(result.errorText)") }
        port = try LoopbackPort.free()
        let settings = """
            port = \(port)
            listen_addresses = '127.0.0.1'
            unix_socket_directories = ''
            max_connections = 200
            shared_buffers = 128MB
            fsync = \(synchronizes ? "on" : "off")
            """
        let file = try directory.write(Data(settings.utf8), to: "settings.conf")
        chmod(file.path, 0o644)
        current = Locked(nil)
        try start()
    }

    deinit { stop() }

    /// Starts the server again after ``halt(immediately:)``.
    public func start() throws {
        let server = Self.command(
            "\(programs)/postgres",
            ["-D", directory.file("data").path, "-c", "config_file=\(directory.file("data").path)/postgresql.conf"])
        let include = "include '\(directory.file("settings.conf").path)'\n"
        let configuration = directory.file("data/postgresql.conf")
        if let text = try? String(contentsOf: configuration, encoding: .utf8), !text.contains(include) {
            let handle = try FileHandle(forWritingTo: configuration)
            try handle.seekToEnd()
            try handle.write(contentsOf: Data(("\n" + include).utf8))
            try handle.close()
        }
        let process = try ChildProcess(
            server.program, server.arguments, directory: directory.url, log: directory.file("output.log"))
        current.withLock { $0 = process }
        let isReady = process.becomesReady(within: 30) {
            let ready = try? ProcessRunner.run("\(programs)/pg_isready", ["-q", "-h", "127.0.0.1", "-p", "\(port)"])
            return ready?.status == 0
        }
        guard isReady else { throw ProcessError.didNotStart("postgres: \(process.output.suffix(2000))") }
    }

    /// Stops the server and keeps its data.
    ///
    /// - Parameter immediately: Whether the server is killed, as in a crash.
    public func halt(immediately: Bool = false) {
        let process = current.withLock { $0.take() }
        if immediately, let process { kill(-process.id, SIGKILL) }
        // SIGINT closes all connections.
        if let process, !immediately { kill(process.id, SIGINT) }
        process?.stop(grace: 10)
    }

    /// Stops the server and removes its data.
    public func stop() {
        halt(immediately: true)
        directory.remove()
    }

    /// Runs statements with `psql`, and returns its output.
    @discardableResult
    public func run(_ sql: String) throws -> String {
        let result = try ProcessRunner.run(
            "\(programs)/psql", ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, address])
        guard result.status == 0 else { throw ProcessError.didNotStart("psql: \(result.errorText)") }
        return result.text
    }

    // MARK: Who runs it

    private static let user: (name: String, id: uid_t, group: gid_t)? = {
        guard geteuid() == 0 else { return nil }
        for name in ["postgres", "nobody"] {
            if let entry = getpwnam(name) { return (name, entry.pointee.pw_uid, entry.pointee.pw_gid) }
        }
        return nil
    }()

    private static func command(_ program: String, _ arguments: [String]) -> (program: String, arguments: [String]) {
        guard let user else { return (program, arguments) }
        return (
            "setpriv", ["--reuid=\(user.id)", "--regid=\(user.group)", "--clear-groups", "--", program] + arguments
        )
    }
}
