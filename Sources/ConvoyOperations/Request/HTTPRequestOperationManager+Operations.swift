import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that create operations from calls of the request methods.
extension HTTPRequestOperationManager {
    func makeOperation(_ call: RequestArguments) throws -> HTTPRequestOperation {
        try makeOperation(call, body: body(of: call))
    }

    /// Creates an operation without enqueuing it. A task awaits the operation's value and, if possible, decodes it.
    func makeOperation<Value: Decodable & Sendable>(
        _ call: RequestArguments, awaiting type: Value.Type
    ) throws -> HTTPRequestOperation {
        if isPlain { return try makeOperation(call, body: body(of: call)) { $0.settings(awaiting: type) } }
        let operation = try makeOperation(call)
        setAwaited(type, of: operation)
        return operation
    }

    /// Creates an operation without enqueuing it. The operation decodes its value before it finishes, for its handlers
    /// and dependents.
    func makeOperation<Value: Decodable & Sendable>(
        _ call: RequestArguments, decoding type: Value.Type
    ) throws -> HTTPRequestOperation {
        let operation = try makeOperation(call)
        setAwaited(type, of: operation)
        operation.change { $0.holder.awaitedValue = nil }
        return operation
    }

    /// Sets the type of the value that the response of an operation is decoded as.
    func setAwaited<Value: Decodable & Sendable>(_ type: Value.Type, of operation: HTTPRequestOperation) {
        let decoder = decoder
        operation.change { values in
            values.decoder = decoder
            values.await(type)
        }
    }

    /// - Parameters:
    ///   - body: The body, if it replaces the parameters, which then become the query.
    ///   - choose: A closure that chooses the settings. It is not called if a subclass creates the operations.
    func makeOperation(
        _ call: RequestArguments, body: RequestBody?,
        with choose: (inout ManagerState) -> RequestSettings = { $0.settings }
    ) throws -> HTTPRequestOperation {
        let operation: HTTPRequestOperation
        let parameters = try parameters(of: call)
        if isPlain {
            let (template, settings, handlers) = state.withLock { ($0.template, choose(&$0), $0.handlers) }
            if let template, let reference = SimpleURLReference(call.url, under: base),
                let prepared = template.request(call, parameters, to: reference, body: body, under: settings)
            {
                let host = reference.leadsToBase ? baseHost : reference.target.place
                operation = Self.operation(prepared, settings, handlers, host: host)
            } else {
                let request = TransferRequest(try request(of: call, parameters, body: body))
                operation = Self.operation(request, settings, handlers)
            }
        } else {
            operation = makeOperation(request: try request(of: call, parameters, body: body))
        }
        call.apply(to: operation)
        return operation
    }

    /// Whether the manager is not an instance of a subclass, which may override `makeOperation(request:)`.
    private var isPlain: Bool { type(of: self) == HTTPRequestOperationManager.self }

    /// Returns the request of a call as created by the request serializer.
    func request(
        of call: RequestArguments, _ parameters: ParameterValue?, body: RequestBody?
    ) throws -> URLRequest {
        let url = try url(for: call.url)
        let request =
            if let body {
                try requestSerializer.http.request(
                    method: call.method, url: url, query: parameters, headers: call.headers, body: body)
            } else {
                try requestSerializer.request(
                    method: call.method, url: url, parameters: parameters, headers: call.headers)
            }
        return withoutWithheldFields(request, call.headers)
    }

    func makeMultipartOperation(
        _ call: RequestArguments, _ constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let request = try requestSerializer.multipartFormRequest(
            method: call.method, url: try url(for: call.url), parameters: try parameters(of: call),
            headers: call.headers, constructingBody: constructingBody)
        let operation = makeOperation(request: withoutWithheldFields(request, call.headers))
        call.apply(to: operation)
        return operation
    }

