import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import XCTest

/// Kerberos with tickets of a test realm. These are XCTest tests, which run serially, because they share the
/// environment that names the realm.
final class NegotiateTests: XCTestCase {
    /// An empty user and password select the existing tickets.
    private static let tickets = URLCredential(user: "", password: "", persistence: .forSession)

    private func realm() throws -> KerberosRealm {
        guard KerberosRealm.isInstalled, ApacheServer.hasNegotiate else {
            throw XCTSkip("not installed: \(KerberosRealm.installHint), \(ApacheServer.installHint)")
        }
        return try KerberosRealm()
    }

    private func operation(
        _ url: URL, _ credential: URLCredential?, _ configuration: ConnectionConfiguration? = nil
    ) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request: URLRequest(url: url))
        operation.completionQueue = DispatchQueue(label: "Convoy.Negotiate")
        operation.credential = credential
        operation.credentialStore = CredentialStore()
        if let configuration { operation.connectionConfiguration = configuration }
        return operation
    }

    /// Returns the status of the response; nil if none arrived within two minutes.
    private func status(_ operation: HTTPRequestOperation) -> Int? {
        let done = DispatchSemaphore(value: 0)
        operation.completionBlock = { done.signal() }
        operation.start()
        guard done.wait(timeout: .now() + 120) == .success else { return nil }
        return operation.statusCode
    }

    func testWhoHasATicketIsLetInAndNobodyElse() throws {
        let realm = try realm()
        let server = try ApacheServer(kerberos: realm)
        let url = server.url.appendingPathComponent("negotiate/small")
        try withEnvironment(realm.environment) {
            XCTAssertEqual(status(operation(url, Self.tickets)), 401)
            try realm.logIn()
            for _ in 0..<3 {
                let operation = operation(url, Self.tickets)
                XCTAssertEqual(status(operation), 200, server.log)
                XCTAssertEqual(operation.responseString, "hello world")
            }
            // Tickets are used only if the credential selects them.
            XCTAssertEqual(status(operation(url, nil)), 401)
            XCTAssertEqual(status(operation(url, Protected.ada)), 401)
            var request = URLRequest(url: server.url.appendingPathComponent("negotiate/new"))
            request.httpMethod = "PUT"
            request.httpBody = Data(count: 100_000)
            let upload = HTTPRequestOperation(request: request)
            upload.completionQueue = DispatchQueue(label: "Convoy.Negotiate")
            upload.credential = Self.tickets
            XCTAssertEqual(status(upload), 201)
            try realm.logOut()
            XCTAssertEqual(status(operation(url, Self.tickets)), 401)
        }
    }

    func testOtherTransfersGoOnWhileTheCenterDoesNotAnswer() throws {
        let realm = try realm()
        let server = try ApacheServer(kerberos: realm)
        let other = try TestServer()
        other.route("/", .text("plain"))
        try withEnvironment(realm.environment) {
            try realm.logIn()
            realm.pause()
            let waiting = operation(server.url.appendingPathComponent("negotiate/small"), Self.tickets)
            let done = DispatchSemaphore(value: 0)
            waiting.completionBlock = { done.signal() }
            waiting.start()
            // The operation contacts the key distribution center after its first exchange, which ends with a 401.
            try eventually(timeout: 60) { waiting.statusCode == 401 }
            for _ in 0..<50 { XCTAssertEqual(status(operation(other.url("/"), nil)), 200) }
            XCTAssertFalse(waiting.isFinished)
            realm.resume()
            XCTAssertEqual(done.wait(timeout: .now() + 120), .success)
            XCTAssertEqual(waiting.statusCode, 200, server.log)
        }
    }

    func testAProxyTakesTicketsToo() throws {
        let realm = try realm()
        guard SquidProxy.isInstalled else { throw XCTSkip("not installed: \(SquidProxy.installHint)") }
        let server = try TestServer()
        server.route("/", .text("plain"))
        try realm.logIn()
        let proxy = try SquidProxy([.negotiate], kerberos: realm)
        try withEnvironment(realm.environment) {
            var configuration = ConnectionConfiguration()
            configuration.proxy = .proxy(try Proxy(.http, host: "localhost", port: Int(proxy.port)))
            XCTAssertEqual(status(operation(server.url("/"), Self.tickets, configuration)), 407)
            let credential = ProxyCredential(user: "", password: "")
            configuration.proxy = .proxy(try Proxy(.http, host: "localhost", port: Int(proxy.port), credential: credential))
            for _ in 0..<2 {
                XCTAssertEqual(status(operation(server.url("/"), nil, configuration)), 200, proxy.process.output)
            }
            XCTAssert(server.requests.allSatisfy { $0.headers["Proxy-Authorization"] == nil })
        }
    }
}
