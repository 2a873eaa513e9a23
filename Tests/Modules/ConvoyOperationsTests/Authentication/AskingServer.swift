import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// A server that sends the challenges specified by a test, and stops after a number of requests, so that a client that
/// never stops answering fails its test instead of hanging.
final class AskingServer: Sendable {
    static let ada = URLCredential(user: "ada", password: "secret", persistence: .forSession)
    static let basic = "Basic " + Data("ada:secret".utf8).base64EncodedString()
    static let patience = 60

    let server: TestServer
    private let requests = Counter()

    /// A counter that is separate from the server, to avoid a retain cycle with its routes.
    private final class Counter: Sendable {
        private let count = Locked(0)
        func next() -> Int {
            count.withLock {
                $0 += 1
                return $0
            }
        }
    }

    init() throws { server = try TestServer() }

    /// Adds a route for a path, which responds unless there were too many requests.
    func route(
        _ path: String, _ answer: @escaping @Sendable (_ request: RecordedRequest, _ number: Int) -> TestServer.Response
    ) {
        server.route(nil, path) { [requests] request in
            let number = requests.next()
            return number > Self.patience ? .text("out of patience", status: 418) : answer(request, number)
        }
    }

    /// Protects a path with Basic authentication for the user ada.
    func protect(_ path: String, realm: String = "all", _ response: TestServer.Response = .text("let in")) {
        route(path) { request, _ in
            request.authorizations == [Self.basic] ? response : .asking("Basic realm=\"\(realm)\"")
        }
    }

    func url(_ path: String) -> URL { server.url(path) }

    /// Returns the values of `Authorization` in the requests for a path; "none" if missing.
    func authorizations(_ path: String) -> [String] {
        server.requests(path).map { $0.headers["Authorization"] ?? "none" }
    }

    /// Creates an operation without the credentials of other tests.
    static func operation(
        _ url: URL, _ method: String = "GET", credential: URLCredential? = AskingServer.ada, body: String? = nil
    ) -> HTTPRequestOperation {
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.httpBody = body.map { Data($0.utf8) }
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.credentialStore = CredentialStore()
        operation.credential = credential
        return operation
    }
}

extension TestServer.Response {
    /// Returns a 401 with challenges.
    static func asking(_ challenges: String...) -> Self {
        challenges.reduce(.status(401)) { $0.header("WWW-Authenticate", $1) }
    }
}

extension RecordedRequest {
    var authorizations: [String] { headers.values(for: "Authorization") }
}
