import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Tests that operations end soon even if a server keeps sending challenges.
@Suite struct HostileChallengeTests {
    @Test func `a server that sends a different realm each time is not answered forever`() async throws {
        let asking = try AskingServer()
        asking.route("/") { _, number in .asking("Basic realm=\"\(number)\"") }
        let operation = AskingServer.operation(asking.url("/"))
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 401 && asking.server.requests.count <= 4)
    }

    @Test func `a handler receives the failure count even if the realm always changes`() async throws {
        let asking = try AskingServer()
        asking.route("/") { _, number in .asking("Basic realm=\"\(number)\"") }
        let operation = AskingServer.operation(asking.url("/"), credential: nil)
        operation.authenticationChallengeHandler = { _, challenge, answer in
            answer(challenge.previousFailureCount == 0 ? .useCredential(AskingServer.ada) : .cancel)
        }
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect((operation.error as? URLError)?.code == .userCancelledAuthentication)
        #expect(asking.server.requests.count <= 5)
    }

    @Test func `a request can authenticate for two realms, one of them after a redirect`() async throws {
        let asking = try AskingServer()
        asking.route("/one/a") { request, _ in
            request.authorizations == [AskingServer.basic] ? .redirect(to: "/two/b") : .asking("Basic realm=\"one\"")
        }
        let user = URLCredential(user: "bob", password: "two", persistence: .forSession)
        let other = "Basic " + Data("bob:two".utf8).base64EncodedString()
        asking.route("/two/b") { request, _ in
            request.authorizations == [other] ? .text("both") : .asking("Basic realm=\"two\"")
        }
        let operation = AskingServer.operation(asking.url("/one/a"), credential: nil)
        for (realm, credential) in [("one", AskingServer.ada), ("two", user)] {
            operation.credentialStore.set(
                credential,
                for: ProtectionSpace(
                    host: "127.0.0.1", port: Int(asking.server.port), scheme: "http", realm: realm, method: .basic))
        }
        try await operation.finished()
        #expect(operation.responseString == "both")
    }

    @Test(arguments: [false, true])
    func `a nonce that is always stale is not replaced forever`(isBehindRedirect: Bool) async throws {
        let first = try AskingServer(), second = try AskingServer()
        first.route("/") { request, number in
            request.authorizations.first?.hasPrefix("Digest ") == true
                ? .redirect(to: second.url("/").absoluteString)
                : .asking("Digest realm=\"a\", nonce=\"\(number)\", qop=\"auth\"")
        }
        second.route("/") { _, number in .asking("Digest realm=\"b\", nonce=\"\(number)\", qop=\"auth\", stale=true") }
        let operation = AskingServer.operation((isBehindRedirect ? first : second).url("/"), credential: nil)
        for server in [first, second] { operation.credentialStore.set(AskingServer.ada, forOriginOf: server.url("/")) }
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 401 && second.server.requests.count <= 8 && first.server.requests.count <= 8)
    }

    @Test func `a challenge that cannot be answered for the request does not cause a loop`() async throws {
        let asking = try AskingServer()
        asking.route("/") { _, number in .asking("Digest realm=\"a\", nonce=\"\(number)\", qop=\"auth-int\"") }
        var request = URLRequest(url: asking.url("/"))
        request.httpMethod = "POST"
        request.httpBodyStream = ReplayableText("streamed")
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.credential = AskingServer.ada
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 401 && asking.server.requests.count <= 3)
    }

    @Test func `a credential that a stronger method rejected is not sent with Basic`() async throws {
        let asking = try AskingServer()
        asking.route("/") { request, number in
            request.authorizations.first == nil
                ? .asking("Digest realm=\"a\", nonce=\"\(number)\", qop=\"auth\"") : .asking("Basic realm=\"a\"")
        }
        let operation = AskingServer.operation(asking.url("/"))
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(!asking.authorizations("/").contains(AskingServer.basic) && asking.server.requests.count == 2)
    }

    @Test(
        arguments: [
            "Basic realm=\"r\"", "Digest realm=\"r\", nonce=\"n\"", "\"", "Basic realm=\"\\", "=,=,,a=b,Basic", "Basic ",
        ])
    func `thousands of challenges in one response call the handler only a few times`(line: String) async throws {
        let asking = try AskingServer()
        asking.route("/") { _, _ in
            (0..<1500).reduce(TestServer.Response.status(401)) { response, number in
                response.header("WWW-Authenticate", line.replacingOccurrences(of: "\"r\"", with: "\"\(number)\""))
            }
        }
        let operation = AskingServer.operation(asking.url("/"), credential: nil)
        let asked = Locked(0)
        operation.authenticationChallengeHandler = { _, _, answer in
            asked.withLock { $0 += 1 }
            answer(.rejectProtectionSpace)
        }
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 401 && asked.withLock { $0 } <= 32 && asking.server.requests.count == 1)
    }
}

/// A replayable body with the bytes of a string.
final class ReplayableText: InputStream, ReplayableBodyStream {
    private let text: String
    private let stream: InputStream

    init(_ text: String) {
        self.text = text
        stream = InputStream(data: Data(text.utf8))
        super.init(data: Data())
    }

    func replay() throws -> InputStream { ReplayableText(text) }
    override func open() { stream.open() }
    override func close() { stream.close() }
    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        stream.read(buffer, maxLength: length)
    }
}
