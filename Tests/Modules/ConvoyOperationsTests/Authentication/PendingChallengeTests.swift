import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Operations waiting for an answer or a token, and the events that may occur in the meantime.
@Suite struct PendingChallengeTests {
    typealias Answer = @Sendable (AuthenticationDisposition) -> Void

    /// The answers that a handler has received.
    private final class Answers: Sendable {
        private let all = Locked<[Answer]>([])
        var count: Int { all.withLock { $0.count } }
        subscript(_ index: Int) -> Answer { all.withLock { $0[index] } }
        var handler: URLConnectionOperation.AuthenticationChallengeHandler {
            { [self] _, _, answer in all.withLock { $0.append(answer) } }
        }
    }

    @Test func `a finished operation is released even if its reply closure is retained`() async throws {
        let asking = try AskingServer()
        asking.protect("/")
        let answers = Answers()
        weak var released: HTTPRequestOperation?
        do {
            let operation = AskingServer.operation(asking.url("/"), credential: nil)
            operation.authenticationChallengeHandler = answers.handler
            released = operation
            operation.start()
            #expect(eventually { answers.count == 1 })
            operation.cancel()
            await #expect(throws: URLError.self) { try await operation.finished() }
        }
        #expect(eventually { released == nil })
        answers[0](.useCredential(AskingServer.ada))
        #expect(asking.server.requests.count == 1)
    }

    @Test func `a reply to an earlier challenge does not override the latest one`() async throws {
        let asking = try AskingServer()
        asking.protect("/")
        let answers = Answers()
        let operation = AskingServer.operation(asking.url("/"), credential: nil)
        operation.authenticationChallengeHandler = answers.handler
        operation.start()
        #expect(eventually { answers.count == 1 })
        operation.pause()
        operation.resume()
        #expect(eventually { answers.count == 2 })
        operation.pause()
        answers[1](.cancel)
        answers[0](.performDefaultHandling)
        operation.resume()
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect((operation.error as? URLError)?.code == .userCancelledAuthentication && answers.count == 2)
    }

    @Test func `a reply given during a pause applies to the next attempt`() async throws {
        let asking = try AskingServer()
        asking.protect("/")
        let answers = Answers()
        let operation = AskingServer.operation(asking.url("/"), credential: nil)
        operation.authenticationChallengeHandler = answers.handler
        operation.start()
        #expect(eventually { answers.count == 1 })
        operation.pause()
        answers[0](.useCredential(AskingServer.ada))
        #expect(asking.server.requests.count == 1)
        operation.resume()
        try await operation.finished()
        #expect(operation.responseString == "let in" && answers.count == 1)
        #expect(asking.server.requests.count == 2)
    }

    @Test func `a reply given while the next attempt is running is kept and does not end that attempt`() async throws {
        let asking = try AskingServer()
        let gate = TestServer.Gate()
        asking.route("/") { request, number in
            guard request.authorizations != [AskingServer.basic] else { return .text("let in") }
            // The second attempt was sent without an answer, and is challenged only after the first challenge was
            // answered.
            let response = TestServer.Response.asking("Basic realm=\"a\"")
            return number == 2 ? response.held(by: gate) : response
        }
        let answers = Answers()
        let operation = AskingServer.operation(asking.url("/"), credential: nil)
        operation.authenticationChallengeHandler = answers.handler
        operation.start()
        #expect(eventually { answers.count == 1 })
        operation.pause()
        operation.resume()
        #expect(eventually { asking.server.requests.count == 2 })
        answers[0](.useCredential(AskingServer.ada))
        gate.open()
        // The second attempt may be refused with its own challenge.
        #expect(eventually { operation.isFinished || answers.count == 2 })
        if answers.count == 2 { answers[1](.useCredential(AskingServer.ada)) }
        try await operation.finished()
        #expect(operation.responseString == "let in" && asking.server.requests.count == 3)
    }

    @Test func `only one of many concurrent replies takes effect`() async throws {
        let asking = try AskingServer()
        asking.protect("/")
        for _ in 0..<20 {
            let operation = AskingServer.operation(asking.url("/"), credential: nil)
            let finishes = Locked(0)
            operation.completionBlock = { finishes.withLock { $0 += 1 } }
            operation.authenticationChallengeHandler = { _, _, answer in
                DispatchQueue.concurrentPerform(iterations: 8) { index in
                    answer(index % 2 == 0 ? .useCredential(AskingServer.ada) : .performDefaultHandling)
                }
            }
            operation.start()
            try? await operation.finished()
            #expect(operation.statusCode == 200 || operation.statusCode == 401)
            #expect(eventually { finishes.withLock { $0 } == 1 })
        }
        #expect(asking.server.requests.count <= 40)
    }

