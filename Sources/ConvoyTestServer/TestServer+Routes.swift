import ConvoySupport
import Foundation

extension TestServer {
    /// Answers requests for a path with the same response every time, on the server's thread. Setting a route for the
    /// same method and path again replaces it, even while requests are being served.
    ///
    /// - Parameters:
    ///   - method: The method, or nil for any. GET also answers HEAD, without the body.
    ///   - path: The path exactly as sent, without the query. "/files/*" matches every path that begins with "/files/".
    ///   - options: The handling of the request's body.
    ///   - response: The response to every request.
    public func route(_ method: String?, _ path: String, options: RouteOptions = [], _ response: Response) {
        state.setRoute(.fixed(response), options, method, path)
    }

    /// Answers requests for a path with the responses in order, repeating the last one.
    public func route(_ method: String?, _ path: String, options: RouteOptions = [], inTurn responses: [Response]) {
        state.setRoute(.inTurn(ResponseSequence(responses)), options, method, path)
    }

    /// Answers requests for a path by calling a closure for each of them.
    ///
    /// The closure runs on a handler thread, never on the server's thread, so it may block. Up to 512 closures run
    /// concurrently. To hold back more requests than that, hold their responses with a `Gate`. If the closure throws,
    /// the response is a 500 with the error.
    public func route(
        _ method: String?, _ path: String, options: RouteOptions = [],
        handler: @escaping @Sendable (RecordedRequest) throws -> Response
    ) {
        state.setRoute(.handler(handler), options, method, path)
    }

    /// Answers requests for a path by calling an async closure for each of them. The closure runs in a task on the
    /// handler threads, so a test that blocks Swift's pool does not block it. If the closure throws, the response is a
    /// 500.
    public func route(
        _ method: String?, _ path: String, options: RouteOptions = [],
        handler: @escaping @Sendable (RecordedRequest) async throws -> Response
    ) {
        state.setRoute(.asyncHandler(handler), options, method, path)
    }

    /// Removes the routes of a path for all methods. Later requests for it get a 404.
    public func removeRoute(_ path: String) {
        state.removeRoute(path)
    }

    /// Answers requests for a path with a redirect (RFC 9110 section 15.4). `location` is sent unchanged, and may be
    /// only a path.
    public func redirect(_ path: String, to location: String, status: Int = 302) {
        route(path, .redirect(to: location, status: status))
    }

    /// Answers every request for a path with the request itself, encoded as the JSON of `EchoedRequest`.
    public func echo(at path: String) {
        state.setRoute(.handler { .json(EchoedRequest($0)) }, [], nil, path)
    }
}

/// Routes for all methods.
extension TestServer {
    /// Answers requests for a path with the same response every time, for all methods.
    public func route(_ path: String, options: RouteOptions = [], _ response: Response) {
        route(nil, path, options: options, response)
    }

    /// Answers requests for a path with the responses in order, for all methods, repeating the last one.
    public func route(_ path: String, options: RouteOptions = [], inTurn responses: [Response]) {
        route(nil, path, options: options, inTurn: responses)
    }

    /// Answers requests for a path by calling a closure on a handler thread for each of them, for all methods.
    public func route(
        _ path: String, options: RouteOptions = [], handler: @escaping @Sendable (RecordedRequest) throws -> Response
    ) {
        route(nil, path, options: options, handler: handler)
    }

    /// Answers requests for a path by calling an async closure for each of them, for all methods.
    public func route(
        _ path: String, options: RouteOptions = [],
        handler: @escaping @Sendable (RecordedRequest) async throws -> Response
    ) {
        route(nil, path, options: options, handler: handler)
    }
}

extension TestServer {
    /// The handling of a request's body by a route.
    public struct RouteOptions: OptionSet, Sendable {
        /// The options as bits.
        public let rawValue: Int

        /// Creates options from bits.
        public init(rawValue: Int) {
            self.rawValue = rawValue
        }

