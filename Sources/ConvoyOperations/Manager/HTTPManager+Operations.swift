import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Makes operations without enqueueing them, to add dependencies, handlers, a stream, or a place in a batch.
extension HTTPManager {
    /// An operation for a method, a URL and parameters. Not enqueued.
    ///
    /// - Parameters:
    ///   - method: the method.
    ///   - url: absolute, or relative to `baseURL`.
    ///   - parameters: by their keys, as `ParameterValue.converting(_:)` takes them: nil leaves its key out. They become the
    ///     query of a GET, HEAD and DELETE, and the body of the others, as the request serializer writes it: a form, or
    ///     JSON with a `JSONRequestSerializer`.
    ///   - body: sent as JSON, by ``encoder``; `Data` is sent unchanged. The parameters then become the query.
    ///   - headers: override the serializer's; nil removes one.
    ///   - timeout: limits for this operation alone; a number is the total limit in seconds.
    ///   - responseSerializer: validates and parses the response instead of the manager's: `HTTPResponseSerializer()`
    ///     accepts any content type and returns the body.
    /// - Throws: `URLError.badURL`, the request serializer's error, or the encoder's.
    public func makeOperation(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        responseSerializer: (any HTTPResponseSerialization)? = nil
    ) throws -> HTTPRequestOperation {
        adopted(
            try operationManager.makeOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout)),
            as: .data, responseSerializer: responseSerializer)
    }

    /// An operation for a method, a URL and parameters of any type that can be encoded. Not enqueued. The rest is as with
    /// parameters by their keys.
    public func makeOperation(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        responseSerializer: (any HTTPResponseSerialization)? = nil
    ) throws -> HTTPRequestOperation {
        adopted(
            try operationManager.makeOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout)),
            as: .data, responseSerializer: responseSerializer)
    }

    /// An operation for a method, a URL and a tree of parameters, which may be a literal of any depth. Not enqueued.
    @_disfavoredOverload
    public func makeOperation(
        _ method: HTTPMethod, _ urlString: String, parameters: ParameterValue?, headers: [String: String?] = [:]
    ) throws -> HTTPRequestOperation {
        adopted(try operationManager.makeOperation(ManagerCall(method, urlString, parameters, nil, headers, nil)), as: .data)
    }

    /// An operation that sends a form with parts (RFC 7578). Not enqueued.
    ///
    /// - Parameters:
    ///   - url: absolute, or relative to `baseURL`.
    ///   - method: the method; POST, unless given.
    ///   - parameters: fields that are sent before the parts.
    ///   - headers: override the serializer's; nil removes one.
    ///   - timeout: limits for this operation alone.
    ///   - constructingBody: appends the parts; called before this returns.
    /// - Throws: `URLError.badURL`, the serializer's error, or what `constructingBody` throws.
    public func makeMultipartOperation(
        _ url: some URLConvertible, method: HTTPMethod = .post, parameters: [String: Any?]? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return adopted(try operationManager.makeMultipartOperation(call, constructingBody), as: .upload)
    }

    /// An operation that sends a form with parts, and with parameters of any type that can be encoded. Not enqueued.
    public func makeMultipartOperation(
        _ url: some URLConvertible, method: HTTPMethod = .post, parameters: some Encodable,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return adopted(try operationManager.makeMultipartOperation(call, constructingBody), as: .upload)
    }
}

/// Operations with the type of their value.
extension HTTPManager {
    /// An operation whose response becomes a value of a type, for others to depend on. Not enqueued.
    ///
    /// `Data` and `String` are made of any content type, `JSON` of any shape, and everything else is decoded as JSON by
    /// ``decoder``. A request that cannot be made fails when it is started.
    ///
    /// - Parameters:
    ///   - method: the method.
    ///   - url: absolute, or relative to `baseURL`.
    ///   - parameters: by their keys: the query of a GET, HEAD and DELETE, and the body of the others.
    ///   - body: sent as JSON, by ``encoder``; `Data` is sent unchanged. The parameters then become the query.
    ///   - headers: override the serializer's; nil removes one.
    ///   - timeout: limits for this operation alone; a number is the total limit in seconds.
    ///   - type: the type of the value.
    public func operation<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        as type: Value.Type = Value.self
    ) -> TypedOperation<Value> {
        typedOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout))
    }

    /// The same with parameters of any type that can be encoded.
    public func operation<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, as type: Value.Type = Value.self
    ) -> TypedOperation<Value> {
        typedOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout))
    }

    /// Enqueues the operation, and returns it.
    @discardableResult
    public func enqueue<Value>(_ operation: TypedOperation<Value>) -> TypedOperation<Value> {
        enqueue([operation.operation])
        return operation
    }

    /// Enqueues operations, waits until all have finished, and returns their values in their order. Cancelling the task
    /// cancels them.
    ///
    /// ```swift
    /// let users = try await manager.enqueueBatch(of: ids.map { manager.operation(.get, "users/\($0)", as: User.self) })
    /// ```
    ///
    /// - Parameters:
    ///   - operations: the members.
    ///   - progress: as for members without types.
    /// - Throws: the error of the first member, in their order, that has no value, after all have finished: `result` of each
    ///   has what the others brought. `URLError.cancelled` if the task was cancelled.
    @discardableResult
    public func enqueueBatch<Value>(
        of operations: [TypedOperation<Value>], progress: BatchOperation.ProgressHandler? = nil
    ) async throws -> [Value] {
        try await enqueueBatch(of: operations.map(\.operation), progress: progress)
        var values: [Value] = []
        for operation in operations { values.append(try await operation.value()) }
        return values
    }

    /// Enqueues the operations of requests of different types, in this order.
    @_disfavoredOverload
    public func enqueue(_ requests: [any HTTPRequestHandle]) { enqueue(requests.map(\.operation)) }

    private func typedOperation<Value: Decodable & Sendable>(_ call: ManagerCall) -> TypedOperation<Value> {
        let operation = operationManager.makeOperation {
            try operationManager.makeOperation(call, decoding: Value.self)
        }
        return TypedOperation(adopted(operation, as: .data))
    }
}

