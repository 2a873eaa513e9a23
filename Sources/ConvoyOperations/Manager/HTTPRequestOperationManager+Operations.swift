import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// How operations are made of the calls of the verbs.
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

    /// An operation that makes a value of its response itself, for its handlers or its dependents. Not enqueued.
    func makeOperation<Value: Decodable & Sendable>(
        _ call: ManagerCall, decoding type: Value.Type
    ) throws -> HTTPRequestOperation {
        let operation = try makeOperation(call)
        setAwaited(type, of: operation)
        operation.change { $0.awaitedValue = nil }
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
        let operation = makeOperation(request: withoutSecretsOfOthers(request, call.headers))
        call.apply(to: operation)
        return operation
    }

    func makeMultipartOperation(
        _ call: ManagerCall, _ constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let request = try requestSerializer.multipartFormRequest(
            method: call.method, url: try url(for: call.url), parameters: try Parameter.converting(call.parameters),
            headers: call.headers, constructingBody: constructingBody)
        let operation = makeOperation(request: withoutSecretsOfOthers(request, call.headers))
        call.apply(to: operation)
        return operation
    }

    /// The body that a call is given as a value.
    private func body(of call: ManagerCall) throws -> RequestBody? {
        guard let body = call.body else { return nil }
        if let data = body as? Data { return .data(data, contentType: "application/octet-stream") }
        // Its numbers keep their digits, which no encoder lets them.
        if let tree = body as? JSON { return .data(Data(tree.description.utf8), contentType: "application/json") }
        if let body = body as? any HTTPBodyCodable {
            return .data(try body.httpBody(), contentType: type(of: body).mediaType)
        }
        return .data(try encoder.encode(body), contentType: "application/json")
    }

    /// An operation for a GET of a plain path, of which nothing need be checked; nil for others, and where a subclass
    /// makes the operations.
    private func makePreparedOperation(
        _ path: String, _ choose: (inout ManagerSettings) -> CommonSettings
    ) -> HTTPRequestOperation? {
        guard let basePrefix, Self.isPlainPath(path), type(of: self) == HTTPRequestOperationManager.self else { return nil }
        let (header, common, handlers) = settings.withLock { settings in
            (
                settings.preparedHeader, settings.preparedHeader == nil ? nil : choose(&settings),
                settings.handlers
            )
        }
        guard let header, let common else { return nil }
        let request = PreparedRequest(
            address: HTTPAddress(target: basePrefix.target, text: basePrefix.text + path), method: "GET",
            header: header.header, timeoutInterval: header.timeoutInterval)
        return Self.operation(.prepared(request), common, handlers)
    }

    /// A GET whose body goes into a file.
    func makeDownload(_ call: ManagerCall, to file: URL) throws -> HTTPRequestOperation {
        guard file.isFileURL else {
            throw URLError(.badURL, url: file, "A download goes into a file, and this is the URL of none.")
        }
        var headers = call.headers
        if !headers.keys.contains(where: { HTTPSyntax.isSameField($0, "Accept-Encoding") }) {
            headers["Accept-Encoding"] = "identity"
        }
        let operation = try makeOperation(
            ManagerCall(call.method, call.url, call.parameters, call.body, headers, call.timeout))
        operation.responseSerializer = HTTPResponseSerializer(statusesOf: responseSerializer)
        operation.outputStream = PartialFileStream(fileURL: file)
        return operation
    }
}
