import Foundation
import FoundationNetworking

@testable import ConvoyTransport

/// The response of a server to a request.
enum Answer: String, Codable, CaseIterable, Sendable {
    /// The server sends the complete body, or the requested part, in two pieces.
    case whole
    /// The connection is lost after the first piece.
    case lost
    /// Nothing was sent, because the connection was already closed.
    case unsent
    case refused
    /// The server sends a 503 with a `Retry-After`.
    case busy
    /// The server redirects to another host, which answers.
    case moved
    /// The server sends a challenge.
    case asks
    /// The server sends a body that the serializer rejects.
    case broken
    /// The server never responds.
    case silent

    /// Returns the content of a server's resource.
    static func body(of url: URL?) -> Data { Data("[\"\(url?.path ?? "")\", 1, 2, 3]".utf8) }

    private static let tag = "\"v1\""

    func events(for request: URLRequest) -> [SimulatedConnection.Event] {
        switch self {
        case .whole: return Self.response(to: request)
        case .lost: return Self.response(to: request).prefix(2) + [.fail(.networkConnectionLost, [:])]
        case .unsent: return [.fail(.networkConnectionLost, [URLError.nothingWasSentKey: true])]
        case .refused: return [.fail(.cannotConnectToHost, [:])]
        case .busy: return [.head(503, [("Retry-After", "1"), ("Content-Length", "0")]), .finish]
        case .moved:
            return request.url?.host == "other.test" ? Self.response(to: request) : [.redirect("other.test")]
        case .asks:
            return [
                .head(401, [("WWW-Authenticate", "Basic realm=\"r\""), ("Content-Length", "2")]), .data(Data("no".utf8)),
                .finish,
            ]
        case .broken:
            return [
                .head(200, [("Content-Type", "application/json"), ("Content-Length", "3")]), .data(Data("[1,".utf8)),
                .finish,
            ]
        case .silent: return []
        }
    }

    private static func response(to request: URLRequest) -> [SimulatedConnection.Event] {
        var body = body(of: request.url)
        var status = 200
        var headers = [("ETag", tag), ("Content-Type", "application/json")]
        if let range = request.value(forHTTPHeaderField: "Range"),
            let offset = Int(range.dropFirst("bytes=".count).dropLast()), offset > 0, offset < body.count,
            request.value(forHTTPHeaderField: "If-Range") == tag
        {
            status = 206
            headers.append(("Content-Range", "bytes \(offset)-\(body.count - 1)/\(body.count)"))
            body = Data(body.dropFirst(offset))
        }
        headers.append(("Content-Length", "\(body.count)"))
        let half = body.count / 2
        return [.head(status, headers), .data(Data(body.prefix(half))), .data(Data(body.dropFirst(half))), .finish]
    }
}
