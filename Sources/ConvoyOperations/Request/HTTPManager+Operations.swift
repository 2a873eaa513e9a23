import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that create operations without enqueuing them, so that you can first add dependencies or handlers, set a
/// stream, or form a batch.
extension HTTPManager {
    /// Creates an operation for a method, a URL and parameters, without enqueuing it.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - url: An absolute URL, or a URL relative to `baseURL`.
    ///   - parameters: A literal, or `.init(dictionary)` or `.encoding(value)` for a variable; see
    ///     `RequestParameters`. They become the query of a GET, HEAD or DELETE request, and the body of other requests,
    ///     encoded by the request serializer as a form, or as JSON by a `JSONRequestSerializer`.
    ///   - body: A value sent as JSON, encoded by ``encoder``; `Data` is sent unchanged. With a body, the parameters
    ///     become the query.
    ///   - headers: Header fields that override the serializer's; nil removes a field.
    ///   - timeout: The time limits of this operation; a number is the total limit in seconds.
    ///   - responseSerializer: The serializer that validates and parses the response; nil for the manager's.
    ///     `HTTPResponseSerializer()` accepts any content type and returns the body.
    /// - Throws: `URLError.badURL`, the request serializer's error, or the encoder's error.
    public func makeOperation(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        responseSerializer: (any HTTPResponseSerialization)? = nil
    ) throws -> HTTPRequestOperation {
        adopted(
            try operationManager.makeOperation(RequestArguments(method, url.urlString, parameters, body, headers, timeout)),
            as: .data, responseSerializer: responseSerializer)
    }

    /// Creates an operation that sends a multipart form (RFC 7578), without enqueuing it.
    ///
    /// - Parameters:
    ///   - url: An absolute URL, or a URL relative to `baseURL`.
    ///   - method: The HTTP method; POST by default.
    ///   - parameters: Fields that are sent before the parts.
    ///   - headers: Header fields that override the serializer's; nil removes a field.
    ///   - timeout: The time limits of this operation; a number is the total limit in seconds.
    ///   - constructingBody: A closure that appends the parts, called before this method returns.
    /// - Throws: `URLError.badURL`, the serializer's error, or the error thrown by `constructingBody`.
    public func makeMultipartOperation(
        _ url: some URLConvertible, method: HTTPMethod = .post, parameters: RequestParameters? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        return adopted(try operationManager.makeMultipartOperation(call, constructingBody), as: .upload)
    }
}

/// Methods for typed operations.
extension HTTPManager {
    /// Creates an operation whose response is converted to a typed value on which other operations can depend, without
    /// enqueuing it.
    ///
    /// `Data` and `String` are created from any content type, `JSON` from any shape, and everything else is decoded as
    /// JSON by ``decoder``. If the request cannot be created, the operation fails when it is started.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - url: An absolute URL, or a URL relative to `baseURL`.
    ///   - parameters: The parameters by key. They become the query of a GET, HEAD or DELETE request, and the body of
    ///     other requests.
    ///   - body: A value sent as JSON, encoded by ``encoder``; `Data` is sent unchanged. With a body, the parameters
    ///     become the query.
    ///   - headers: Header fields that override the serializer's; nil removes a field.
    ///   - timeout: The time limits of this operation; a number is the total limit in seconds.
    ///   - type: The type of the value.
    public func operation<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        as type: Value.Type = Value.self
    ) -> TypedOperation<Value> {
        typedOperation(RequestArguments(method, url.urlString, parameters, body, headers, timeout))
    }

    /// Enqueues the operation, and returns it.
    @discardableResult
    public func enqueue<Value>(_ operation: TypedOperation<Value>) -> TypedOperation<Value> {
        enqueue([operation.operation])
        return operation
    }

    /// Enqueues operations, waits until all have finished, and returns their values in order. Cancelling the task
    /// cancels the operations.
    ///
    /// ```swift
    /// let users = try await manager.enqueueBatch(of: ids.map { manager.operation(.get, "users/\($0)", as: User.self) })
    /// ```
    ///
    /// - Parameters:
    ///   - operations: The members of the batch.
    ///   - progress: The progress handler, called as for untyped operations.
    /// - Throws: After all members have finished, the error of the first member without a value, in order; the `result`
    ///   of each member remains available. `URLError.cancelled` if the task was cancelled.
    @discardableResult
    public func enqueueBatch<Value>(
        of operations: [TypedOperation<Value>], progress: BatchOperation.ProgressHandler? = nil
    ) async throws -> [Value] {
        try await enqueueBatch(of: operations.map(\.operation), progress: progress)
        var values: [Value] = []
        for operation in operations { values.append(try await operation.value()) }
        return values
    }

    /// Enqueues the operations of several requests, whose types may differ, in the given order.
    @_disfavoredOverload
    public func enqueue(_ requests: [any HTTPRequestHandle]) { enqueue(requests.map(\.operation)) }

    private func typedOperation<Value: Decodable & Sendable>(_ call: RequestArguments) -> TypedOperation<Value> {
        let operation = operationManager.makeOperation {
            try operationManager.makeOperation(call, decoding: Value.self)
        }
        return TypedOperation(adopted(operation, as: .data))
    }
}

