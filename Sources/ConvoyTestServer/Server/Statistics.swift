extension TestServer {
    /// Counters of the server at one moment.
    public struct Statistics: Hashable, Sendable {
        /// Requests that were received completely.
        public var requestCount = 0
        /// Complete requests for which there was no route (404, 405).
        public var unexpectedRequestCount = 0
        /// Requests whose head has arrived and whose response has not been passed completely to the system. It is
        /// decremented a moment after the client may have the last byte, so wait for it instead of just reading it.
        public var activeRequestCount = 0
        /// The maximum of `activeRequestCount`.
        public var peakActiveRequestCount = 0
        /// Responses that have ended, including those with faults such as a truncation.
        public var responseCount = 0
        /// Requests that the client abandoned: the connection ended before the body or the response was complete.
        public var abandonedRequestCount = 0
        /// Connections whose bytes were refused because they were not a request.
        public var malformedRequestCount = 0
        /// Connections that are open.
        public var openConnectionCount = 0
        /// Connections that were ever accepted.
        public var totalConnectionCount = 0
        /// Body bytes received so far, including those of unfinished requests.
        public var receivedBodyBytes = 0
        /// TLS handshakes that were completed. With those that failed, all that have ended, except for those that the
        /// server itself broke off by stopping or dropping its connections.
        public var handshakeCount = 0
        /// TLS handshakes that failed: by an alert of the client or of the server, by the end of the connection, or
        /// after `Configuration.handshakeTimeout`.
        public var failedHandshakeCount = 0
        /// Completed TLS handshakes that resumed a session.
        public var resumedHandshakeCount = 0
        /// Bytes that clients sent in TLS, without what TLS adds. 0 proves that a client that did not accept the
        /// certificate has sent nothing.
        public var plaintextByteCount = 0
    }
}
