extension TestServer {
    /// Counters of the server at one moment.
    public struct Statistics: Hashable, Sendable {
        /// Requests that were received to their end.
        public var requestCount = 0
        /// Of those, requests for which there was no route (404, 405).
        public var unexpectedRequestCount = 0
        /// Requests whose head is there and whose response has not been handed to the system in full. It goes down a
        /// moment after the client may have the last byte: wait for it rather than read it.
        public var activeRequestCount = 0
        /// The most that `activeRequestCount` has been.
        public var peakActiveRequestCount = 0
        /// Responses that were sent to their end, faults such as an announced truncation included.
        public var responseCount = 0
        /// Requests that the client gave up: the connection went before the body, or before the response, was complete.
        public var abandonedRequestCount = 0
        /// Connections whose bytes were refused because they were not a request.
        public var malformedRequestCount = 0
        /// Connections that are open.
        public var openConnectionCount = 0
        /// Connections that were ever accepted.
        public var totalConnectionCount = 0
        /// Body bytes of requests received so far, those of unfinished requests included.
        public var receivedBodyBytes = 0
    }
}
