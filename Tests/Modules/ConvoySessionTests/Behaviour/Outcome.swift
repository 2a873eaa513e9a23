import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The result of a request, in any form.
struct Outcome: Sendable {
    /// The operation; nil if the form reports only an error.
    let operation: HTTPRequestOperation?
    let error: (any Error)?
    /// The handlers that were called, in order; nil for a form without handlers.
    var calls: [String]?

    var code: URLError.Code? { (error as? URLError)?.code }
    var status: Int? { (error as? HTTPError)?.statusCode ?? operation?.statusCode }

    /// The object created by the response serializer, including that of an error response.
    var object: Any? { (error as? HTTPError)?.responseObject ?? operation?.responseObject }

    /// Whether the handlers, if any, were called once with the operation's result.
    var isTold: Bool { calls.map { $0 == [error == nil ? "success" : "failure"] } ?? true }
}

extension HTTPManager {
    /// Sends a request in a form, and waits for its end. In the form of an operation, the request first waits for
    /// another one.
    func outcome(
        _ form: RequestForm, _ method: HTTPMethod = .get, _ url: String, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil
    ) async -> Outcome {
        switch form {
        case .handlers:
            return await outcome(method, url, parameters, body, headers, timeout)
        case .awaited:
            do {
                let operation = try await response(
                    method, url, parameters: parameters, body: body, headers: headers, timeout: timeout)
                return Outcome(operation: operation, error: nil)
            } catch {
                return Outcome(operation: nil, error: error)
            }
        case .operations:
            do {
                let operation = try makeOperation(
                    method, url, parameters: parameters, body: body, headers: headers, timeout: timeout)
                let before = BlockOperation()
                operation.addDependency(before)
                enqueue([operation, before])
                return Outcome(operation: operation, error: await operation.end())
            } catch {
                return Outcome(operation: nil, error: error)
            }
        }
    }

    /// Sends a request in the form with handlers.
    private func outcome(
        _ method: HTTPMethod, _ url: String, _ parameters: RequestParameters?, _ body: (any Encodable)?,
        _ headers: [String: String?], _ timeout: RequestTimeout?
    ) async -> Outcome {
        let calls = HandlerCalls()
        let success: Success = { request, object in
            calls.note("success", of: request.operation, isRight: request.operation.error == nil, object)
        }
        let failure: Failure = { request, error in
            let isRight = request.operation.error.map { $0 as NSError == error as NSError } ?? false
            calls.note("failure", of: request.operation, isRight: isRight, request.operation.responseObject)
        }
        let request =
            switch method {
            case .head:
                head(
                    url, parameters: parameters, headers: headers, timeout: timeout,
                    success: { success($0, $0.operation.responseObject) }, failure: failure)
            case .post:
                post(
                    url, parameters: parameters, body: body, headers: headers, timeout: timeout, success: success,
                    failure: failure)
            case .put:
                put(
                    url, parameters: parameters, body: body, headers: headers, timeout: timeout, success: success,
                    failure: failure)
            case .patch:
                patch(
                    url, parameters: parameters, body: body, headers: headers, timeout: timeout, success: success,
                    failure: failure)
            case .delete:
                delete(
                    url, parameters: parameters, body: body, headers: headers, timeout: timeout, success: success,
                    failure: failure)
            default:
                get(url, parameters: parameters, headers: headers, timeout: timeout, success: success, failure: failure)
            }
        let error = await request.operation.end()
        // A second call, if any, would be on the same queue.
        completionQueue?.sync {}
        return Outcome(operation: request.operation, error: error, calls: calls.all)
    }
}

/// The handlers that were called.
private final class HandlerCalls: Sendable {
    private let calls = Locked<[String]>([])

    var all: [String] { calls.withLock { $0 } }

    /// - Parameter isRight: Whether the error is the operation's.
    func note(_ name: String, of operation: HTTPRequestOperation, isRight: Bool, _ object: Any?) {
        let isSame = "\(object ?? "none")" == "\(operation.responseObject ?? "none")"
        let problem = !operation.isFinished ? " too early" : !isRight ? " wrongly" : !isSame ? " with another object" : ""
        calls.withLock { $0.append(name + problem) }
    }
}

extension URLConnectionOperation {
    /// Waits for the end of the operation, with or without success, and for the handlers. Returns the error.
    @discardableResult
    func end() async -> (any Error)? {
        do {
            try await finished()
            return nil
        } catch {
            return error
        }
    }
}
