import ConvoySupport
import Foundation

/// A request as the server received it.
public struct RecordedRequest: Sendable {
    /// The method, exactly as sent.
    public var method: String
    /// The request target, exactly as sent: with the query, and with scheme and host if the client uses the server as a
    /// proxy.
    public var target: String
    /// The path of the target, still percent-encoded. "*" and the authority of a CONNECT are kept unchanged.
    public var path: String
    /// The query of the target, still percent-encoded; nil without a "?".
    public var query: String?
    /// The protocol version: "HTTP/1.1" or "HTTP/1.0".
    public var version: String
    /// The header fields in order.
    public var headers: TestServer.Headers
    /// The trailer fields of a chunked body, in order.
    public var trailers: TestServer.Headers
    /// The body without chunked framing; empty if the route has `RouteOptions.discardsBody`.
    public var body: Data
    /// The length of the body in bytes, even if it was discarded.
    public var bodyLength: Int
    /// The checksum of the body, even if it was discarded. Compare it with `BodyChecksum.of(_:)`.
    package var bodyChecksum: BodyChecksum
    /// The number of the connection, counted from 1. Requests with the same number used the same persistent connection.
    public var connection: Int
    /// The time at which the head was complete.
    public var arrivedAt: Date
    /// The time from the complete head to the complete body, in seconds.
    public var uploadDuration: TimeInterval
    /// Whether the request expects "100 Continue" (RFC 9110 section 10.1.1).
    public var expectsContinue: Bool
    /// The result of the connection's TLS handshake; nil without TLS.
    public var tls: TLS?

    /// The body as a string; invalid UTF-8 is replaced.
    public var text: String { String(decoding: body, as: UTF8.self) }

    /// The names and values of the query in order, percent-decoded. A "+" is kept.
    public var queryItems: [URLQueryItem] {
        guard let query, !query.isEmpty else { return [] }
        return query.split(separator: "&", omittingEmptySubsequences: true).map { part in
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = pair.count == 2 ? decoded(pair[1]) : nil
            return URLQueryItem(name: decoded(pair[0]), value: value)
        }
    }

    /// Decodes the body from JSON. Throws the errors of `JSONDecoder`.
    public func json<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try JSONDecoder().decode(type, from: body)
    }

    private func decoded(_ text: Substring) -> String {
        text.removingPercentEncoding ?? String(text)
    }
}

extension RecordedRequest {
    /// The result of the TLS handshake of a request's connection.
    public struct TLS: Hashable, Sendable {
        /// The version, such as "TLSv1.3".
        public var version: String
        /// The cipher in OpenSSL's notation, such as "TLS_AES_256_GCM_SHA384".
        public var cipher: String
        /// The server name requested by the client (SNI).
        public var serverName: String?
        /// The application protocol (ALPN).
        public var alpnProtocol: String?
        /// Whether the client resumed an earlier session.
        public var isResumed: Bool
        /// The subject of the client certificate, such as "CN=ada"; nil if the client did not present one.
        public var clientCertificateSubject: String?
        /// The client certificate in DER; nil if the client did not present one.
        public var clientCertificate: Data?
    }
}

/// The response of `TestServer.echo(at:)`, as JSON.
public struct EchoedRequest: Codable, Hashable, Sendable {
    /// The method as received.
    public var method: String
    /// The request target as received.
    public var target: String
    /// The path, still percent-encoded.
    public var path: String
    /// The query, still percent-encoded; absent without a "?".
    public var query: String?
    /// The header fields in order, each a pair of name and value.
    public var headers: [[String]]
    /// The body, encoded as base64 in the JSON.
    public var body: Data
    /// The body as a string; absent if it is not UTF-8.
    public var text: String?
    /// The number of the request's connection, counted from 1.
    public var connection: Int

    /// Returns the first value of a header field. Names are case-insensitive.
    public func header(_ name: String) -> String? {
        headers.first { $0.count == 2 && HTTPSyntax.isSameField($0[0], name) }?[1]
    }

    init(_ request: RecordedRequest) {
        method = request.method
        target = request.target
        path = request.path
        query = request.query
        headers = request.headers.fields.map { [$0.name, $0.value] }
        body = request.body
        text = String(data: request.body, encoding: .utf8)
        connection = request.connection
    }
}
