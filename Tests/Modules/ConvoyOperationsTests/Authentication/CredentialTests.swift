import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Tests that credentials are sent only to their servers, and only in response to a challenge.
@Suite struct CredentialTests {
    let server: TestServer
    let store = CredentialStore()
    static let ada = URLCredential(user: "ada", password: "secret", persistence: .forSession)
    static let basic = "Basic " + Data("ada:secret".utf8).base64EncodedString()

    init() throws {
        server = try TestServer()
        protect("/private/", on: server)
    }

    private func protect(_ path: String, on server: TestServer, realm: String = "all") {
        server.route(nil, path) { request in
            request.headers.values(for: "Authorization") == [Self.basic]
                ? .text("let in")
                : .status(401).header("WWW-Authenticate", "Basic realm=\"\(realm)\", charset=\"UTF-8\"")
        }
    }

    private func operation(_ url: URL, _ method: String = "GET") -> HTTPRequestOperation {
        var request = URLRequest(url: url)
        request.httpMethod = method
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.credentialStore = store
        return operation
    }

    private func space(_ realm: String) -> ProtectionSpace {
        ProtectionSpace(host: "127.0.0.1", port: Int(server.port), scheme: "http", realm: realm, method: .basic)
    }

    private func authorizations(_ server: TestServer) -> [String?] { server.requests.map { $0.headers["Authorization"] } }

    @Test func `a credential is sent after the first challenge, and preemptively from then on`() async throws {
        let first = operation(server.url("/private/"))
        first.credential = Self.ada
        try await first.finished()
        #expect(first.responseString == "let in" && authorizations(server) == [nil, Self.basic])
        let second = operation(server.url("/private/"))
        second.credential = Self.ada
        try await second.finished()
        #expect(authorizations(server) == [nil, Self.basic, Self.basic])
        // Without a credential, nothing is sent, regardless of other operations.
        let third = operation(server.url("/private/"))
        await #expect(throws: (any Error).self) { try await third.finished() }
        #expect(authorizations(server).last == .some(nil) && third.statusCode == 401)
    }

    @Test func `a rejected credential is not sent again`() async throws {
        let wrong = operation(server.url("/private/"))
        wrong.credential = URLCredential(user: "ada", password: "wrong", persistence: .none)
        await #expect(throws: (any Error).self) { try await wrong.finished() }
        #expect(wrong.statusCode == 401 && server.requests.count == 2)
    }

    @Test func `the store is queried by origin, realm and method`() async throws {
        store.set(Self.ada, for: space("other"))
        let refused = operation(server.url("/private/"))
        await #expect(throws: (any Error).self) { try await refused.finished() }
        store.set(Self.ada, for: space("all"))
        let admitted = operation(server.url("/private/"))
        try await admitted.finished()
        let unasked = operation(server.url("/private/"))
        unasked.shouldUseCredentialStorage = false
        await #expect(throws: (any Error).self) { try await unasked.finished() }
        #expect(authorizations(server) == [nil, nil, Self.basic, nil])
    }

