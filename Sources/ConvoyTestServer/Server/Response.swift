import Foundation

extension TestServer {
    /// A response of the server: a head, a body, and faults, all as plain data.
    ///
    /// Built from one of the makers (`text`, `json`, `bytes`, `pattern`, `chunked`, `drip`, `raw` …) and changed by the
    /// modifiers (`delayed`, `stalls`, `resets` …), each of which returns a changed copy.
    public struct Response: Sendable {
        /// The source of a body's bytes.
        public enum Body: Sendable {
            /// No body.
            case none
            /// These bytes.
            case data(Data)
            /// These parts, each as one HTTP chunk unless `framing` says otherwise.
            case chunks([Data])
            /// `count` bytes of `PatternBytes` beginning at `offset`, generated while they are sent.
            case pattern(count: Int, offset: Int)
            /// These bytes in place of head and body, which need not be HTTP.
            case raw(Data)
        }

        /// How the end of the body is marked (RFC 9112 section 6).
        public enum Framing: Hashable, Sendable {
            /// Content-Length, or chunked for `Body.chunks`. A Content-Length or Transfer-Encoding in `headers`
            /// replaces it, and is sent unchanged, with the bytes unchanged.
            case automatic
            /// This Content-Length, right or wrong, even with a status that has no body (204, 304). The bytes are sent
            /// unchanged; if their number differs, the connection is closed after them.
            case contentLength(Int)
            /// Chunked (RFC 9112 section 7.1).
            case chunked
            /// Neither: the body ends with the connection.
            case closeDelimited
        }

        /// The status code. Any number; HTTP has 100 to 999.
        public var status: Int
        /// The reason phrase; nil for the standard one of the status.
        public var reason: String?
        /// Header fields in order, sent before those that the framing adds.
        public var headers: Headers
        /// The body.
        public var body: Body
        /// How the end of the body is marked.
        public var framing: Framing
        /// Fields after the last chunk; sent only when the body is chunked.
        public var trailers: Headers
        /// Whether the connection is closed after this response, announced by "Connection: close".
        public var closesConnection: Bool
        /// Informational responses (1xx) that are sent before it: only their status, reason and headers are used.
        public var interim: [Response]
        /// Delays, speed and faults.
        public var effects: Effects

        /// A response with defaults for everything else: automatic framing, a kept-alive connection, no effects.
        public init(status: Int = 200, reason: String? = nil, headers: Headers = [:], body: Body = .none) {
            self.status = status
            self.reason = reason
            self.headers = headers
            self.body = body
            framing = .automatic
            trailers = [:]
            closesConnection = false
            interim = []
            effects = Effects()
        }
    }
}

extension TestServer.Response.Body {
    /// The size of the body in bytes, before framing.
    public var count: Int {
        switch self {
        case .none: 0
        case .data(let data), .raw(let data): data.count
        case .chunks(let chunks): chunks.reduce(0) { $0 + $1.count }
        case .pattern(let count, _): max(0, count)
        }
    }
}
