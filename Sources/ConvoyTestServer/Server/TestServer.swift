import ConvoySupport
import Foundation

/// An HTTP/1.1 server on 127.0.0.1 that does what a test tells it to, right or wrong, in plain text or with TLS.
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
/// server is stopped by `stop()`, or when its last reference is released.
public final class TestServer: Sendable {
    /// The settings of a server.
    public struct Configuration: Sendable {
        /// The port, or 0 for a free one.
        public var port: UInt16 = 0
        /// The maximum size of a request's head in bytes; a longer one gets 431, or 414.
        public var maximumHeadSize = 64 * 1024
        /// How many requests are kept in `requests`; later ones are only counted. 0 for benchmarks.
        public var recordingLimit = Int.max
        /// How many connections may wait to be accepted; the system has a limit too.
        public var backlog: Int32 = 4096
        /// How the server speaks TLS; nil for plain text. See `TestServer.setTLS(_:)` for a server that runs.
        public var tls: TLS?
        /// Seconds after which a TLS handshake that is not over fails.
        public var handshakeTimeout: TimeInterval = 10

        /// The defaults.
        public init() {}
    }

    /// The port on 127.0.0.1.
    public let port: UInt16
    let state: ServerState
    let engine: any ServerEngine

    /// A server that uses a running engine.
    init(port: UInt16, state: ServerState, engine: any ServerEngine) {
        self.port = port
        self.state = state
        self.engine = engine
    }

    deinit {
        stop()
    }

    /// "http://127.0.0.1:PORT", or with "https" if it speaks TLS.
    public var url: URL { url("") }

    /// The URL of a path, which may have a query. Characters that are not allowed in a URL are percent-encoded;
    /// existing encodings are kept.
    public func url(_ path: String) -> URL {
        url(path, host: "127.0.0.1")
    }

    /// Closes the port and every connection, ends the thread and releases all routes. Requests stay readable.
    ///
    /// Returns when all of that is done. Stopping again has no effect. A handler that is still running continues; its
    /// response is discarded.
    public func stop() {
        engine.stop()
        state.handlers.close()
        state.removeAllRoutes()
        if !state.read({ $0.isStopped }) { state.update { $0.isStopped = true } }
    }

    /// Closes every open connection, idle or in the middle of a response, and continues listening. Returns before that
    /// has happened.
    public func dropConnections() {
        engine.dropConnections()
    }
}
