import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Operations that are made and not enqueued: to give them dependencies, handlers, a stream, or a place in a batch.
extension HTTPRequestOperationManager {
    /// An operation for a method, a URL and parameters. Not enqueued.
    ///
    /// - Parameters:
    ///   - method: the method.
    ///   - url: absolute, or relative to `baseURL`.
    ///   - parameters: by their keys, as `Parameter.converting(_:)` takes them: nil leaves its key out. They become
    ///     the query of a GET, HEAD and DELETE, and the body of the others, as the request serializer writes it: a form,
    ///     or JSON with a `JSONRequestSerializer`.
    ///   - body: sent as JSON, by ``encoder``; `Data` as it is. The parameters then become the query.
    ///   - headers: win over the serializer's; nil takes one of those away.
    ///   - timeout: limits for this operation alone; a number is the seconds that it may take in all.
    /// - Throws: `URLError.badURL`, the request serializer's error, or the encoder's.
    public final func makeOperation(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: Timeout? = nil
    ) throws -> HTTPRequestOperation {
        try makeOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout))
    }

    /// An operation for a method, a URL and parameters of any type that can be encoded. Not enqueued. The rest is as with
    /// parameters by their keys.
    public final func makeOperation(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil
    ) throws -> HTTPRequestOperation {
        try makeOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout))
    }

    /// An operation for a method, a URL and a tree of parameters, which may be a literal of any depth. Not enqueued.
    @_disfavoredOverload
    public final func makeOperation(
        _ method: HTTPMethod, _ urlString: String, parameters: Parameters?, headers: [String: String?] = [:]
    ) throws -> HTTPRequestOperation {
        try makeOperation(ManagerCall(method, urlString, parameters, nil, headers, nil))
    }

    /// An operation that sends a form with parts (RFC 7578). Not enqueued.
    ///
    /// - Parameters:
    ///   - url: absolute, or relative to `baseURL`.
    ///   - method: the method; POST, unless given.
    ///   - parameters: fields that are sent before the parts.
    ///   - headers: win over the serializer's; nil takes one of those away.
    ///   - timeout: limits for this operation alone.
    ///   - constructingBody: appends the parts; called before this returns.
    /// - Throws: `URLError.badURL`, the serializer's error, or what `constructingBody` throws.
    public final func makeMultipartOperation(
        _ url: some URLConvertible, method: HTTPMethod = .post, parameters: [String: Any?]? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return try makeMultipartOperation(call, constructingBody)
    }

    /// An operation that sends a form with parts, and with parameters of any type that can be encoded. Not enqueued.
    public final func makeMultipartOperation(
        _ url: some URLConvertible, method: HTTPMethod = .post, parameters: some Encodable,
        headers: [String: String?] = [:], timeout: Timeout? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return try makeMultipartOperation(call, constructingBody)
    }
}

extension HTTPRequestOperationManager {
    func makeOperation(_ call: ManagerCall) throws -> HTTPRequestOperation {
        if call.isPlainGet, let operation = makePreparedOperation(call.url, { $0.settingsOfNextOperation() }) {
            call.apply(to: operation)
            return operation
        }
        return try makeOperation(call, body: body(of: call))
    }

    /// An operation whose value a task awaits, and decodes itself where it can. Not enqueued.
    func makeOperation<Value: Decodable & Sendable>(
        _ call: ManagerCall, awaiting type: Value.Type
    ) throws -> HTTPRequestOperation {
        if call.isPlainGet, let operation = makePreparedOperation(call.url, { $0.settingsOfNextOperation(awaiting: type) }) {
            call.apply(to: operation)
            return operation
        }
        let operation = try makeOperation(call, body: body(of: call))
        setAwaited(type, of: operation)
        return operation
    }

    /// Lets an operation make a value of a type of its response.
    func setAwaited<Value: Decodable & Sendable>(_ type: Value.Type, of operation: HTTPRequestOperation) {
        let decoder = decoder
        operation.change { $0.await(type, decoder: decoder) }
    }

    /// - Parameter body: what is sent in place of the parameters, which become the query.
    func makeOperation(_ call: ManagerCall, body: RequestBody?) throws -> HTTPRequestOperation {
        let url = try url(for: call.url)
        let parameters = call.parameters == nil ? nil : try Parameter.converting(call.parameters)
        let request =
            if let body {
                try requestSerializer.http.request(
                    method: call.method, url: url, query: parameters, headers: call.headers, body: body)
            } else {
                try requestSerializer.request(
                    method: call.method, url: url, parameters: parameters, headers: call.headers)
            }
        let operation = makeOperation(request: request)
        call.apply(to: operation)
        return operation
    }

    func makeMultipartOperation(
        _ call: ManagerCall, _ constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let request = try requestSerializer.multipartFormRequest(
            method: call.method, url: try url(for: call.url), parameters: try Parameter.converting(call.parameters),
            headers: call.headers, constructingBody: constructingBody)
        let operation = makeOperation(request: request)
        call.apply(to: operation)
        return operation
    }

    /// The body that a call is given as a value.
    private func body(of call: ManagerCall) throws -> RequestBody? {
        guard let body = call.body else { return nil }
        if let data = body as? Data { return .data(data, contentType: "application/octet-stream") }
        // Its numbers keep their digits, which no encoder lets them.
        if let tree = body as? JSON { return .data(Data(tree.description.utf8), contentType: "application/json") }
        return .data(try encoder.encode(body), contentType: "application/json")
    }

    /// An operation for a GET of a plain path, of which nothing need be checked; nil for others, and where a subclass
    /// makes the operations.
    private func makePreparedOperation(
        _ path: String, _ choose: (inout ManagerSettings) -> CommonSettings
    ) -> HTTPRequestOperation? {
        guard let basePrefix, Self.isPlainPath(path), type(of: self) == HTTPRequestOperationManager.self else { return nil }
        let (header, common, handler) = settings.withLock { settings in
            (
                settings.preparedHeader, settings.preparedHeader == nil ? nil : choose(&settings),
                settings.challengeHandler
            )
        }
        guard let header, let common else { return nil }
        let request = PreparedRequest(
            address: basePrefix + path, method: "GET", header: header.header, timeoutInterval: header.timeoutInterval)
        return Self.operation(.prepared(request), common, handler)
    }

    /// Enqueues the operation that a call makes; one that cannot be made fails as one that the network refuses.
    func enqueue(
        _ success: Success?, _ failure: Failure?, _ make: () throws -> HTTPRequestOperation
    ) -> HTTPRequestOperation {
        let operation: HTTPRequestOperation
        do {
            operation = try make()
        } catch {
            // A request that could not be made has no URL of its own.
            var request = URLRequest(url: baseURL ?? URL(fileURLWithPath: "/"))
            request.httpMethod = nil
            operation = makeOperation(request: request)
            operation.fail(with: error)
        }
        operation.setCompletionHandler(success: success, failure: failure)
        return enqueue(operation)
    }
}
