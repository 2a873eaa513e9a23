import ConvoyOperations
import ConvoySerialization
import Foundation
import FoundationNetworking

extension HTTPMethod {
    /// The method of a subscription to the events of a resource, as in AFNetworking's Rocket.
    public static let subscribe = HTTPMethod("SUBSCRIBE")
}

/// Subscriptions to values of a server.
extension HTTPManager {
    /// Creates a subscription to a JSON document, with the manager's settings, without enqueuing it.
    /// ``ValueSubscription/source`` is the operation to enqueue.
    ///
    /// - Parameters:
    ///   - url: The URL of the events, and of the value; absolute, or relative to `baseURL`.
    ///   - method: The method of the request for events; by default SUBSCRIBE, as in AFNetworking's Rocket. Many
    ///     servers support only `.get`, and distinguish the two requests by their `Accept`.
    ///   - parameters: The query of the request for the value, and of the request for events if that is a GET;
    ///     otherwise the body of the latter.
    ///   - headers: The fields of both requests, which override the serializer's; nil removes a field.
    ///   - valueURL: The URL of the value, if it differs from that of the events.
    ///   - type: The type that `decoder` decodes from the JSON; `JSON` for the tree itself.
    ///   - handler: Called serially with each change after it was applied, in order, on `completionQueue`, or the main
    ///     queue if that is nil. The value may be ahead of the change by then. If the handler is more than 10,000
    ///     changes or 8 MiB behind, it gets the newest value instead.
    /// - Throws: `URLError.badURL`, or the request serializer's error.
    public func makeSubscription<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .subscribe, parameters: RequestParameters? = nil,
        headers: [String: String?] = [:], valueURL: (any URLConvertible)? = nil, as type: Value.Type,
        handler: (@Sendable (_ subscription: ValueSubscription<Value>, _ change: SubscriptionChange) -> Void)? = nil
    ) throws -> ValueSubscription<Value> {
        let source = try makeEventSource(url, method: method, parameters: parameters, headers: headers)
        let template = try makeFetch(valueURL?.urlString ?? url.urlString, parameters, headers)
        return subscription(by: source, fetching: template.request, handler)
    }

    /// Enqueues a subscription to a JSON document, and returns it. If a request cannot be made, the subscription fails.
    /// For the parameters, see ``makeSubscription(_:method:parameters:headers:valueURL:as:handler:)``.
    ///
    /// ```swift
    /// let subscription = manager.subscribe("documents/7", as: JSON.self) { subscription, change in
    ///     if case .patch(let patch) = change { print(patch.operations) }
    /// }
    /// ```
    @discardableResult
    public func subscribe<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .subscribe, parameters: RequestParameters? = nil,
        headers: [String: String?] = [:], valueURL: (any URLConvertible)? = nil, as type: Value.Type,
        handler: (@Sendable (_ subscription: ValueSubscription<Value>, _ change: SubscriptionChange) -> Void)? = nil
    ) -> ValueSubscription<Value> {
        let subscription: ValueSubscription<Value>
        do {
            subscription = try makeSubscription(
                url, method: method, parameters: parameters, headers: headers, valueURL: valueURL, as: type, handler: handler
            )
        } catch {
            let source = makeEventSource(failing: error)
            subscription = self.subscription(by: source, fetching: source.request, handler)
        }
        enqueue([subscription.source])
        return subscription
    }

    private func subscription<Value: Decodable & Sendable>(
        by source: EventSource, fetching request: URLRequest,
        _ handler: (@Sendable (ValueSubscription<Value>, SubscriptionChange) -> Void)?
    ) -> ValueSubscription<Value> {
        let rules = responseSerializer.http
        // Allow a value in an event to be as long as one in a response.
        source.maximumEventLength = max(source.maximumEventLength, rules.limits.maximumBodySize)
        let core = SubscriptionCore(
            of: source,
            makeFetch: { [self] in
                let fetch = HTTPRequestOperation(request: request)
                operationManager.adopt(fetch)
                adopt(fetch, as: .data)
                var serializer = JSONTreeResponseSerializer()
                serializer.http = rules
                fetch.responseSerializer = serializer
                return fetch
            }, enqueue: { [self] in enqueue([$0]) })
        let decoder = decoder
        core.inner.withLock { inner in
            inner.state.maximumDepth = rules.limits.maximumNestingDepth
            guard let handler else { return }
            inner.handler = { [weak core] source, change in
                guard let core else { return }
                handler(ValueSubscription(source: source, core: core, decoder: decoder), change)
            }
        }
        return ValueSubscription(source: source, core: core, decoder: decoder)
    }

    /// Creates the request for the value, which bypasses caches.
    private func makeFetch(
        _ url: String, _ parameters: RequestParameters?, _ headers: [String: String?]
    ) throws -> HTTPRequestOperation {
        var headers = headers
        for (name, value) in ["Accept": "application/json", "Cache-Control": "no-cache"]
        where !headers.keys.contains(where: { $0.lowercased() == name.lowercased() }) {
            headers[name] = value
        }
        return try operationManager.makeOperation(.get, url, parameters: parameters, headers: headers)
    }
}
