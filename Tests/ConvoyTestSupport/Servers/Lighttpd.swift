import Foundation

/// Debian's lighttpd on a free loopback port, which serves the files of a directory of its own, with ranges, ETag and
/// Last-Modified.
public final class Lighttpd: Sendable {
    /// "http://127.0.0.1:PORT".
    public let url: URL
    /// The program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Whether lighttpd is installed.
    public static var isInstalled: Bool { Spawn.find("lighttpd") != nil }
    /// For the reason of a skipped test.
    public static let installHint = "lighttpd. Debian, Ubuntu: apt-get install lighttpd"

    /// Starts it and returns when it answers.
    ///
    /// - Throws: `ProcessError`: `.notInstalled` with the line that installs it, `.didNotStart` with its messages.
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

    /// Puts a file into the directory that is served.
    public func add(_ data: Data, as name: String) throws { try directory.write(data, to: "files/\(name)") }

    /// Returns the URL of a path.
    public func url(_ path: String) -> URL { url.appendingPathComponent(path) }

    /// Ends exactly this server, waits for it, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}
