import ConvoySupport
import ConvoyTestServer
import Foundation

/// A server with a resource for bearers of the current token, and an endpoint that exchanges the token for a new one.
final class TokenServer: Sendable {
    let server: TestServer
    private let generation = Locked(1)
    private let isClosed = Locked(false)

    init() throws {
        server = try TestServer()
        server.route("/data") { [self] request in
            let expected = "Bearer t\(generation.withLock { $0 })"
            let isGood = request.headers.values(for: "Authorization") == [expected]
            if isGood, !isClosed.withLock({ $0 }) { return .text("data") }
            return .status(401).header("WWW-Authenticate", "Bearer error=\"invalid_token\"")
        }
        server.route("POST", "/token") { [self] request in
            guard request.headers["Authorization"] == nil else { return .status(400) }
            return .text("t\(generation.withLock { $0 })")
        }
    }

    /// Expires the current token; the next one becomes valid.
    func expire() { generation.withLock { $0 += 1 } }

    /// Invalidates all tokens.
    func close() { isClosed.withLock { $0 = true } }

    /// The number of the current token.
    var presentGeneration: Int { generation.withLock { $0 } }

    var refreshes: Int { server.requests("/token").count }
    var dataRequests: Int { server.requests("/data").count }
}
