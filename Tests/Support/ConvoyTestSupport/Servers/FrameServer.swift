import Foundation

/// An HTTP/2 server over TLS on free loopback ports that can send arbitrary frames: for example, it can reset a stream
/// before its end or without an error, announce an invalid length, or send frames after the end.
///
/// For each request, it requests the same path from an HTTP/1.1 server, with the request's fields and `X-Frames: yes`.
/// The body of the response is the body to send; its field `X-Plan` contains a ``Plan`` as JSON.
///
/// The program is written in Python and uses h2 from PyPI, in the virtual environment named by the variable
/// CONVOY_HTTPBIN_VENV, which `Tests/run` creates.
public final class FrameServer: Sendable {
    /// The frames of a response.
    public struct Plan: Sendable, Codable {
        /// The end of a response, or what replaces it.
        public enum End: String, Sendable, Codable {
            /// The server sends END_STREAM.
            case whole
            /// The server sends RST_STREAM with the code.
            case reset
            /// The server sends GOAWAY with the code, which names the stream as the last one; then it closes the
            /// connection.
            case goaway
            /// The server closes the connection.
            case closed
            /// The server sends RST_STREAM with the code, and ends TLS and the connection in the same packet.
            case resetAndClosed
            /// The server prints HELD, and sends nothing more until a `floodOfHeld`.
            case held
            /// The server first resets, with the code, the held streams whose complete body was sent, and sends the
            /// rest of the body on the other held streams. Then it sends END_STREAM, all at once, and prints FLOODED.
            case floodOfHeld
            /// The server sends RST_STREAM with REFUSED_STREAM before the head.
            case refused
            /// The server closes the connection before the head.
            case dropped
            /// The server sends END_STREAM, followed by RST_STREAM without an error (RFC 9113, section 8.1).
            case resetAfterEnd
            /// The server sends END_STREAM, followed by DATA.
            case dataAfterEnd
            /// The server sends END_STREAM, followed by GOAWAY, while the connection stays open.
            case goAwayAfterEnd
        }

        public var status: Int
        /// The fields as names and values, with names in lower case.
        public var fields: [[String]]
        /// The number of bytes of the body that are sent.
        public var stop: Int
        public var end = End.whole
        /// The error code for `reset` and `goaway`.
        public var code = 0
        /// Whether a 103 precedes the response.
        public var interim = false
        public var trailers: [[String]] = []
        /// The padding of each DATA frame, in bytes.
        public var padding = 0
        /// The number of bytes that are sent at once, and the delay after them in seconds.
        public var slice = 16_384
        public var pause = 0.0

        public init(status: Int, fields: [[String]], stop: Int) {
            (self.status, self.fields, self.stop) = (status, fields, stop)
        }
    }

    /// The maximum number of ports. The shell that starts the program does not support two-digit descriptors.
    public static let maximumPortCount = 6

    /// The ports on 127.0.0.1.
    public let ports: [UInt16]
    /// The authority of the server's certificate, in PEM.
    public let certificateAuthority: URL
    private let process: ChildProcess
    private let directory: TemporaryDirectory

    /// The Python of the virtual environment; nil if h2 is not installed.
    private static let python: String? = {
        guard let python = Httpbin.python, (try? ProcessRunner.run(python, ["-c", "import h2"]))?.status == 0 else {
            return nil
        }
        return python
    }()

    /// Whether h2 is installed.
    public static var isInstalled: Bool { python != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint =
        "h2. CONVOY_HTTPBIN_VENV names no virtual environment with it: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install h2, and set it to DIR"

    /// Starts the program and returns when it accepts connections. Takes some tenths of a second.
    ///
    /// - Parameters:
    ///   - port: The port of the HTTP/1.1 server on 127.0.0.1 that specifies the responses.
    ///   - count: The number of ports to listen on, up to ``maximumPortCount``. An event that affects a connection does
    ///     not affect connections to other ports.
    /// - Throws: `ProcessError`.
    public init(asking port: UInt16, count: Int = 1) throws {
        guard let python = Self.python else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-frames")
        let certificates = try TestCertificates(in: directory.url)
        certificateAuthority = certificates.certificateAuthority
        let identity = try Data(contentsOf: certificates.serverCertificate) + Data(contentsOf: certificates.serverKey)
        let file = try directory.write(identity, to: "identity.pem")
        let script = try directory.write(Data(FrameServerScript.text.utf8), to: "frames.py")
        // Pass on open sockets, so that no other program can take a port in the meantime.
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

    /// Stops this server, waits for its end, and removes its directory.
    public func stop() {
        process.stop(grace: 0)
        directory.remove()
    }
}
