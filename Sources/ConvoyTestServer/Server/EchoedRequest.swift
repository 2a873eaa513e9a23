import ConvoySupport
import Foundation

/// The answer of `TestServer.echo(at:)`, as JSON.
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
    /// The body; in the JSON, in base64.
    public var body: Data
    /// The body as text; absent if it is not UTF-8.
    public var text: String?
    /// The number of the request's connection, counted from 1.
    public var connection: Int

    /// The first value of a header field. Names are case-insensitive.
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
