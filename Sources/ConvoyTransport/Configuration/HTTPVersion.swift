/// A version of HTTP.
public enum HTTPVersion: Sendable, Comparable, CaseIterable {
    /// HTTP/1.0 (RFC 1945).
    case http1_0
    /// HTTP/1.1 (RFC 9112).
    case http1_1
    /// HTTP/2 (RFC 9113).
    case http2
}

extension HTTPVersion: CustomStringConvertible {
    /// The name of the version, such as `HTTP/1.1`.
    public var description: String {
        switch self {
        case .http1_0: "HTTP/1.0"
        case .http1_1: "HTTP/1.1"
        case .http2: "HTTP/2"
        }
    }
}