extension TypedOperation {
    /// The head of the response: its status and fields. See `HTTPRequestOperation.response`.
    public var response: HTTPURLResponse? { operation.response }

    /// Makes the operation wait for another one, of any kind.
    public func addDependency(_ dependency: Operation) { operation.addDependency(dependency) }

    /// Makes the operation wait for another one, without its value.
    public func addDependency<Other>(_ dependency: TypedOperation<Other>) { operation.addDependency(dependency.operation) }
}

extension Operation {
    /// Makes the operation wait for a typed one.
    public func addDependency<Value>(_ dependency: TypedOperation<Value>) { addDependency(dependency.operation) }
}

/// Batches that are awaited.
extension HTTPManager {
    /// Enqueues operations, and waits until all have finished and their handlers have run. Cancelling the task cancels
    /// them.
    ///
    /// ```swift
    /// let images = try names.map { try manager.makeOperation(.get, "images/\($0)") }
    /// for image in try await manager.enqueueBatch(of: images) where image.error == nil { … }
    /// ```
    ///
    /// - Parameters:
    ///   - operations: the members.
    ///   - progress: called for each operation after its own handlers, with numbers that rise by one, on
    ///     `completionQueue`, or on a queue of the library if that is nil.
    /// - Returns: the operations in their order, each once. One that has failed holds its `error`.
    /// - Throws: `URLError.cancelled` if the task was cancelled.
    @discardableResult
    public func enqueueBatch<Member: URLConnectionOperation>(
        of operations: [Member], progress: BatchOperation.ProgressHandler? = nil
    ) async throws -> [Member] {
        let members = operations.eachOnce
        let batch = BatchOperation(
            of: members, completionQueue: completionQueue ?? OperationQueues.processing, progress: progress)
        enqueue(members + [batch])
        do {
            try await batch.finished()
        } catch {
            if Task.isCancelled { throw error }
            // The queue's `cancelAllOperations()` has cancelled the end of the batch, too.
            await members.awaitAll()
        }
        return members
    }

    /// Enqueues operations, and passes them to `body` in the order in which they finish. Those that are left when it
    /// returns or throws are cancelled and awaited, so that none outlives the call. Cancelling the task cancels all.
    ///
    /// ```swift
    /// let fastest = try await manager.withBatch(of: mirrors) { finished in
    ///     await finished.first { $0.error == nil }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - operations: the members; one that is given twice counts once.
    ///   - isolation: where `body` runs: with the caller, unless given.
    ///   - body: receives each member when it has finished and its handlers have run, including failed and cancelled
    ///     ones: check its `error`. The sequence ends after the last one, and can be iterated over once.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, or `URLError.cancelled` if the task was cancelled.
    public func withBatch<Member: URLConnectionOperation, Result>(
        of operations: [Member], isolation: isolated (any Actor)? = #isolation,
        _ body: (AsyncStream<Member>) async throws -> Result
    ) async throws -> Result {
        let members = operations.eachOnce
        let (finished, continuation) = AsyncStream.makeStream(of: Member.self)
        let left = Locked(members.count)
        if members.isEmpty { continuation.finish() }
        for member in members {
            member.whenDelivered { [weak member] in
                if let member { continuation.yield(member) }
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { continuation.finish() }
            }
        }
        enqueue(members)
        return try await withTaskCancellationHandler {
            do {
                let result = try await body(finished)
                await members.endAll()
                if Task.isCancelled { throw URLError(.cancelled, url: nil, "The batch was cancelled.") }
                return result
            } catch {
                await members.endAll()
                throw error
            }
        } onCancel: {
            for member in members { member.cancel() }
        }
    }
}

extension Array where Element: URLConnectionOperation {
    /// Cancels the unfinished operations, and waits until all have finished.
    fileprivate nonisolated(nonsending) func endAll() async {
        for operation in self { operation.cancel() }
        await awaitAll()
    }

    /// Waits until all have finished and their handlers have run.
    fileprivate nonisolated(nonsending) func awaitAll() async {
        for operation in self {
            await withCheckedContinuation { continuation in
                operation.whenDelivered { continuation.resume() }
            }
        }
    }
}
