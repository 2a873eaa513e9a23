extension TestServer {
    /// How a route deals with the body of a request.
    public struct RouteOptions: OptionSet, Sendable {
        /// The options as bits.
        public let rawValue: Int

        /// Options by their bits.
        public init(rawValue: Int) {
            self.rawValue = rawValue
        }

        /// The body is counted and its checksum taken, and nothing of it is kept: memory stays flat for any upload.
        public static let discardsBody = RouteOptions(rawValue: 1)
        /// "100 Continue" is never sent; the server waits for a body that the client has to send all the same.
        public static let withholdsContinue = RouteOptions(rawValue: 2)
        /// The answer goes out as soon as the head is there, whatever the body does; the connection is closed after
        /// it. To "Expect: 100-continue" the final status is thus the first answer (RFC 9110 section 10.1.1).
        public static let answersEarly = RouteOptions(rawValue: 4)
    }
}
