import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Tests that a token is refreshed once for all operations, and that no operation is lost.
@Suite struct AuthenticatorTests {
    let tokens: TokenServer
    let manager: HTTPRequestOperationManager

    init() throws {
        tokens = try TokenServer()
        manager = HTTPRequestOperationManager(baseURL: tokens.server.url, completionQueue: testQueue)
        manager.responseSerializer = StringResponseSerializer()
        manager.maxConcurrentOperationCount = 4
        let manager = manager
        manager.authenticator = Authenticator(token: AccessToken("t1")) { [weak manager] _ in
            guard let manager else { throw CancellationError() }
            return AccessToken(try await manager.post("token", as: String.self))
        }
    }

    private func enqueue(_ count: Int) throws -> [HTTPRequestOperation] {
        let operations = try (0..<count).map { _ in try manager.makeOperation(.get, "data") }
        manager.enqueue(operations)
        return operations
    }

    @Test func `200 operations with an expired token trigger one refresh in a queue of four slots`() async throws {
        tokens.expire()
        let operations = try enqueue(200)
        for operation in operations { try await operation.finished() }
        #expect(operations.allSatisfy { $0.responseString == "data" })
        #expect(tokens.refreshes == 1)
        // Only the operations in progress when the token was rejected were sent unnecessarily.
        #expect((201...204).contains(tokens.dataRequests))
    }

