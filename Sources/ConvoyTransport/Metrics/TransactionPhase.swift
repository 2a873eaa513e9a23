/// A phase of a request, in the order in which they follow each other. Those of HAR, and the tunnel.
public enum TransactionPhase: String, Sendable, Hashable, CaseIterable {
    /// Nothing could begin: the cache was asked, there was no file descriptor, or a connection that others share was
    /// still being made.
    case blocked
    /// The name of the host, or of the proxy, was looked up.
    case nameLookup
    /// The connection to the server, or to the proxy, was made.
    case connect
    /// The proxy was asked for a tunnel, over TLS if it speaks that.
    case tunnel
    /// TLS was agreed on with the server.
    case tls
    /// The request was sent.
    case send
    /// The server had the request, and had not answered.
    case wait
    /// The response came.
    case receive
}
