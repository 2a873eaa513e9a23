import Foundation

extension TestServer {
    /// Answers a path with the same response every time, on the server's thread.
    ///
    /// - Parameters:
    ///   - method: The method, or nil for any. GET answers HEAD as well, without the body.
    ///   - path: The path as on the wire, without the query. "/files/*" matches every path that begins with "/files/".
    ///   - options: How the body of the request is treated.
    ///   - response: The response, the same each time.
    ///
    /// Setting a route for the same method and path again replaces it, even while there are requests.
    public func route(_ method: String?, _ path: String, options: RouteOptions = [], _ response: Response) {
        state.setRoute(.fixed(response), options, method, path)
    }

    /// Answers a path with the responses in turn, and with the last one from then on.
    public func route(_ method: String?, _ path: String, options: RouteOptions = [], inTurn responses: [Response]) {
        state.setRoute(.inTurn(Turns(responses)), options, method, path)
    }

    /// Answers a path by calling a closure for each request.
    ///
    /// The closure runs on a handler thread, never on the server's, so it may block; up to 512 run at the same time. To
    /// hold back more requests than that, hold their responses with a `Gate`. If it throws, the response is a 500 with
    /// the error.
    public func route(
        _ method: String?, _ path: String, options: RouteOptions = [],
        handler: @escaping @Sendable (RecordedRequest) throws -> Response
    ) {
        state.setRoute(.handler(handler), options, method, path)
    }

    /// Answers a path by calling an async closure for each request, in a task that runs on the handler threads, so that
    /// a test that blocks Swift's pool does not stop it. If it throws, the response is a 500.
    public func route(
        _ method: String?, _ path: String, options: RouteOptions = [],
        handler: @escaping @Sendable (RecordedRequest) async throws -> Response
    ) {
        state.setRoute(.asyncHandler(handler), options, method, path)
    }

    /// Removes the routes of a path, for all methods. Later requests for it get a 404.
    public func removeRoute(_ path: String) {
        state.removeRoute(path)
    }

    /// Answers a path with a redirect (RFC 9110 section 15.4). `location` is sent unchanged, and may be just a path.
    public func redirect(_ path: String, to location: String, status: Int = 302) {
        route(path, .redirect(to: location, status: status))
    }

    /// Answers every request for a path with the request itself, as the JSON of `EchoedRequest`.
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