extension TypedOperation {
    /// The head of the response, with its status code and header fields. See `HTTPRequestOperation.response`.
    public var response: HTTPURLResponse? { operation.response }

    /// Makes the operation wait for another operation of any class.
    public func addDependency(_ dependency: Operation) { operation.addDependency(dependency) }

    /// Makes the operation wait for another typed operation, without using its value.
    public func addDependency<Other>(_ dependency: TypedOperation<Other>) { operation.addDependency(dependency.operation) }
}

extension Operation {
    /// Makes the operation wait for a typed operation.
    public func addDependency<Value>(_ dependency: TypedOperation<Value>) { addDependency(dependency.operation) }
}

/// Methods that await batches.
extension HTTPManager {
    /// Enqueues operations, and waits until all have finished and their handlers have run. Cancelling the task cancels
    /// the operations.
    ///
    /// ```swift
    /// let images = try names.map { try manager.makeOperation(.get, "images/\($0)") }
    /// for image in try await manager.enqueueBatch(of: images) where image.error == nil { … }
    /// ```
    ///
    /// - Parameters:
    ///   - operations: The members of the batch.
    ///   - progress: The handler called for each operation after the operation's own handlers, with a number of
    ///     finished members that increases by one. It runs on `completionQueue`, or on an internal queue if that is
    ///     nil.
    /// - Returns: The operations in order, without duplicates. A failed operation has an `error`.
    /// - Throws: `URLError.cancelled` if the task was cancelled.
    @discardableResult
    public func enqueueBatch<Member: URLConnectionOperation>(
        of operations: [Member], progress: BatchOperation.ProgressHandler? = nil
    ) async throws -> [Member] {
        let members = BatchOperation.withoutDuplicates(operations)
        let batch = BatchOperation(
            of: members, completionQueue: completionQueue ?? OperationQueues.processing, progress: progress)
        enqueue(members + [batch])
        do {
            try await batch.finished()
        } catch {
            if Task.isCancelled { throw error }
            // `cancelAllOperations()` of the queue also cancels the batch operation, which then finishes before the
            // members.
            await members.awaitAll()
        }
        return members
    }

    /// Enqueues operations, and passes them to `body` in the order in which they finish. When `body` returns or throws,
    /// the remaining operations are cancelled and awaited, so that no operation outlives the call. Cancelling the task
    /// cancels all operations.
    ///
    /// ```swift
    /// let fastest = try await manager.withBatch(of: mirrors) { finished in
    ///     await finished.first { $0.error == nil }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - operations: The members of the batch; duplicates count once.
    ///   - isolation: The actor on which `body` runs; by default that of the caller.
    ///   - body: A closure that receives each member when the member has finished and its handlers have run. Failed and
    ///     cancelled members are included, so check their `error`. The sequence ends after the last member, and can be
    ///     iterated over once.
    /// - Returns: The result of `body`.
    /// - Throws: The error thrown by `body`, or `URLError.cancelled` if the task was cancelled.
    public func withBatch<Member: URLConnectionOperation, Result>(
        of operations: [Member], isolation: isolated (any Actor)? = #isolation,
        _ body: (AsyncStream<Member>) async throws -> Result
    ) async throws -> Result {
        let members = BatchOperation.withoutDuplicates(operations)
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

    /// Waits until all operations have finished and their handlers have run.
    fileprivate nonisolated(nonsending) func awaitAll() async {
        for operation in self {
            await withCheckedContinuation { continuation in
                operation.whenDelivered { continuation.resume() }
            }
        }
    }
}
