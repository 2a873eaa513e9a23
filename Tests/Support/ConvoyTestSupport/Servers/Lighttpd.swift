import Foundation

/// Debian's lighttpd on a free loopback port, which serves the files of a directory with ranges, ETag and
/// Last-Modified.
public final class Lighttpd: Sendable {
    /// The URL "http://127.0.0.1:PORT".
    public let url: URL
    /// The process of the program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Whether lighttpd is installed.
    public static var isInstalled: Bool { Spawn.find("lighttpd") != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint = "lighttpd. Debian, Ubuntu: apt-get install lighttpd"

    /// Starts the server and returns when it responds.
    ///
    /// - Throws: `ProcessError`: `.notInstalled` with the installation command, `.didNotStart` with its messages.
    public init() throws {
        guard let path = Spawn.find("lighttpd") else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-lighttpd")
        let token = UUID().uuidString
        try directory.write(Data(token.utf8), to: "files/.instance")
        var output = ""
        for attempt in 0..<8 {
            let port = try LoopbackPort.free()
            let configuration = """
                server.document-root = "\(directory.file("files").path)"
                server.bind = "127.0.0.1"
                server.port = \(port)
                mimetype.assign = ( ".txt" => "text/plain", "" => "application/octet-stream" )

                """
            try directory.write(Data(configuration.utf8), to: "lighttpd.conf")
            let process = try ChildProcess(
                path, ["-D", "-f", directory.file("lighttpd.conf").path], directory: directory.url,
                log: directory.file("output-\(attempt).log"))
            // Another program may have taken the port first.
            let isReady = process.becomesReady(within: 10) {
                (try? RawClient(port: port, timeout: 1).exchange("GET", "/.instance").text) == token
            }
            if isReady, let url = URL(string: "http://127.0.0.1:\(port)") {
                (self.process, self.url) = (process, url)
                return
            }
            process.stop(grace: 0.2)
            output = process.output
            guard output.contains("in use") else { break }
        }
        throw ProcessError.didNotStart("lighttpd: \(output)")
    }

    deinit { stop() }

    /// Adds a file to the served directory.
    public func add(_ data: Data, as name: String) throws { try directory.write(data, to: "files/\(name)") }

    /// Returns the URL of a path.
    public func url(_ path: String) -> URL { url.appendingPathComponent(path) }

    /// Stops this server, waits for its end, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}
