import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Several forms of authentication combined with other settings.
@Suite struct AuthenticationMixtureTests {
    private func remember(_ asking: AskingServer, _ path: String) async throws {
        let operation = AskingServer.operation(asking.url(path))
        try await operation.finished()
        #expect(asking.authorizations(path).last == AskingServer.basic)
    }

    @Test func `a credential for one folder is not sent preemptively to a folder that it redirects to`() async throws {
        let asking = try AskingServer()
        asking.protect("/private/", .redirect(to: "/open"))
        asking.route("/open") { _, _ in .text("open") }
        asking.route("/private/more") { _, _ in .text("more") }
        for path in ["/private/", "/open", "/private/more"] {
            let operation = AskingServer.operation(asking.url(path))
            try await operation.finished()
        }
        #expect(asking.authorizations("/open").last == "none")
        #expect(asking.authorizations("/private/more") == [AskingServer.basic])
    }

    @Test func `a request's own Authorization field takes precedence over remembered credentials`() async throws {
        let asking = try AskingServer()
        asking.protect("/")
        try await remember(asking, "/")
        let own = AskingServer.operation(asking.url("/"))
        var request = own.request
        request.setValue("Own", forHTTPHeaderField: "Authorization")
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.credential = AskingServer.ada
        try await operation.finished()
        // The server has requested a different credential, which is available.
        #expect(asking.authorizations("/") == ["none", AskingServer.basic, "Own", AskingServer.basic])
    }

    @Test func `a token takes precedence over a remembered password`() async throws {
        let asking = try AskingServer()
        asking.route("/") { request, _ in
            [AskingServer.basic, "Bearer token"].contains(request.authorizations.first ?? "")
                ? .text("in") : .asking("Basic realm=\"a\"")
        }
        try await remember(asking, "/")
        let manager = HTTPRequestOperationManager(baseURL: asking.server.url, completionQueue: testQueue)
        manager.responseSerializer = StringResponseSerializer()
        manager.credentialStore = CredentialStore()
        manager.credentialStore.set(AskingServer.ada, forOriginOf: asking.url("/"))
        manager.authenticator = Authenticator(token: AccessToken("token")) { _ in AccessToken("other") }
        _ = try await manager.get("", as: String.self)
        #expect(asking.authorizations("/").last == "Bearer token")
    }

    @Test(arguments: [false, true])
    func `identical requests share a transfer, even if another server has sent challenges`(hasToken: Bool) async throws {
        let asking = try AskingServer()
        asking.protect("/private/")
        try await remember(asking, "/private/")
        let open = try TestServer()
        let gate = TestServer.Gate()
        open.route("/shared", .text("shared").held(by: gate))
        let manager = HTTPRequestOperationManager(baseURL: open.url, completionQueue: testQueue)
        manager.responseSerializer = StringResponseSerializer()
        manager.coalescesIdenticalRequests = true
        if hasToken { manager.authenticator = Authenticator(token: AccessToken("t")) { _ in AccessToken("t") } }
        let operations = try (0..<5).map { _ in try manager.makeOperation(.get, "shared") }
        manager.enqueue(operations)
        #expect(eventually { !open.requests("/shared").isEmpty && operations.allSatisfy(\.isExecuting) })
        gate.open()
        for operation in operations { try await operation.finished() }
        #expect(operations.allSatisfy { $0.responseString == "shared" } && open.requests("/shared").count == 1)
    }

    @Test func `an operation that shares a transfer never receives another user's response`() async throws {
        let asking = try AskingServer()
        asking.route("/me") { request, _ in
            guard let value = request.authorizations.first else { return .asking("Basic realm=\"a\"").delayed(0.05) }
            return .text(value).delayed(0.05)
        }
        let users = (0..<6).map { URLCredential(user: "user\($0 % 3)", password: "", persistence: .none) }
        for _ in 0..<3 {
            let operations = users.map { user in
                let operation = AskingServer.operation(asking.url("/me"), credential: user)
                operation.coalescesIdenticalRequests = true
                return operation
            }
            for operation in operations { operation.start() }
            for (operation, user) in zip(operations, users) {
                try await operation.finished()
                #expect(operation.responseString == "Basic " + Data("\(user.user ?? ""):".utf8).base64EncodedString())
            }
        }
    }

    @Test func `a token is sent again with a streamed body`() async throws {
        let tokens = try TokenServer()
        tokens.expire()
        var request = URLRequest(url: tokens.server.url("/data"))
        request.httpMethod = "POST"
        request.httpBodyStream = ReplayableText("streamed")
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.authenticator = Authenticator(token: AccessToken("t1")) { _ in AccessToken("t2") }
        try await operation.finished()
        #expect(operation.responseString == "data")
        #expect(tokens.server.requests("/data").map(\.text) == ["streamed", "streamed"])
        #expect(tokens.server.requests("/data").map { $0.headers["Authorization"] } == ["Bearer t1", "Bearer t2"])
    }

    @Test func `an operation whose stream cannot be rewound receives the 401 response`() async throws {
        let asking = try AskingServer()
        asking.route("/") { request, _ in
            request.authorizations == [AskingServer.basic]
                ? .text("let in") : .text("who are you?", status: 401).header("WWW-Authenticate", "Basic realm=\"a\"")
        }
        for (credential, text) in [(AskingServer.ada, "let in"), (nil, "who are you?")] as [(URLCredential?, String)] {
            let operation = URLConnectionOperation(request: URLRequest(url: asking.url("/")))
            let stream = GrowingStream(toMemory: ())
            operation.outputStream = stream
            operation.credential = credential
            operation.completionQueue = testQueue
            operation.credentialStore = CredentialStore()
            try await operation.finished()
            #expect(String(decoding: stream.data, as: UTF8.self) == text)
        }
    }

    @Test func `a retry policy and a challenge do not interfere with each other`() async throws {
        let asking = try AskingServer()
        let turn = Locked(0)
        asking.route("/") { request, _ in
            guard request.authorizations == [AskingServer.basic] else { return .asking("Basic realm=\"a\"") }
            let number = turn.withLock {
                $0 += 1
                return $0
            }
            return number <= 2 ? .status(503).header("Retry-After", "0") : .text("in")
        }
        let operation = AskingServer.operation(asking.url("/"))
        operation.retryPolicy = RetryPolicy()
        try await operation.finished()
        #expect(operation.responseString == "in" && operation.retryCount == 2)
        #expect(asking.authorizations("/") == ["none"] + Array(repeating: AskingServer.basic, count: 3))
    }
}

/// A stream that can only grow.
private final class GrowingStream: OutputStream {
    private let contents = Locked(Data())
    private let status = Locked(Stream.Status.notOpen)
    var data: Data { contents.withLock { $0 } }

    required init(toMemory: ()) { super.init(toMemory: ()) }
    override var streamStatus: Stream.Status { status.withLock { $0 } }
    override func open() { status.withLock { $0 = .open } }
    override func close() { status.withLock { $0 = .closed } }
    override var hasSpaceAvailable: Bool { true }
    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        contents.withLock { $0.append(buffer, count: length) }
        return length
    }
}
