import ConvoySupport
import Foundation

/// Debian's nginx on free loopback ports, with its own configuration and directory.
///
/// | path | response |
/// |---|---|
/// | `/NAME` | the file of that name in `files`, with ranges, ETag and Last-Modified |
/// | `/gzip/NAME` | the same file, compressed when the client accepts it |
/// | `/few-N/NAME?key=KEY` | the same file, slowly, over N connections for each key (1 to 3); 503 for others |
/// | `/small` | 11 bytes, "hello world" |
/// | `/json` | 1,024 bytes of JSON |
/// | `/empty` | 204 |
/// | `/moved` | 302 to `/small` |
/// | `/credentials` | `[Authorization][Proxy-Authorization]` as received |
/// | `/upload` | reads a body of any size and method to its end, discards it, responds with 204 |
/// | `/dav/NAME` | WebDAV PUT and DELETE into `uploads`, if the nginx has the module (`hasDAV`) |
/// | `/forward/PATH` | `/PATH` of another server on this machine, unbuffered; the client's protocol as
/// `X-Server-Protocol` |
///
/// The response of `/upload` contains the announced length as `X-Content-Length`, and the counted length, including the
/// head, as `X-Request-Length`.
///
/// All paths exist under `url` (HTTP/1.1) and under `secureURL` (TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1 by ALPN).
public final class Nginx: Sendable {
    /// The URL "http://127.0.0.1:PORT".
    public let url: URL
    /// The URL "https://localhost:PORT". The certificate is also valid for 127.0.0.1.
    public let secureURL: URL
    /// The port of `url`.
    public let port: UInt16
    /// The port of `secureURL`.
    public let securePort: UInt16
    /// The authority that a client must trust, and the other certificates of this run.
    public let certificates: TestCertificates
    /// Whether `/dav/` is available.
    public let hasDAV: Bool
    /// The process that is running, or was running last.
    public var process: ChildProcess { current.withLock { $0 } }
    private let current: Locked<ChildProcess>
    private let path: String
    private let token: String
    private let directory: TemporaryDirectory

    /// The certificate of the authority, in PEM.
    public var certificateAuthority: URL { certificates.certificateAuthority }
    /// The served directory.
    public var files: URL { directory.file("files") }
    /// The directory for uploads with PUT.
    public var uploads: URL { directory.file("dav") }

    /// Whether nginx is installed.
    public static var isInstalled: Bool { Spawn.find("nginx") != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint = "nginx. Debian, Ubuntu: apt-get install nginx"

    /// Starts nginx and returns when it responds. Takes some tens of milliseconds.
    ///
    /// - Parameters:
    ///   - forwardedPort: The port on 127.0.0.1 of the server behind `/forward/`; without it, that path does not exist.
    ///   - connectionRequests: The number of requests after which nginx closes a connection.
    /// - Throws: `ProcessError`: `.notInstalled` with the installation command, `.didNotStart` with its messages.
    public init(forwardingTo forwardedPort: UInt16? = nil, connectionRequests: Int = 100_000_000) throws {
        guard let path = Spawn.find("nginx") else { throw ProcessError.notInstalled(Self.installHint) }
        self.path = path
        directory = try TemporaryDirectory(prefix: "convoy-nginx")
        for name in ["files", "dav"] {
            try FileManager.default.createDirectory(at: directory.file(name), withIntermediateDirectories: true)
        }
        // This user may read the files in `/private/`. The password is in plain text.
        try directory.write(Data("ada:{PLAIN}secret\n".utf8), to: "users")
        certificates = try TestCertificates(in: directory.url)
        hasDAV = try ProcessRunner.run(path, ["-V"]).errorText.contains("http_dav_module")
        var lastOutput = ""
        for _ in 0..<8 {
            let ports = try LoopbackPort.freePair()
            let token = UUID().uuidString
            let configuration = NginxConfiguration(
                directory: directory.url, port: ports.0, securePort: ports.1, certificates: certificates, hasDAV: hasDAV,
                forwardedPort: forwardedPort, connectionRequests: connectionRequests, token: token)
            try directory.write(Data(configuration.text.utf8), to: "nginx.conf")
            let error = directory.file("error.log")
            try? FileManager.default.removeItem(at: error)
            let process = try Self.start(path, in: directory)
            if Self.isReady(process, port: ports.0, token: token, error: error) {
                current = Locked(process)
                self.token = token
                (port, securePort) = ports
                url = try Self.url("http://127.0.0.1:\(ports.0)")
                secureURL = try Self.url("https://localhost:\(ports.1)")
                return
            }
            process.stop(grace: 0.2)
            lastOutput = process.output + ((try? String(contentsOf: error, encoding: .utf8)) ?? "")
            // Only a port that was in use justifies another attempt.
            guard lastOutput.contains("Address already in use") else { break }
        }
        throw ProcessError.didNotStart("nginx: \(lastOutput)")
    }

    deinit {
        stop()
    }

    /// Returns the URL of a path.
    public func url(_ path: String) -> URL { url.appendingPathComponent(path) }

    /// Returns the URL of a path over TLS.
    public func secureURL(_ path: String) -> URL { secureURL.appendingPathComponent(path) }

    /// Adds a file to the served directory.
    @discardableResult
    public func add(_ data: Data, as name: String) throws -> URL {
        try directory.write(data, to: "files/\(name)")
    }

    /// Stops this nginx, waits for its end, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }

    /// Stops this nginx and keeps its directory. Its ports refuse connections until ``restart()``.
    public func halt() { process.stop() }

    /// Starts nginx again on the same ports after ``halt()``, and returns when it responds.
    ///
    /// - Throws: `ProcessError.didNotStart` with its messages.
    public func restart() throws {
        let started = try Self.start(path, in: directory)
        current.withLock { $0 = started }
        guard Self.isReady(started, port: port, token: token, error: directory.file("error.log")) else {
            throw ProcessError.didNotStart("nginx: \(started.output)")
        }
    }

    private static func start(_ path: String, in directory: TemporaryDirectory) throws -> ChildProcess {
        let error = directory.file("error.log").path
        return try ChildProcess(
            path, ["-p", directory.url.path, "-e", error, "-c", directory.file("nginx.conf").path],
            directory: directory.url, log: directory.file("output.log"))
    }

    private static func url(_ text: String) throws -> URL {
        guard let url = URL(string: text) else { throw ProcessError.didNotStart("bad URL \(text)") }
        return url
    }

    private static func isReady(_ process: ChildProcess, port: UInt16, token: String, error: URL) -> Bool {
        var isTaken = false
        let isOver = process.becomesReady(within: 10) {
            let answer = try? RawClient(port: port, timeout: 1).exchange("GET", "/.instance")
            if answer?.text == token { return true }
            // nginx would try five times to bind a port that another program uses.
            let messages = (try? String(contentsOf: error, encoding: .utf8)) ?? ""
            isTaken = messages.contains("Address already in use")
            return isTaken
        }
        return isOver && !isTaken
    }
}
