import ConvoyTransport
import Foundation
import FoundationNetworking

/// What a failed or cancelled dependency does to an operation.
public enum DependencyFailurePolicy: Sendable, Hashable {
    /// Nothing: the operation runs. AFNetworking's way, and `Operation`'s.
    case run
    /// The operation is cancelled: it finishes with `URLError.cancelled`, under which stands the dependency's error.
    case cancel
}

extension URLConnectionOperation {
    /// Bytes that came or went: how many just now, how many in all, and how many are to be expected if that is known.
    public typealias ProgressHandler = @Sendable (_ bytes: Int64, _ total: Int64, _ expected: Int64?) -> Void

    /// Asked about a redirect. The request to follow with, as given or changed; nil to take the redirecting
    /// response as the response.
    public typealias RedirectHandler =
        @Sendable (
            _ operation: URLConnectionOperation, _ request: URLRequest, _ response: HTTPURLResponse?
        ) -> URLRequest?

    /// Rewrites the request when the operation's dependencies have finished, or refuses.
    public typealias Preparation = @Sendable (_ request: inout URLRequest) throws -> Void

    /// Foundation's streams are not Sendable; an operation passes its own from the user to its work, and on.
    struct StreamBox: @unchecked Sendable { let stream: OutputStream }
}
