import ConvoySerialization
import Foundation
import FoundationNetworking

/// Bodies that are made while they are sent.
extension HTTPManager {
    /// Uploads an asynchronous sequence of pieces of bytes, `Data` or `[UInt8]` for instance, and returns the finished
    /// operation.
    ///
    /// ```swift
    /// let (bytes, _) = try await source.bytes(.get, "archive")
    /// try await target.upload("archive", method: .put, from: bytes.chunks)
    /// ```
    ///
    /// Each piece is asked for when the network takes it. `URLRequest.setBody(_:length:)` says the rest.
    ///
    /// - Throws: what the sequence throws; otherwise as the other uploads.
    @discardableResult
    public nonisolated(nonsending) func upload<Pieces: AsyncSequence & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from pieces: Pieces, length: Int64? = nil,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: Timeout? = nil,
        progress: TransferProgress.Handler? = nil
    ) async throws -> HTTPRequestOperation
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(pieces, length: length)).reporting(
            to: progress)
        return try await finish(operation, as: .upload)
    }

    /// Uploads an asynchronous sequence of pieces of bytes, and returns the value of the response. Otherwise as the form that
    /// returns an operation.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable, Pieces: AsyncSequence & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from pieces: Pieces, length: Int64? = nil,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: Timeout? = nil,
        progress: TransferProgress.Handler? = nil, as type: Value.Type = Value.self
    ) async throws -> Value
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(pieces, length: length)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads an asynchronous sequence that can be made anew, and so be sent again where that is necessary, and returns the
    /// finished operation. `URLRequest.setBody(length:making:)` says the rest.
    @discardableResult
    public nonisolated(nonsending) func upload<Pieces: AsyncSequence & SendableMetatype>(
        _ url: some URLConvertible, method: HTTPMethod = .post, length: Int64? = nil,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: Timeout? = nil,
        progress: TransferProgress.Handler? = nil,
        making make: @escaping @Sendable () throws -> Pieces
    ) async throws -> HTTPRequestOperation
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(length: length, making: make)).reporting(
            to: progress)
        return try await finish(operation, as: .upload)
    }

    /// Uploads an asynchronous sequence that can be made anew, and returns the value of the response. Otherwise as the form
    /// that returns an operation.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable, Pieces: AsyncSequence & SendableMetatype>(
        _ url: some URLConvertible, method: HTTPMethod = .post, length: Int64? = nil,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: Timeout? = nil,
        progress: TransferProgress.Handler? = nil, as type: Value.Type = Value.self,
        making make: @escaping @Sendable () throws -> Pieces
    ) async throws -> Value
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(length: length, making: make)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }
}
