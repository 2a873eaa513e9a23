import ConvoyOperations
import ConvoySerialization
import Foundation
import FoundationNetworking

/// Server-sent events with a manager's settings.
extension HTTPManager {
    /// Creates a source of server-sent events with the manager's settings and a request from its request serializer.
    /// The source is not enqueued, and has no total time limit, even if the manager has one.
    ///
    /// ```swift
    /// let source = try manager.makeEventSource("prices", parameters: ["symbol": "ACME"])
    /// source.addDependency(login)
    /// manager.enqueue([login, source])
    /// ```
    ///
    /// - Parameters:
    ///   - url: The URL, absolute or relative to `baseURL`.
    ///   - method: The method; GET by default.
    ///   - parameters: The query of a GET, or the body of other methods.
    ///   - body: The body, encoded as JSON by `encoder`; `Data` is sent unchanged. The parameters then become the
    ///     query.
    ///   - headers: Fields that override the serializer's; nil removes a field.
    /// - Throws: `URLError.badURL`, the request serializer's error, or the encoder's.
    public func makeEventSource(
        _ url: some URLConvertible, method: HTTPMethod = .get, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:]
    ) throws -> EventSource {
        var headers = headers
        if !headers.keys.contains(where: { $0.lowercased() == "accept" }) { headers["Accept"] = "text/event-stream" }
        let template = try operationManager.makeOperation(
            method, url, parameters: parameters, body: body, headers: headers)
        let source = EventSource(request: template.request)
        operationManager.adopt(source)
        source.totalTimeout = nil
        adopt(source, as: .data)
        return source
    }

    /// Enqueues a source of server-sent events, and returns it. If the request cannot be made, the source fails.
    ///
    /// ```swift
    /// let source = manager.eventSource("prices") { source, event in show(event.data) }
    /// ```
    ///
    /// - Parameter handler: Called with each event, on `completionQueue`. For the other parameters, see
    ///   ``makeEventSource(_:method:parameters:body:headers:)``.
    @discardableResult
    public func eventSource(
        _ url: some URLConvertible, method: HTTPMethod = .get, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:],
        handler: (@Sendable (_ source: EventSource, _ event: ServerSentEvent) -> Void)? = nil
    ) -> EventSource {
        let source: EventSource
        do {
            source = try makeEventSource(url, method: method, parameters: parameters, body: body, headers: headers)
        } catch {
            source = makeEventSource(failing: error)
        }
        source.eventHandler = handler
        return enqueue(source)
    }

    /// Returns the events of a URL for one loop, which starts a source and closes it when the loop ends. For the
    /// parameters, see ``makeEventSource(_:method:parameters:body:headers:)``.
    ///
    /// ```swift
    /// for try await event in try manager.events("prices") { show(event.data) }
    /// ```
    ///
    /// - Throws: `URLError.badURL`, the request serializer's error, or the encoder's.
    public func events(
        _ url: some URLConvertible, method: HTTPMethod = .get, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:]
    ) throws -> ServerSentEvents {
        let source = try makeEventSource(url, method: method, parameters: parameters, body: body, headers: headers)
        let events = ServerSentEvents(reading: EventReading(of: source, closesSource: true))
        enqueue(source)
        return events
    }

    /// Creates a source that fails with the error that prevented the creation of its request.
    func makeEventSource(failing error: any Error) -> EventSource {
        let source = EventSource(request: URLRequest(url: baseURL ?? URL(fileURLWithPath: "/")))
        operationManager.adopt(source)
        adopt(source, as: .data)
        source.fail(with: error)
        return source
    }
}