    /// Returns the parameters of a call as the serializer receives them; nil for a call without parameters.
    func parameters(of call: RequestArguments) throws -> ParameterValue? {
        try call.parameters?.tree { value in
            let (serializer, encoder) = state.withLock { ($0.requestSerializer, $0.encoder) }
            // Other formats, such as property lists, can have types of their own for dates and data.
            guard serializer is HTTPRequestSerializer || serializer is JSONRequestSerializer else {
                return try ParameterValue(encoding: value)
            }
            return try ParameterValue(encoding: value, by: encoder)
        } ?? nil
    }

    /// Returns the encoded `body` of a call; nil for a call without a body.
    private func body(of call: RequestArguments) throws -> RequestBody? {
        guard let body = call.body else { return nil }
        if let data = body as? Data { return .data(data, contentType: "application/octet-stream") }
        // The tree's own description preserves the digits of its numbers, which an encoder would change.
        if let tree = body as? JSON { return .data(Data(tree.description.utf8), contentType: "application/json") }
        if let body = body as? any HTTPBodyCodable {
            return .data(try body.httpBody(), contentType: type(of: body).mediaType)
        }
        return .data(try encoder.encode(body), contentType: "application/json")
    }
}

/// Methods for sessions and for operations of other classes.
extension HTTPRequestOperationManager {
    /// Applies the manager's settings and handlers to a new operation.
    package final func adopt(_ operation: HTTPRequestOperation) {
        let (settings, handlers) = state.withLock { ($0.settings, $0.handlers) }
        operation.set(settings) { swap(&$0.common, &$1) }
        operation.beginToTell(settings)
        handlers?.give(to: operation)
    }

    /// Returns the operation created by `make`. If `make` throws, returns an operation that fails with that error.
    package final func makeOperation(_ make: () throws -> HTTPRequestOperation) -> HTTPRequestOperation {
        do {
            return try make()
        } catch {
            // The request could not be created, so its URL is unknown.
            var request = URLRequest(url: baseURL ?? URL(fileURLWithPath: "/"))
            request.httpMethod = nil
            let operation = makeOperation(request: request)
            operation.fail(with: error)
            return operation
        }
    }

    /// Adds an operation to the queue, unless it may be in another queue or has finished.
    package final func enqueueUnlessTaken(_ operation: HTTPRequestOperation) {
        guard !operation.isFinished, operation.claimUnlessTaken() else { return }
        operation.enterCompletionGroup()
        currentQueue.addOperation(operation)
    }

    /// Sets the transport of operations created later.
    package final func setTransport(_ transport: any Transport) {
        change { $0.transport = transport }
    }

    /// Sets whether operations created later post notifications.
    package final func setPostsNotifications(_ posts: Bool) {
        change { $0.settings.values.holder.allowsNotifications = posts }
    }

    /// Creates a request without parameters with the manager's serializer. Secret fields that the origin of the URL
    /// must not receive are removed.
    package final func makeRequest(_ method: HTTPMethod, _ url: URL) throws -> URLRequest {
        withoutWithheldFields(try requestSerializer.request(method: method, url: url, parameters: nil, headers: [:]))
    }
}

/// The arguments of a call of a request method, before they are converted.
struct RequestArguments {
    let method: HTTPMethod
    let url: String
    let parameters: RequestParameters?
    let body: (any Encodable)?
    let headers: [String: String?]
    let timeout: RequestTimeout?

    init(
        _ method: HTTPMethod, _ url: String, _ parameters: RequestParameters?, _ body: (any Encodable)?,
        _ headers: [String: String?], _ timeout: RequestTimeout?
    ) {
        self.method = method
        self.url = url
        self.parameters = parameters
        self.body = body
        self.headers = headers
        self.timeout = timeout
    }

    func apply(to operation: HTTPRequestOperation) {
        guard let timeout else { return }
        operation.change { values in
            if let idle = timeout.idle { values.idleTimeout = idle }
            if let total = timeout.total { values.totalTimeout = total }
        }
    }
}

extension HTTPRequestOperationManager {
    /// Returns the key that identical requests of the manager share; nil for a request that does not share its
    /// transfer.
    package final func sharedTransferKey(of request: URLRequest) -> SharedTransferKey? {
        SharedTransferKey(request, settings.prepared.configuration)
    }
}
