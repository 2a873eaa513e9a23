import Foundation

/// A server of HTTP/2 over TLS on free loopback ports that sends any frames: a stream that is reset before its
/// end, without an error, an invalid length, or frames after the end.
///
/// For each request it asks an HTTP/1.1 server for the same path, with the request's fields and `X-Frames: yes`. The body
/// of the answer is the body to send; its field `X-Plan` has a ``Plan`` as JSON.
///
/// It is a program in Python, with h2 from PyPI, in the virtual environment whose directory the variable
/// CONVOY_HTTPBIN_VENV names; `Tests/run` makes it.
public final class FrameServer: Sendable {
    /// How a response is sent.
    public struct Plan: Sendable, Codable {
        /// The end of the response, or what replaces it.
        public enum End: String, Sendable, Codable {
            /// END_STREAM.
            case whole
            /// RST_STREAM with the code.
            case reset
            /// GOAWAY with the code, which names the stream as the last one; then the connection is closed.
            case goaway
            /// The connection is closed.
            case closed
            /// RST_STREAM with the code, and the end of TLS and of the connection in one packet with it.
            case resetAndClosed
            /// Nothing, until there is `floodOfHeld`. The server's output says HELD.
            case held
            /// END_STREAM. Before it, at once, the streams that are held are reset with the code if all of their bodies was
            /// sent, and then the others are sent the rest. The output says FLOODED.
            case floodOfHeld
            /// RST_STREAM with REFUSED_STREAM, before the head.
            case refused
            /// The connection is closed before the head.
            case dropped
            /// END_STREAM, and RST_STREAM without an error after it (RFC 9113, section 8.1).
            case resetAfterEnd
            /// END_STREAM, and DATA after it.
            case dataAfterEnd
            /// END_STREAM, and GOAWAY after it, while the connection stays open.
            case goAwayAfterEnd
        }

        public var status: Int
        /// Names and values; the names in lower case.
        public var fields: [[String]]
        /// How many bytes of the body are sent.
        public var stop: Int
        public var end = End.whole
        /// The error code for `reset` and `goaway`.
        public var code = 0
        /// Whether a 103 comes before.
        public var interim = false
        public var trailers: [[String]] = []
        /// The padding of each DATA frame, in bytes.
        public var padding = 0
        /// How many bytes are sent at once, and how many seconds pass after them.
        public var slice = 16_384
        public var pause = 0.0

        public init(status: Int, fields: [[String]], stop: Int) {
            (self.status, self.fields, self.stop) = (status, fields, stop)
        }
    }

    /// The shell that starts the program knows no descriptor of two digits.
    public static let maximumPortCount = 6

    /// The ports on 127.0.0.1.
    public let ports: [UInt16]
    /// The authority of its certificate, in PEM.
    public let certificateAuthority: URL
    private let process: ChildProcess
    private let directory: TemporaryDirectory

    /// The python of the virtual environment, or nil if h2 is not installed.
    private static let python: String? = {
        guard let python = Httpbin.python, (try? ProcessRunner.run(python, ["-c", "import h2"]))?.status == 0 else {
            return nil
        }
        return python
    }()

    /// Whether h2 is installed.
    public static var isInstalled: Bool { python != nil }
    /// For the reason of a skipped test.
    public static let installHint =
        "h2. CONVOY_HTTPBIN_VENV names no virtual environment with it: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install h2, and set it to DIR"

    /// Starts it and returns when it accepts connections. Takes some tenths of a second.
    ///
    /// - Parameters:
    ///   - port: The port of the HTTP/1.1 server on 127.0.0.1 that says what to answer.
    ///   - count: How many ports it listens on, up to ``maximumPortCount``. Connections to different ports do not share what happens to a connection.
    /// - Throws: `ProcessError`.
    public init(asking port: UInt16, count: Int = 1) throws {
        guard let python = Self.python else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-frames")
        let certificates = try TestCertificates(in: directory.url)
        certificateAuthority = certificates.certificateAuthority
        let identity = try Data(contentsOf: certificates.serverCertificate) + Data(contentsOf: certificates.serverKey)
        let file = try directory.write(identity, to: "identity.pem")
        let script = try directory.write(Data(FrameServerScript.text.utf8), to: "frames.py")
        // The sockets are opened here and passed on, so that no other program can take a port in between.
        var listeners: [(descriptor: Int32, port: UInt16)] = []
        defer { for listener in listeners { close(listener.descriptor) } }
        for _ in 0..<min(max(1, count), Self.maximumPortCount) {
            let (descriptor, port) = try LoopbackPort.listener()
            listeners.append((descriptor, port))
        }
        ports = listeners.map(\.port)
        process = try ChildProcess(
            python, [script.path, "\(port)", file.path, "\(listeners.count)"],
            environment: ["PYTHONDONTWRITEBYTECODE": "1"], directory: directory.url, log: directory.file("output.log"),
            descriptors: listeners.map(\.descriptor))
        let process = process
        if process.becomesReady(within: 30, { process.output.contains("READY") }) { return }
        let output = process.output
        process.stop()
        throw ProcessError.didNotStart("h2: \(output)")
    }

    deinit { stop() }

    /// The output of the program.
    public var output: String { process.output }

    /// Ends exactly this server, waits for it, and removes its directory.
    public func stop() {
        process.stop(grace: 0)
        directory.remove()
    }
}
