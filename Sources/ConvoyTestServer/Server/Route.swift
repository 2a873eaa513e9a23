/// A route as it was found for a request.
struct Route: Sendable {
    var action: RouteAction
    var options: TestServer.RouteOptions
}

/// What is done with a request, and where that runs.
enum RouteAction: Sendable {
    /// On the server's thread.
    case fixed(TestServer.Response)
    /// On the server's thread: the responses in turn, the last one again and again.
    case inTurn(Turns)
    /// On the server's thread, which must not wait: for what is quick and no user's code.
    case computed(@Sendable (RecordedRequest) -> TestServer.Response)
    /// On a handler thread.
    case handler(@Sendable (RecordedRequest) throws -> TestServer.Response)
    /// In a task that runs on the handler threads.
    case asyncHandler(@Sendable (RecordedRequest) async throws -> TestServer.Response)
}