    @Test func `a token that the server always rejects is refreshed once, and the 401 stands`() async throws {
        tokens.close()
        let operation = try enqueue(1)[0]
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 401 && tokens.refreshes == 1 && tokens.dataRequests == 2)
    }

    @Test func `an operation sent with an older token is sent again without a refresh`() async throws {
        let gate = TestServer.Gate()
        tokens.server.route("/late") { request in
            request.headers["Authorization"] == "Bearer t2"
                ? .text("late") : .status(401).held(by: gate)
        }
        let late = try manager.makeOperation(.get, "late")
        manager.enqueue(late)
        #expect(eventually { tokens.server.requests("/late").count == 1 })
        tokens.expire()
        try await enqueue(1)[0].finished()
        #expect(tokens.refreshes == 1)
        gate.open()
        try await late.finished()
        #expect(late.responseString == "late" && tokens.refreshes == 1)
    }

    @Test func `a failed refresh reports the URL that rejected it and the missing key of the response`() async throws {
        struct Grant: Decodable, Sendable { var token: String }
        tokens.server.route("/grant", .json(text: #"{"error": "no"}"#))
        let manager = manager
        for (path, place) in [("grant", #"At the root: The key "token" is missing."#), ("nowhere", "404")] {
            manager.authenticator = Authenticator { [weak manager] _ in
                guard let manager else { throw CancellationError() }
                return AccessToken(try await manager.get(path, as: Grant.self).token)
            }
            let error = await #expect(throws: AuthenticatorError.self) { try await enqueue(1)[0].finished() }
            let text = try #require(error).localizedDescription
            #expect(text.contains("\(tokens.server.url)/\(path)") && text.contains(place), "\(text)")
        }
    }

    @Test func `a failed refresh fails all waiting operations with its reason`() async throws {
        struct Reason: Error {}
        let signal = Signal()
        let calls = Locked(0)
        manager.authenticator = Authenticator { _ in
            calls.withLock { $0 += 1 }
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async {
                    _ = signal.wait()
                    continuation.resume()
                }
            }
            throw Reason()
        }
        let operations = try enqueue(20)
        #expect(eventually { operations.allSatisfy { !$0.isExecuting } && manager.queuedOperationCount == 20 })
        // No waiting operation holds a slot, so another operation runs.
        let other = HTTPRequestOperation(request: URLRequest(url: tokens.server.url("/token")))
        manager.enqueue(other)
        try? await other.finished()
        #expect(other.statusCode != nil)
        signal.fire()
        for operation in operations {
            do {
                try await operation.finished()
                Issue.record("it succeeded")
            } catch AuthenticatorError.refreshFailed(let reason) {
                #expect(reason is Reason)
            }
        }
        #expect(calls.withLock { $0 } == 1 && tokens.dataRequests == 0)
    }

    @Test func `repeatedly failing refreshes do not cause a stampede`() async throws {
        struct Reason: Error {}
        let calls = Locked(0)
        manager.authenticator = Authenticator(limit: 3) { _ in
            calls.withLock { $0 += 1 }
            throw Reason()
        }
        let operations = try enqueue(100)
        for operation in operations { await #expect(throws: AuthenticatorError.self) { try await operation.finished() } }
        #expect((1...3).contains(calls.withLock { $0 }))
    }

    @Test func `cancelling one operation does not cancel the refresh for the others`() async throws {
        tokens.expire()
        let gate = TestServer.Gate()
        let server = tokens.server
        server.removeRoute("/token")
        server.route("POST", "/token", .text("t2").held(by: gate))
        let operations = try enqueue(10)
        #expect(eventually { server.requests("/token").count == 1 && operations.allSatisfy { !$0.isExecuting } })
        operations[0].cancel()
        operations[3].cancel()
        await #expect(throws: URLError.self) { try await operations[0].finished() }
        gate.open()
        for (index, operation) in operations.enumerated() where index != 0 && index != 3 {
            try await operation.finished()
            #expect(operation.responseString == "data")
        }
        #expect(tokens.refreshes == 1)
    }

    @Test func `a token is refreshed before it expires`() async throws {
        let manager = manager
        manager.authenticator = Authenticator(token: AccessToken("t1", expiresIn: -1)) { _ in
            AccessToken(try await manager.post("token", as: String.self), expiresIn: 3600)
        }
        // The token has already expired when it is set. Because clocks differ, it is used until it is rejected.
        try await enqueue(1)[0].finished()
        #expect(tokens.refreshes == 0)
        manager.authenticator = Authenticator { _ in
            AccessToken(try await manager.post("token", as: String.self), expiresIn: 3600)
        }
        for operation in try enqueue(20) { try await operation.finished() }
        #expect(tokens.refreshes == 1 && tokens.dataRequests == 21)
    }

    @Test func `setting a token resumes all operations waiting for a refresh`() async throws {
        tokens.expire()
        let (end, ends) = AsyncStream.makeStream(of: Void.self)
        defer { ends.finish() }
        let authenticator = Authenticator { _ in
            for await _ in end {}
            return AccessToken("never")
        }
        manager.authenticator = authenticator
        let operations = try enqueue(10)
        #expect(eventually { operations.allSatisfy { !$0.isExecuting } })
        authenticator.token = AccessToken("t2")
        for operation in operations { try await operation.finished() }
        #expect(tokens.dataRequests == 10)
    }

    @Test func `removing the token during a refresh does not start another one`() async throws {
        tokens.expire()
        let gate = TestServer.Gate()
        tokens.server.removeRoute("/token")
        tokens.server.route("POST", "/token", .text("t2").held(by: gate))
        let operations = try enqueue(3)
        #expect(eventually { tokens.refreshes == 1 && operations.allSatisfy { !$0.isExecuting } })
        manager.authenticator?.token = nil
        let late = try enqueue(1)
        #expect(eventually { late.allSatisfy { $0.state == .ready && !$0.isExecuting } })
        gate.open()
        for operation in operations + late { try await operation.finished() }
        #expect(tokens.refreshes == 1 && (operations + late).allSatisfy { $0.responseString == "data" })
    }

    @Test func `a paused operation waits for the refresh again after it is resumed`() async throws {
        tokens.expire()
        let gate = TestServer.Gate()
        tokens.server.removeRoute("/token")
        tokens.server.route("POST", "/token", .text("t2").held(by: gate))
        let operations = try enqueue(2)
        #expect(eventually { tokens.refreshes == 1 && operations.allSatisfy { !$0.isExecuting } })
        operations[0].pause()
        operations[1].pause()
        operations[1].resume()
        gate.open()
        try await operations[1].finished()
        #expect(operations[0].isPaused)
        operations[0].resume()
        try await operations[0].finished()
        #expect(operations.allSatisfy { $0.responseString == "data" } && tokens.refreshes == 1)
    }

    @Test func `the token is not sent to any other origin`() async throws {
        let other = try TestServer()
        other.route("/", .text("other"))
        tokens.server.redirect("/away", to: other.url("/").absoluteString)
        let redirected = try manager.makeOperation(.get, "away")
        let absolute = try manager.makeOperation(.get, other.url("/").absoluteString)
        let prepared = try manager.makeOperation(.get, "data")
        let url = other.url("/")
        prepared.prepare = { $0.url = url }
        manager.enqueue([redirected, absolute, prepared])
        for operation in [redirected, absolute, prepared] { try await operation.finished() }
        #expect(other.requests.count == 3 && other.requests.allSatisfy { $0.headers["Authorization"] == nil })
        #expect(tokens.server.requests("/away").first?.headers["Authorization"] == "Bearer t1")
    }

    @Test func `a token with invalid characters is rejected and never printed`() async throws {
        let token = AccessToken("secret\r\nX: y")
        manager.authenticator = Authenticator(token: token) { _ in token }
        let operation = try enqueue(1)[0]
        await #expect(throws: AuthenticatorError.self) { try await operation.finished() }
        #expect(tokens.dataRequests == 0)
        var dumped = ""
        dump(token, to: &dumped)
        #expect(!"\(token) \(String(reflecting: token)) \(dumped) \(String(describing: operation.error))".contains("secret"))
    }

    @Test func `random cancellations, failures and slow refreshes lose no operation`() async throws {
        struct Reason: Error {}
        let rounds = ProcessInfo.processInfo.environment["CONVOY_TOKEN_ROUNDS"].flatMap(Int.init) ?? 60
        for round in 0..<rounds {
            var random = SplitMix64(seed: UInt64(round))
            let present = Locked(round), made = Locked(0)
            let fails = random.next() % 4 == 0, isSlow = random.next() % 2 == 0
            manager.authenticator = Authenticator(token: round % 3 == 0 ? nil : AccessToken("t0"), limit: 1000) { _ in
                made.withLock { $0 += 1 }
                if isSlow { for _ in 0..<50 { await Task.yield() } }
                if fails, made.withLock({ $0 }) == 1 { throw Reason() }
                return AccessToken("t\(present.withLock { $0 } + 1)")
            }
            while tokens.presentGeneration < round + 1 { tokens.expire() }
            let operations = try enqueue(30)
            for operation in operations {
                switch random.next() % 6 {
                case 0: operation.cancel()
                case 1:
                    operation.pause()
                    operation.resume()
                default: break
                }
            }
            for operation in operations {
                do {
                    try await operation.finished()
                    #expect(operation.responseString == "data")
                } catch let error as URLError {
                    #expect(error.code == .cancelled && operation.isCancelled)
                } catch AuthenticatorError.refreshFailed {
                    #expect(fails)
                }
            }
            #expect(made.withLock { $0 } <= 2, "round \(round)")
        }
    }
}
