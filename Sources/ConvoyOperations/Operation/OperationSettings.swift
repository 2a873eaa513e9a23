import ConvoyTransport
import Foundation
import FoundationNetworking

/// What a failed or cancelled dependency does to an operation.
public enum DependencyFailurePolicy: Sendable, Hashable {
    /// The operation runs, as in AFNetworking and in Foundation. One that takes a value from the dependency is sent
    /// without it, where this was set and is not the default.
    case run
    /// The operation is cancelled: it finishes with `URLError.cancelled`, with the dependency's error as the underlying
    /// error.
    case cancel
}

extension URLConnectionOperation {
    /// Called with the bytes transferred since the last call, the total so far, and the expected total if it is known.
    public typealias ProgressHandler = @Sendable (_ bytes: Int64, _ total: Int64, _ expected: Int64?) -> Void

    /// Decides about a redirect. Returns the request to follow with, as given or changed, or nil to keep the
    /// redirecting response as the response.
    ///
    /// The request is sent as it is returned. It is checked like any request, for its scheme and its header; but the
    /// rules by which secrets stay with their origin have been applied before, and do not remove what the handler sets
    /// itself.
    public typealias RedirectHandler =
        @Sendable (
            _ operation: URLConnectionOperation, _ request: URLRequest, _ response: HTTPURLResponse?
        ) -> URLRequest?

    /// Rewrites the request after the operation's dependencies have finished, or throws to refuse it.
    ///
    /// Foundation's `setValue` ignores a value with a line break; see `URLConnectionOperation.init(request:)`.
    public typealias Preparation = @Sendable (_ request: inout URLRequest) throws -> Void
}