        /// The body is counted and checksummed but not kept, so that uploads of any size take no memory.
        public static let discardsBody = RouteOptions(rawValue: 1)
        /// The server never sends "100 Continue" and waits for the body, which the client must send regardless.
        public static let withholdsContinue = RouteOptions(rawValue: 2)
        /// The response is sent as soon as the head has arrived, without waiting for the body, and the connection is
        /// closed after it. The first response to "Expect: 100-continue" is then the final status (RFC 9110 section
        /// 10.1.1).
        public static let answersEarly = RouteOptions(rawValue: 4)
    }
}

/// The routes of a server, by method and path.
///
/// An exact path takes precedence over a prefix, and a longer prefix over a shorter one. For the same path, a specific
/// method takes precedence over "any method", and GET answers HEAD if nothing else does.
struct RouteTable: Sendable {
    /// The result of a lookup.
    enum Match {
        case route(Route)
        /// The path has routes, but only for the given other methods.
        case otherMethods([String])
        case none
    }

    private typealias Methods = [String: Route]
    private var exact: [String: Methods] = [:]
    private var prefixes: [(prefix: String, methods: Methods)] = []
    private static let anyMethod = ""

    /// Adds a route, or replaces the one with the same method and path. A path that ends in "*" is a prefix.
    mutating func set(_ route: Route, method: String?, path: String) {
        let method = method ?? Self.anyMethod
        guard path.hasSuffix("*") else {
            exact[path, default: [:]][method] = route
            return
        }
        let prefix = String(path.dropLast())
        if let index = prefixes.firstIndex(where: { $0.prefix == prefix }) {
            prefixes[index].methods[method] = route
        } else {
            let index = prefixes.firstIndex { $0.prefix.utf8.count < prefix.utf8.count } ?? prefixes.count
            prefixes.insert((prefix, [method: route]), at: index)
        }
    }

    /// Removes the routes of a path for all methods.
    mutating func remove(path: String) {
        guard path.hasSuffix("*") else {
            exact[path] = nil
            return
        }
        prefixes.removeAll { $0.prefix == path.dropLast() }
    }

    func match(method: String, path: String) -> Match {
        var others: [String] = []
        if let methods = exact[path] {
            if let route = Self.choose(methods, method) { return .route(route) }
            others = methods.keys.sorted()
        }
        for (prefix, methods) in prefixes where path.utf8.starts(with: prefix.utf8) {
            if let route = Self.choose(methods, method) { return .route(route) }
            others += methods.keys.sorted()
        }
        return others.isEmpty ? .none : .otherMethods(others)
    }

    private static func choose(_ methods: Methods, _ method: String) -> Route? {
        methods[method] ?? methods[anyMethod] ?? (method == "HEAD" ? methods["GET"] : nil)
    }
}

/// The route of a request.
struct Route: Sendable {
    var action: RouteAction
    var options: TestServer.RouteOptions
}

/// The way in which a request is answered, and the thread on which that happens.
enum RouteAction: Sendable {
    /// Sends a response, on the server's thread.
    case fixed(TestServer.Response)
    /// Sends the responses in order, repeating the last one, on the server's thread.
    case inTurn(ResponseSequence)
    /// Calls a closure on the server's thread, which must not be blocked. Only for fast code in this module.
    case computed(@Sendable (RecordedRequest) -> TestServer.Response)
    /// Calls a closure on a handler thread.
    case handler(@Sendable (RecordedRequest) throws -> TestServer.Response)
    /// Calls a closure in a task that runs on the handler threads.
    case asyncHandler(@Sendable (RecordedRequest) async throws -> TestServer.Response)
}

/// The responses of a route in order, repeating the last one.
final class ResponseSequence: Sendable {
    private let responses: [TestServer.Response]
    private let next = Locked(0)

    init(_ responses: [TestServer.Response]) {
        self.responses = responses
    }

    func take() -> TestServer.Response {
        guard let last = responses.last else { return .text("The route has no responses.", status: 500) }
        let index = next.withLock { next in
            defer { next += 1 }
            return next
        }
        return index < responses.count ? responses[index] : last
    }
}
