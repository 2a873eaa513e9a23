import Foundation

extension TestServer {
    /// Answers a path with the same response every time, on the server's own thread.
    ///
    /// - Parameters:
    ///   - method: The method, or nil for any. GET answers HEAD as well, without the body.
    ///   - path: The path as it is on the wire, without the query. "/files/*" is every path that begins with "/files/".
    ///   - options: How the body of the request is dealt with.
    ///
    /// Setting a route of the same method and path again replaces it, also while requests are under way.
    public func route(_ method: String?, _ path: String, options: RouteOptions = [], _ response: Response) {
        state.setRoute(.fixed(response), options, method, path)
    }

    /// Answers a path with the responses in turn, and with the last one from then on.
    public func route(_ method: String?, _ path: String, options: RouteOptions = [], inTurn responses: [Response]) {
        state.setRoute(.inTurn(Turns(responses)), options, method, path)
    }

    /// Answers a path by calling a closure for each request.
    ///
    /// The closure runs on a thread of its own while it runs, never on the server's, so that it may take its time and
    /// block; 512 can do so at once. To hold more than that, hold their responses with a `Gate`. An error that is
    /// thrown gives a 500 that says which.
    public func route(
        _ method: String?, _ path: String, options: RouteOptions = [],
        handler: @escaping @Sendable (RecordedRequest) throws -> Response
    ) {
        state.setRoute(.handler(handler), options, method, path)
    }

    /// Answers a path by calling an async closure in a task of its own for each request, which prefers the handler
    /// threads to Swift's pool: a test that blocks the pool does not keep it from running. An error gives a 500.
    public func route(
        _ method: String?, _ path: String, options: RouteOptions = [],
        handler: @escaping @Sendable (RecordedRequest) async throws -> Response
    ) {
        state.setRoute(.asyncHandler(handler), options, method, path)
    }

    /// Takes away the routes of a path, whatever their method. What is asked for there afterwards gives a 404.
    public func removeRoute(_ path: String) {
        state.removeRoute(path)
    }

    /// Answers a path with a redirect (RFC 9110 section 15.4). `location` is sent as it is; a path is enough.
    public func redirect(_ path: String, to location: String, status: Int = 302) {
        route(path, .redirect(to: location, status: status))
    }

    /// Answers every method at a path with what was received, as the JSON of `EchoedRequest`.
    public func echo(at path: String) {
        state.setRoute(.handler { .json(EchoedRequest($0)) }, [], nil, path)
    }
}

/// Routes for every method: each is the form above with nil for the method.
extension TestServer {
    /// Answers a path with the same response every time, whatever the method.
    public func route(_ path: String, options: RouteOptions = [], _ response: Response) {
        route(nil, path, options: options, response)
    }

    /// Answers a path with the responses in turn, whatever the method, and with the last one from then on.
    public func route(_ path: String, options: RouteOptions = [], inTurn responses: [Response]) {
        route(nil, path, options: options, inTurn: responses)
    }

    /// Answers a path by calling a closure on a handler thread for each request, whatever the method.
    public func route(
        _ path: String, options: RouteOptions = [], handler: @escaping @Sendable (RecordedRequest) throws -> Response
    ) {
        route(nil, path, options: options, handler: handler)
    }

    /// Answers a path by calling an async closure for each request, whatever the method.
    public func route(
        _ path: String, options: RouteOptions = [],
        handler: @escaping @Sendable (RecordedRequest) async throws -> Response
    ) {
        route(nil, path, options: options, handler: handler)
    }
}
