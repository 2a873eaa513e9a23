import Foundation

extension TestServer {
    /// Serves a resource with random bytes as a server with this behaviour would.
    ///
    /// ```swift
    /// for behaviour in ServerBehaviour.allCases where !behaviour.isUndetectable {
    ///     let resource = server.route("/\(behaviour)", behaving: behaviour, size: 100_000)
    ///     // … download server.url(resource.path), breaking off and resuming …
    ///     #expect(resource.accepts(body))
    /// }
    /// ```
    ///
    /// Requests are answered on a handler thread, at the path and at "PATH/elsewhere", to which some behaviours
    /// redirect.
    ///
    /// - Parameters:
    ///   - path: The path, without a query.
    ///   - behaviour: What the server does, right or wrong.
    ///   - size: The size of the entity in bytes.
    ///   - seed: The seed of its bytes and of everything random in the behaviour.
    ///   - slice: How many bytes of a body are sent at once; 0 for all.
    ///   - delay: Seconds between two slices.
    ///   - adjust: Called with each request and its response, which it may change, for example to hold the first one in
    ///     the middle.
    /// - Returns: The resource, which records its requests and the acceptable results.
    @discardableResult
    public func route(
        _ path: String, behaving behaviour: ServerBehaviour, size: Int, seed: UInt64 = 1, slice: Int = 0,
        delay: TimeInterval = 0, adjust: (@Sendable (RecordedRequest, Response) -> Response)? = nil
    ) -> BehavingResource {
        let resource = BehavingResource(
            behaviour, path: path, size: size, seed: seed,
            pace: slice > 0 ? .drip(bytes: slice, interval: delay) : .unlimited, adjust: adjust)
        route("GET", path) { resource.response(to: $0, isElsewhere: false) }
        route("GET", path + "/elsewhere") { resource.response(to: $0, isElsewhere: true) }
        return resource
    }

    /// Removes the routes of a resource.
    public func removeRoute(_ resource: BehavingResource) {
        removeRoute(resource.path)
        removeRoute(resource.path + "/elsewhere")
    }
}
