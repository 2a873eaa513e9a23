import ConvoyOperations
import ConvoySerialization
import Foundation
import FoundationNetworking

/// Server-sent events with a manager's settings.
extension HTTPManager {
    /// A source of server-sent events with the manager's settings, and a request that its request serializer makes. Not
    /// enqueued. It has no time limit in all, whatever the manager's is.
    ///
    /// ```swift
    /// let source = try manager.makeEventSource("prices", parameters: ["symbol": "ACME"])
    /// source.addDependency(login)
    /// manager.enqueue([login, source])
    /// ```
    ///
    /// - Parameters:
    ///   - url: absolute, or relative to `baseURL`.
    ///   - method: GET, unless given.
    ///   - parameters: the query of a GET, the body of others.
    ///   - body: sent as JSON, by `encoder`; `Data` as it is. The parameters then become the query.
    ///   - headers: win over the serializer's; nil takes one of those away.
    /// - Throws: `URLError.badURL`, the request serializer's error, or the encoder's.
    public func makeEventSource(
        _ url: some URLConvertible, method: HTTPMethod = .get, parameters: [String: Any?]? = nil,
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

    /// Enqueues a source of server-sent events, and returns it. A request that cannot be made fails through the source.
    ///
    /// ```swift
    /// let source = manager.eventSource("prices") { source, event in show(event.data) }
    /// ```
    ///
    /// - Parameter handler: called with each event, on `completionQueue`. The rest is as with
    ///   ``makeEventSource(_:method:parameters:body:headers:)``.
    @discardableResult
    public func eventSource(
        _ url: some URLConvertible, method: HTTPMethod = .get, parameters: [String: Any?]? = nil,
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

    /// The events of a URL, for one loop: it starts a source of its own, and leaving it closes that. The arguments are those of
    /// ``makeEventSource(_:method:parameters:body:headers:)``.
    ///
    /// ```swift
    /// for try await event in try manager.events("prices") { show(event.data) }
    /// ```
    ///
    /// - Throws: `URLError.badURL`, the request serializer's error, or the encoder's.
    public func events(
        _ url: some URLConvertible, method: HTTPMethod = .get, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:]
    ) throws -> ServerSentEvents {
        let source = try makeEventSource(url, method: method, parameters: parameters, body: body, headers: headers)
        let events = ServerSentEvents(reading: EventReading(of: source, closesSource: true))
        enqueue(source)
        return events
    }

    /// A source for a request that could not be made, and has no URL of its own.
    func makeEventSource(failing error: any Error) -> EventSource {
        let source = EventSource(request: URLRequest(url: baseURL ?? URL(fileURLWithPath: "/")))
        operationManager.adopt(source)
        adopt(source, as: .data)
        source.fail(with: error)
        return source
    }
}
