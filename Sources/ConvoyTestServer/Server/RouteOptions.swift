extension TestServer {
    /// How a route treats the body of a request.
    public struct RouteOptions: OptionSet, Sendable {
        /// The options as bits.
        public let rawValue: Int

        /// Options by their bits.
        public init(rawValue: Int) {
            self.rawValue = rawValue
        }

        /// The body is only counted and checksummed, not kept, so that uploads of any size take no memory.
        public static let discardsBody = RouteOptions(rawValue: 1)
        /// "100 Continue" is never sent; the server waits for the body, which the client must send nevertheless.
        public static let withholdsContinue = RouteOptions(rawValue: 2)
        /// The answer is sent as soon as the head has arrived, without waiting for the body; the connection is closed
        /// after it. So the first answer to "Expect: 100-continue" is the final status (RFC 9110 section 10.1.1).
        public static let answersEarly = RouteOptions(rawValue: 4)
    }
}
