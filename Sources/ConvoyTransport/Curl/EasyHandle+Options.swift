import ConvoySecurity

extension EasyHandle {
    /// The options that may differ between requests.
    struct Options: Equatable {
        enum Body: Equatable {
            case none
            /// A body of this length, or of unknown length.
            case upload(length: Int64?)
        }
        var method = "GET"
        var body = Body.none
        var usesHTTP2 = true
        /// With whom and how TLS is spoken, should it be.
        var tls: TLSContext?
        var isSecure = false
        /// The way to the server; nil for the direct one.
        var route: Route?
        /// Whether the address that is connected to names a scope, and so a key of the route has no room.
        var isScoped = false
        /// Whether a proxy is asked for a tunnel, whose answer to CONNECT comes before any head.
        var mayTunnel = false
        var receiveBufferSize = 0
        /// After how many idle seconds a connection is closed, and not used again.
        var idleConnectionAge = 118
        /// How long making a connection may take, in milliseconds.
        var connectTimeout = Int(Int32.max)
        /// Whom libcurl authenticates, with messages that belong to a connection.
        var negotiation: Negotiation?
    }
}
