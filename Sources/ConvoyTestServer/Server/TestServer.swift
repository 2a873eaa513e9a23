import ConvoySupport
import Foundation

/// An HTTP/1.1 server on 127.0.0.1 that does what a test tells it to, right or wrong.
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
/// One thread serves any number of connections; no user's code runs on it. Everything here may be called from any
/// thread. A server is stopped by `stop()`, and when its last reference is gone.
public final class TestServer: Sendable {
    /// What can be set when a server is made.
    public struct Configuration: Sendable {
        /// The port, or 0 for a free one.
        public var port: UInt16 = 0
        /// Bytes that the head of a request may have; a longer one gets 431, or 414.
        public var maximumHeadSize = 64 * 1024
        /// How many requests are kept in `requests`; later ones are only counted. 0 for benchmarks.
        public var recordingLimit = Int.max
        /// Connections that may wait to be accepted; the system has a limit of its own.
        public var backlog: Int32 = 4096

        /// The defaults.
        public init() {}
    }

    /// The port on 127.0.0.1.
    public let port: UInt16
    let state: ServerState
    let engine: any ServerEngine

    /// A server whose connections are served already.
    init(port: UInt16, state: ServerState, engine: any ServerEngine) {
        self.port = port
        self.state = state
        self.engine = engine
    }

    deinit {
        stop()
    }

    /// "http://127.0.0.1:PORT".
    public var url: URL { url("") }

    /// The URL of a path, which may have a query. Characters that a URL cannot have are percent-encoded; what is
    /// encoded already stays as it is.
    public func url(_ path: String) -> URL {
        URLReference.url("http://127.0.0.1:\(port)\(path)") ?? URL(fileURLWithPath: "/")
    }

    /// Closes the port and every connection, ends the thread and releases all routes. Requests stay readable.
    ///
    /// It returns when all of that is done. Stopping twice does nothing more. A handler that is still running goes on;
    /// its response is thrown away.
    public func stop() {
        engine.stop()
        state.handlers.close()
        state.removeAllRoutes()
        if !state.read({ $0.isStopped }) { state.update { $0.isStopped = true } }
    }

    /// Closes every open connection, kept-alive ones and those in the middle of a response, and goes on listening.
    /// It returns before that has happened.
    public func dropConnections() {
        engine.dropConnections()
    }
}