    @Test func `a credential is not sent to another origin, even if it sends a challenge`() async throws {
        let other = try TestServer()
        protect("/there", on: other)
        server.redirect("/away", to: other.url("/there").absoluteString)
        let operation = operation(server.url("/away"))
        operation.credential = Self.ada
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 401 && authorizations(other) == [nil] && authorizations(server) == [nil])
        // The store contains a credential for the other server, which is sent there and only there.
        store.set(Self.ada, forOriginOf: other.url)
        let known = self.operation(server.url("/away"))
        try await known.finished()
        #expect(authorizations(other) == [nil, nil, Self.basic] && authorizations(server) == [nil, nil])
    }

    @Test func `a manager's credential is restricted to its base URL`() async throws {
        let other = try TestServer()
        protect("/there", on: other)
        let manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.credential = Self.ada
        try await manager.get("private/")
        await #expect(throws: (any Error).self) { try await manager.get(other.url("/there")) }
        #expect(authorizations(other) == [nil])
    }

    @Test func `a body is sent again, but a stream that cannot be rewound fails`() async throws {
        let data = operation(server.url("/private/"), "POST")
        data.credential = Self.ada
        var request = data.request
        request.httpBody = Data("body".utf8)
        let again = HTTPRequestOperation(request: request)
        again.completionQueue = testQueue
        again.credential = Self.ada
        // The challenges remembered from other operations would cause the credential to be sent immediately, so use a
        // new server.
        let fresh = try TestServer()
        protect("/private/", on: fresh)
        request.url = fresh.url("/private/")
        let posted = HTTPRequestOperation(request: request)
        posted.credential = Self.ada
        posted.completionQueue = testQueue
        try await posted.finished()
        #expect(fresh.requests.map(\.text) == ["body", "body"])
        let third = try TestServer()
        protect("/private/", on: third)
        request.url = third.url("/private/")
        request.httpBody = nil
        request.httpBodyStream = InputStream(data: Data("stream".utf8))
        let streamed = HTTPRequestOperation(request: request)
        streamed.credential = Self.ada
        streamed.completionQueue = testQueue
        await #expect { try await streamed.finished() } throws: { ($0 as? URLError)?.code == .requestBodyStreamExhausted }
    }

    // MARK: The handler

    @Test(arguments: [false, true])
    func `the handler responds immediately or later, and receives the failure count`(isLate: Bool) async throws {
        let operation = operation(server.url("/private/"))
        let failures = Locked<[Int]>([])
        operation.authenticationChallengeHandler = { operation, challenge, answer in
            failures.withLock { $0.append(challenge.previousFailureCount) }
            #expect(challenge.protectionSpace.realm == "all" && challenge.failureResponse?.statusCode == 401)
            let password = challenge.previousFailureCount < 2 ? "wrong" : "secret"
            let credential = URLCredential(user: "ada", password: password, persistence: .forSession)
            if isLate {
                // The slot was released before the handler was called.
                testQueue.async {
                    #expect(!operation.isExecuting)
                    answer(.useCredential(credential))
                    answer(.cancel)
                }
            } else {
                answer(.useCredential(credential))
            }
        }
        try await operation.finished()
        #expect(operation.responseString == "let in" && failures.withLock { $0 } == [0, 1, 2])
        // The correct credential is stored, and the wrong one is not.
        #expect(store.credential(for: space("all"))?.password == "secret")
    }

    @Test func `the handler can cancel, reject, use the default handling, or drop its reply closure`() async throws {
        let cases: [(AuthenticationDisposition?, URLError.Code?)] = [
            (.cancel, .userCancelledAuthentication), (.rejectProtectionSpace, nil), (.performDefaultHandling, nil),
            (nil, nil),
            (
                .useCredential(URLCredential(user: "a:b", password: "", persistence: .none)),
                .userAuthenticationRequired
            ),
            (.useToken("token"), .userAuthenticationRequired),
        ]
        for (disposition, code) in cases {
            let operation = operation(server.url("/private/"))
            operation.authenticationChallengeHandler = { _, _, answer in
                if let disposition { answer(disposition) }
            }
            await #expect(throws: (any Error).self) { try await operation.finished() }
            if let code {
                #expect((operation.error as? URLError)?.code == code, "\(String(describing: disposition))")
            } else {
                #expect(operation.statusCode == 401 && operation.responseData?.isEmpty == true)
            }
        }
    }

    @Test func `a final 401 response keeps its body, in memory and in a file`() async throws {
        server.route("/refused", .text("no entry", status: 401).header("WWW-Authenticate", "Basic realm=x"))
        for toFile in [false, true] {
            let operation = operation(server.url("/refused"))
            let stream = OutputStream.toMemory()
            if toFile { operation.outputStream = stream }
            operation.authenticationChallengeHandler = { _, _, answer in
                testQueue.async { answer(.performDefaultHandling) }
            }
            await #expect(throws: (any Error).self) { try await operation.finished() }
            #expect(operation.responseString == "no entry" && operation.statusCode == 401)
        }
    }

    @Test func `the strongest method is offered first, and rejecting it offers the next`() async throws {
        server.route("/many") { request in
            request.headers["Authorization"]?.hasPrefix("Basic ") == true
                ? .text("basic")
                : .status(401).header("WWW-Authenticate", "Basic realm=\"b\"")
                    .header("WWW-Authenticate", "Digest realm=\"d\", nonce=\"n\", qop=\"auth\", algorithm=MD5")
                    .header("WWW-Authenticate", "Digest realm=\"d\", nonce=\"m\", qop=\"auth\", algorithm=SHA-256")
                    .header("WWW-Authenticate", "Digest realm=\"d\", nonce=\"o\", qop=\"auth\", algorithm=MD5-sess")
                    .header("WWW-Authenticate", "Unknown x=y")
        }
        let automatic = operation(server.url("/many"))
        automatic.credential = Self.ada
        _ = try? await automatic.finished()
        #expect(server.requests.last?.headers["Authorization"]?.contains("algorithm=SHA-256") == true)
        let asked = Locked<[AuthenticationMethod]>([])
        let operation = operation(server.url("/many"))
        operation.authenticationChallengeHandler = { _, challenge, answer in
            asked.withLock { $0.append(challenge.protectionSpace.method) }
            answer(challenge.protectionSpace.method == .basic ? .useCredential(Self.ada) : .rejectProtectionSpace)
        }
        try await operation.finished()
        #expect(operation.responseString == "basic" && asked.withLock { $0 } == [.digest, .basic])
    }

    @Test func `cancelling or pausing while the handler is pending loses nothing`() async throws {
        for pauses in [false, true] {
            let operation = operation(server.url("/private/"))
            let asked = Signal()
            let answers = Locked<[@Sendable (AuthenticationDisposition) -> Void]>([])
            operation.authenticationChallengeHandler = { _, _, answer in
                answers.withLock { $0.append(answer) }
                asked.fire()
            }
            operation.start()
            #expect(asked.wait())
            if pauses {
                operation.pause()
                answers.withLock { $0 }.first?(.useCredential(Self.ada))
                #expect(operation.isPaused)
                operation.resume()
                try await operation.finished()
                #expect(operation.responseString == "let in")
            } else {
                operation.cancel()
                await #expect(throws: URLError.self) { try await operation.finished() }
                answers.withLock { $0 }.first?(.useCredential(Self.ada))
                #expect(operation.isCancelled)
            }
        }
    }
}
