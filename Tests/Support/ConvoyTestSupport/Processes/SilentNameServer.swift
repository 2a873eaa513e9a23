import CEpoll
import ConvoySupport
import Foundation

/// A name server that never responds, and a mount and a network namespace for one child process, in which it is the
/// only name server (namespaces(7)).
public final class SilentNameServer: Sendable {
    private let descriptor: Int32
    private let count = Locked(0)

    // MARK: Outside

    /// The arguments of `unshare` that this system allows; nil if it allows no namespaces.
    private static let unshare: [String]? = [["--mount", "--net"], ["--map-root-user", "--mount", "--net"]].first {
        (try? ProcessRunner.run("unshare", $0 + ["mount", "--bind", "/dev/null", "/etc/resolv.conf"]))?.status == 0
    }

    /// Whether this system allows such namespaces.
    public static var isPossible: Bool { unshare != nil }
    /// The installation hint shown for a skipped test.
    public static let hint = "unshare and mount, and the right to make namespaces: CAP_SYS_ADMIN, or user namespaces"

    /// Runs a program in the namespaces. Its resolver queries 127.0.0.1, and repeats the query once after
    /// `retryInterval` seconds.
    ///
    /// - Throws: `ProcessError`.
    public static func run(
        _ program: String, _ arguments: [String], environment: [String: String], retryInterval: Int, timeout: TimeInterval
    ) throws -> ProcessRunner.Result {
        guard let unshare else { throw ProcessError.notInstalled(hint) }
        let directory = try TemporaryDirectory(prefix: "convoy-names")
        let resolver = try directory.write(
            Data("nameserver 127.0.0.1\noptions timeout:\(retryInterval) attempts:2\n".utf8), to: "resolv.conf")
        // Use only DNS, because the system's own service would be reached through a socket outside the network
        // namespace.
        let order = try directory.write(Data("hosts: dns\n".utf8), to: "nsswitch.conf")
        let script = """
            mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/nsswitch.conf && shift 2 && exec "$@"
            """
        return try ProcessRunner.run(
            "unshare", unshare + ["/bin/sh", "-c", script, "sh", resolver.path, order.path, program] + arguments,
            environment: environment, timeout: timeout)
    }

    // MARK: Inside

    /// Brings the loopback interface up and starts to receive queries.
    public init() throws {
        let descriptor = try Self.openPort()
        self.descriptor = descriptor
        let thread = Thread { [weak self] in
            var bytes = [UInt8](repeating: 0, count: 512)
            while recv(descriptor, &bytes, bytes.count, 0) > 0 { self?.note() }
        }
        thread.start()
    }

    /// Brings the loopback interface up, and opens a socket on the DNS port.
    static func openPort() throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw ProcessError.system("socket", errno) }
        // A struct ifreq: 16 bytes of name, then the flags.
        var request = [UInt8](repeating: 0, count: 40)
        request.replaceSubrange(0..<2, with: "lo".utf8)
        let flags = UInt16(truncatingIfNeeded: IFF_UP | IFF_RUNNING)
        request[16] = UInt8(truncatingIfNeeded: flags)
        request[17] = UInt8(truncatingIfNeeded: flags >> 8)
        guard ioctl(descriptor, UInt(SIOCSIFFLAGS), &request) == 0 else { throw ProcessError.system("ioctl", errno) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(53).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw ProcessError.system("bind", errno) }
        return descriptor
    }

    private func note() { count.withLock { $0 += 1 } }

    /// The number of received queries.
    public var queries: Int { count.withLock { $0 } }
}
