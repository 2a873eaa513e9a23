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
/// thread. A server is stopped by `stop()` or by letting go of it.
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
    let inbox: Inbox
    private let ending = Ending()

    /// Binds to 127.0.0.1 and starts to serve.
    ///
    /// - Throws: `TestServerError.system` when a socket cannot be made or the port is taken.
    public init(_ configuration: Configuration = Configuration()) throws(TestServerError) {
        let (listener, port) = try Sockets.listen(port: configuration.port, backlog: configuration.backlog)
        var opened = [listener]
        do throws(TestServerError) {
            let epoll = try Sockets.makeEpoll()
            opened.append(epoll)
            let event = try Sockets.makeEvent()
            let state = ServerState(configuration), inbox = Inbox(event: event), ending = ending
            let thread = Thread { @Sendable in
                ending.begin()
                let core = ServerCore(state: state, inbox: inbox, listener: listener, epoll: epoll, event: event)
                core.run()
                ending.end()
            }
            thread.name = "Convoy.TestServer"
            self.port = port
            self.state = state
            self.inbox = inbox
            thread.start()
        } catch {
            for descriptor in opened { close(descriptor) }
            throw error
        }
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

    /// Closes the port and every connection, ends the thread and lets go of all routes. Requests stay readable.
    ///
    /// It returns when all of that is done. Stopping twice does nothing more. A handler that is still running goes on;
    /// its response is thrown away.
    public func stop() {
        inbox.post(.stop)
        ending.wait()
        state.handlers.close()
        state.removeAllRoutes()
        if !state.read({ $0.isStopped }) { state.update { $0.isStopped = true } }
    }

    /// Closes every open connection, kept-alive ones and those in the middle of a response, and goes on listening.
    /// It returns before that has happened.
    public func dropConnections() {
        inbox.post(.dropConnections)
    }
}

/// Lets others wait for the end of the server's thread.
private final class Ending: Sendable {
    private let thread = Locked<pthread_t?>(nil)
    private let isOver = DispatchSemaphore(value: 0)

    func begin() {
        thread.withLock { $0 = pthread_self() }
    }

    func end() {
        isOver.signal()
    }

    func wait() {
        // A closure of a route may hold the last reference to the server and be let go on its thread: waiting for
        // oneself would take for ever.
        let isSelf = thread.withLock { $0.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
        guard !isSelf else { return }
        isOver.wait()
        isOver.signal()
    }
}