    @Test func `removing the handler passes pending challenges to the default handling`() async throws {
        let asking = try AskingServer()
        asking.route("/") { _, _ in .asking("Digest realm=\"a\", nonce=\"n\"", "Basic realm=\"b\"") }
        let operation = AskingServer.operation(asking.url("/"), credential: nil)
        let asked = Locked(0)
        operation.authenticationChallengeHandler = { operation, _, answer in
            asked.withLock { $0 += 1 }
            operation.authenticationChallengeHandler = nil
            answer(.rejectProtectionSpace)
        }
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.statusCode == 401 && asked.withLock { $0 } == 1)
    }

    enum Interruption: CaseIterable { case pauseAndResume, pauseResumeElsewhere, cancel, expire }
    enum Home: CaseIterable { case none, ours, foundations }

    @Test(arguments: Interruption.allCases, Home.allCases)
    func `interruptions between any two steps lose nothing, for passwords and for tokens`(
        interruption: Interruption, home: Home
    ) async throws {
        for hasToken in [false, true] {
            for step in 1...9 {
                let tokens = try TokenServer()
                tokens.expire()
                tokens.server.route("/private") { request in
                    request.authorizations == [AskingServer.basic] ? .text("data") : .asking("Basic realm=\"a\"")
                }
                let operation = InterruptedOperation(
                    request: URLRequest(url: tokens.server.url(hasToken ? "/data" : "/private")))
                operation.completionQueue = testQueue
                operation.credentialStore = CredentialStore()
                if hasToken {
                    operation.authenticator = Authenticator(token: AccessToken("t1")) { _ in
                        await Task.yield()
                        return AccessToken("t2")
                    }
                } else {
                    operation.authenticationChallengeHandler = { _, _, answer in answer(.useCredential(AskingServer.ada)) }
                }
                let count = Locked(0), finishes = Locked(0)
                operation.completionBlock = { finishes.withLock { $0 += 1 } }
                operation.interrupt { [weak operation] _, proceed in
                    let isNow = count.withLock {
                        $0 += 1
                        return $0 == step
                    }
                    guard isNow, let operation else { return proceed() }
                    switch interruption {
                    case .cancel: operation.cancel()
                    case .expire: operation.handle(.expire)
                    case .pauseAndResume:
                        operation.pause()
                        operation.resume()
                    case .pauseResumeElsewhere:
                        Thread.detachNewThread {
                            operation.pause()
                            letOthersRun(microseconds: 200)
                            operation.resume()
                        }
                        letOthersRun(microseconds: 300)
                    }
                    proceed()
                }
                let own = RequestOperationQueue(), foundations = OperationQueue()
                own.maxConcurrentOperationCount = 1
                switch home {
                case .none: operation.start()
                case .ours: own.addOperation(operation)
                case .foundations: foundations.addOperation(operation)
                }
                do {
                    try await operation.finished()
                    #expect(operation.responseString == "data", "step \(step), token \(hasToken)")
                } catch {
                    let expected: [Interruption: URLError.Code] = [.cancel: .cancelled, .expire: .timedOut]
                    #expect(
                        (error as? URLError)?.code == expected[interruption] && expected[interruption] != nil,
                        "step \(step), token \(hasToken): \(error)")
                }
                #expect(eventually { finishes.withLock { $0 } == 1 })
                #expect(eventually { own.queuedOperationCount == 0 && foundations.operationCount == 0 })
                operation.interrupt(nil)
            }
        }
    }

    @Test func `operations waiting for a token end in linear time`() async throws {
        // No request is sent, because the refresh never provides a token.
        func seconds(_ count: Int) async throws -> Double {
            let signal = Signal()
            let authenticator = Authenticator { _ in
                await withCheckedContinuation { continuation in
                    DispatchQueue.global().async {
                        _ = signal.wait()
                        continuation.resume()
                    }
                }
                throw CancellationError()
            }
            let queue = RequestOperationQueue()
            queue.maxConcurrentOperationCount = 8
            let operations = try (0..<count).map { _ in
                let operation = HTTPRequestOperation(
                    request: URLRequest(url: try #require(URL(string: "http://127.0.0.1:1/"))))
                operation.completionQueue = testQueue
                operation.authenticator = authenticator
                return operation
            }
            let clock = ContinuousClock(), start = clock.now
            queue.addOperations(operations, waitUntilFinished: false)
            signal.fire()
            for operation in operations { await #expect(throws: AuthenticatorError.self) { try await operation.finished() } }
            return (clock.now - start) / .seconds(1)
        }
        _ = try await seconds(500)
        let few = try await seconds(1_000), many = try await seconds(10_000)
        print("1,000 waiters took \(few) s, 10,000 took \(many) s")
        #expect(many < 60 * max(few, 0.02))
    }
}
