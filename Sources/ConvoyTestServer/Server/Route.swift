/// The route of a request.
struct Route: Sendable {
    var action: RouteAction
    var options: TestServer.RouteOptions
}

/// How a request is answered, and on which thread.
enum RouteAction: Sendable {
    /// On the server's thread.
    case fixed(TestServer.Response)
    /// On the server's thread: the responses in turn, then the last one repeatedly.
    case inTurn(Turns)
    /// On the server's thread, which must not block: only for quick code of the library.
    case computed(@Sendable (RecordedRequest) -> TestServer.Response)
    /// On a handler thread.
    case handler(@Sendable (RecordedRequest) throws -> TestServer.Response)
    /// In a task that runs on the handler threads.
    case asyncHandler(@Sendable (RecordedRequest) async throws -> TestServer.Response)
}
