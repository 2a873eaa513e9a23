import ConvoySerialization
import Foundation
import FoundationNetworking

/// Operations that know the type of what they bring.
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
    ///   - body: sent as JSON, by ``encoder``; `Data` as it is. The parameters then become the query.
    ///   - headers: win over the serializer's; nil takes one of those away.
    ///   - timeout: limits for this operation alone; a number is the seconds that it may take in all.
    ///   - type: the type of the value.
    public func operation<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: Timeout? = nil,
        as type: Value.Type = Value.self
    ) -> TypedOperation<Value> {
        typedOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout))
    }

    /// The same with parameters of any type that can be encoded.
    public func operation<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, as type: Value.Type = Value.self
    ) -> TypedOperation<Value> {
        typedOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout))
    }

    /// Enqueues the operation, and returns it.
    @discardableResult
    public func enqueue<Value>(_ operation: TypedOperation<Value>) -> TypedOperation<Value> {
        enqueue([operation.operation])
        return operation
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
