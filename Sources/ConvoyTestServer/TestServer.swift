import ConvoySupport
import Foundation

/// A scriptable HTTP/1.1 server on 127.0.0.1, with or without TLS, that can violate the protocol where a test needs it.
///
/// ```swift
/// let server = try TestServer()
/// server.route("GET", "/hello", .text("hello"))
/// server.route("/slow", .text("late").delayed(0.5))
/// server.route("POST", "/users") { request in .json(["name": request.text], status: 201) }
/// // … server.url("/hello") …
/// #expect(server.requests.map(\.path) == ["/hello"])
/// ```
///
/// One thread serves any number of connections; no user code runs on it. All members can be used from any thread. A
/// server stops when `stop()` is called or when its last reference is released.
public final class TestServer: Sendable {
    /// The settings with which a server starts.
    public struct Configuration: Sendable {
        /// The port, or 0 for a free one.
        public var port: UInt16 = 0
        /// The maximum size of a request's head in bytes. A larger head is answered with 431 or 414.
        public var maximumHeadSize = 64 * 1024
        /// The maximum number of requests kept in `requests`. Later requests are only counted. Use 0 for benchmarks.
        public var recordingLimit = Int.max
        /// The maximum number of connections waiting to be accepted. The system also has a limit.
        public var backlog: Int32 = 4096
        /// The TLS settings; nil for plain text. `TestServer.setTLS(_:)` changes them on a running server.
        public var tls: TLS?
        /// The timeout for the TLS handshake, in seconds.
        public var handshakeTimeout: TimeInterval = 10

        /// Creates the default settings.
        public init() {}
    }

    /// The port on which the server listens on 127.0.0.1.
    public let port: UInt16
    let state: ServerState
    let engine: any ServerEngine

    /// Creates a server that uses a running engine.
    init(port: UInt16, state: ServerState, engine: any ServerEngine) {
        self.port = port
        self.state = state
        self.engine = engine
    }

    deinit {
        stop()
    }

    /// The base URL: "http://127.0.0.1:PORT", or "https://127.0.0.1:PORT" if the server uses TLS.
    public var url: URL { url("") }

    /// Returns the URL of a path, which may have a query. Characters that are not allowed in a URL are percent-encoded;
    /// existing encodings are kept.
    public func url(_ path: String) -> URL {
        url(path, host: "127.0.0.1")
    }

    /// Closes the port and all connections, ends the thread and releases all routes. Recorded requests remain readable.
    ///
    /// Returns once the server has stopped. Stopping again has no effect. A handler that is still running continues,
    /// but its response is discarded.
    public func stop() {
        engine.stop()
        state.handlers.close()
        state.removeAllRoutes()
        if !state.read({ $0.isStopped }) { state.update { $0.isStopped = true } }
    }

    /// Closes all open connections, idle or in the middle of a response, and continues listening. Returns before the
    /// connections are closed.
    public func dropConnections() {
        engine.dropConnections()
    }
}

extension TestServer {
    /// Binds to 127.0.0.1 and starts serving with TLS.
    ///
    /// - Parameters:
    ///   - tls: The TLS settings.
    ///   - configuration: The other settings.
    /// - Throws: `TestServerError.unusableTLS`, or `.system` if a socket cannot be created or the port is in use.
    public convenience init(
        tls: TLS, _ configuration: Configuration = Configuration()
    ) throws(TestServerError) {
        var configuration = configuration
        configuration.tls = tls
        try self.init(configuration)
    }

    /// Changes the TLS settings of connections accepted from now on; nil disables TLS. Open connections are not
    /// affected. Sessions with the earlier settings cannot be resumed.
    ///
    /// - Throws: `TestServerError.unusableTLS`, in which case nothing has changed.
    public func setTLS(_ tls: TLS?) throws(TestServerError) {
        let context: TLSContext? = if let tls { try TLSContext(tls) } else { nil }
        state.setTLS(context)
    }

    /// Returns the URL of a path, with a host other than 127.0.0.1, such as "localhost".
    public func url(_ path: String, host: String) -> URL {
        let scheme = state.tls == nil ? "http" : "https"
        return URLReference.url("\(scheme)://\(host):\(port)\(path)") ?? URL(fileURLWithPath: "/")
    }

    /// OpenSSL's reasons for failed handshakes, such as "tlsv1 alert unknown ca" if the client does not trust the
    /// certificate. At most `Configuration.recordingLimit` are kept.
    public var handshakeFailures: [String] { state.read { $0.handshakeFailures } }
}

/// The implementation of a `TestServer`, which serves its connections. Can be called from any thread.
protocol ServerEngine: Sendable {
    /// Closes the port and all connections, and returns once they are closed. Stopping again has no effect.
    func stop()

    /// Closes all open connections and continues listening. Returns before the connections are closed.
    func dropConnections()

    /// Wakes a caller that is waiting for a change in the `ServerState` at a deadline, unless it was woken before.
    func wake(waiter: UInt64, at deadline: MonotonicTime)
}

/// An error of a test server, thrown when it starts or while a test waits for requests.
public enum TestServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A system call failed. The associated values are its name and its `errno`.
    case system(call: String, code: Int32)
    /// OpenSSL rejected the TLS settings. The associated value is the reason.
    case unusableTLS(String)
    /// The wait timed out. The associated value lists the counters at that time.
    case timedOut(String)
    /// The server was stopped during a wait.
    case stopped
    /// The requests differ from those expected with `TestServer.expect(_:_:count:where:)`. The associated value
    /// contains one message for each difference.
    case unmetExpectations([String])

    public var description: String {
        switch self {
        case .system(let call, let code): "\(call) failed with errno \(code) (\(SystemError(code: code).text))"
        case .unusableTLS(let reason): "unusable TLS settings: \(reason)"
        case .timedOut(let text): "timed out: \(text)"
        case .stopped: "the server has been stopped"
        case .unmetExpectations(let list): "unmet expectations:\n" + list.map { "- \($0)" }.joined(separator: "\n")
        }
    }
}
