import ConvoySupport
import Foundation

/// Debian's PgBouncer on a free loopback port, in front of a PostgreSQL server.
public final class PgBouncer: Sendable {
    /// The port on 127.0.0.1.
    public let port: UInt16
    /// The address in the format of libpq.
    public var address: String { "postgresql://convoy@127.0.0.1:\(port)/postgres" }
    private let directory: TemporaryDirectory
    private let process: ChildProcess

    private static let program =
        ["/usr/sbin/pgbouncer"].first { FileManager.default.isExecutableFile(atPath: $0) }
        ?? Spawn.find("pgbouncer")

    /// Whether PgBouncer is installed.
    public static var isInstalled: Bool { program != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint = "PgBouncer. Debian, Ubuntu: apt-get install pgbouncer"

    /// Starts PgBouncer.
    ///
    /// - Parameters:
    ///   - mode: Its `pool_mode`: `session`, `transaction` or `statement`.
    ///   - size: The number of sessions of the server.
    /// - Throws: `ProcessError`.
    public init(to server: PostgresServer, mode: String = "transaction", size: Int = 3) throws {
        guard let program = Self.program else { throw ProcessError.notInstalled(Self.installHint) }
        let directory = try TemporaryDirectory(prefix: "convoy-pgbouncer"), port = try LoopbackPort.free()
        chmod(directory.url.path, 0o755)
        let settings = """
            [databases]
            postgres = host=127.0.0.1 port=\(server.port) user=convoy
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = \(port)
            unix_socket_dir =
            auth_type = any
            pool_mode = \(mode)
            default_pool_size = \(size)
            max_client_conn = 200
            """
        let file = try directory.write(Data(settings.utf8), to: "pgbouncer.ini")
        chmod(file.path, 0o644)
        // It refuses to run as root.
        let user = geteuid() == 0 ? getpwnam("nobody") : nil
        let prefix = user.map {
            ["setpriv", "--reuid=\($0.pointee.pw_uid)", "--regid=\($0.pointee.pw_gid)", "--clear-groups", "--"]
        }
        let words = (prefix ?? []) + [program, file.path]
        process = try ChildProcess(
            words[0], Array(words.dropFirst()), directory: directory.url, log: directory.file("output.log"))
        (self.directory, self.port) = (directory, port)
        let isReady = process.becomesReady(within: 20) { (try? RawClient(port: port)) != nil }
        guard isReady else { throw ProcessError.didNotStart("pgbouncer: \(process.output.suffix(2000))") }
    }

    deinit { stop() }

    public func stop() {
        process.stop(grace: 1)
        directory.remove()
    }
}
