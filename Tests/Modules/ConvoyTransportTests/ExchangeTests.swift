import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyTransport

/// Tests that the state of an exchange is completely discarded when the next one begins.
@Suite struct ExchangeTests {
    let server: TestServer
    let thread = NetworkThread()

    init() throws { server = try TestServer() }

    private func get(
        _ path: String, cache: ScriptedCache = ScriptedCache(), keeper: AskingKeeper? = nil,
        authorizer: (any RequestAuthorizer)? = nil, _ prepare: (inout URLRequest) -> Void = { _ in },
        delegate: Collector = Collector()
    ) -> Collector.Heard? {
        var configuration = ConnectionConfiguration()
        configuration.cache = ResponseCacheReference(cache)
        configuration.cookies = keeper.map { CookieKeeperReference($0) }
        configuration.authorizer = authorizer.map { AuthorizerReference($0) }
        var request = URLRequest(url: server.url(path))
        prepare(&request)
        return load(request, configuration: configuration, thread: thread, delegate: delegate)
    }

    @Test func `a stale response is served instead of a malformed head`() throws {
        server.route("GET", "/", .raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nno"))
        let cache = ScriptedCache()
        cache.stale = StoredResponse("good")
        let heard = try #require(get("/", cache: cache))
        #expect(heard.isFinished && heard.text == "good")
        #expect(heard.heads.map(\.statusCode) == [200])
    }

    @Test func `an unreadable stored body does not disable the cache for later redirects`() throws {
        server.route("GET", "/lost", .text("").status(302).header("Location", "/next"))
        let cache = ScriptedCache()
        cache.answers["/lost"] = .hit(StoredResponse(unreadableLength: 10), revalidates: false)
        cache.answers["/next"] = .hit(StoredResponse("stored"), revalidates: false)
        let heard = try #require(get("/lost", cache: cache))
        #expect(heard.isFinished && heard.text == "stored")
        // Two attempts fail, and a third one does not use the cache.
        #expect(cache.asked == ["/lost", "/lost", "/next"])
        #expect(server.requests.map(\.path) == ["/lost"])
    }

    @Test func `a request that was never sent does not keep the head of the redirect`() throws {
        server.route("GET", "/first", .text("").status(302).header("Location", "/second"))
        let cache = ScriptedCache()
        cache.answers["/second"] = .unavailable(.notStored)
        let head = Locked<Int?>(0)
        let redirected = Locked<String?>(nil)
        let delegate = Collector(onFailure: { connection in
            let connection = connection as? RequestChain
            head.withLock { $0 = connection?.latestHead?.statusCode }
            redirected.withLock { $0 = connection?.redirected?.request.url?.path }
        })
        let heard = try #require(get("/first", cache: cache, delegate: delegate))
        #expect(heard.error?.code == .resourceUnavailable)
        #expect(head.withLock { $0 } == nil)
        #expect(redirected.withLock { $0 } == "/second")
    }

    @Test func `a redirect to a request that cannot be sent reports the target of the redirect`() throws {
        server.route("GET", "/first", .text("").status(302).header("Location", "http://elsewhere.test/second"))
        var configuration = ConnectionConfiguration()
        configuration.addressOverrides = ["elsewhere.test": "no address"]
        let last = Locked<String?>(nil)
        let delegate = Collector(onFailure: { connection in
            let redirected = (connection as? RequestChain)?.redirected
            last.withLock { $0 = redirected?.request.url?.host }
        })
        let request = URLRequest(url: server.url("/first"))
        let heard = try #require(
            load(request, configuration: configuration, thread: thread, delegate: delegate))
        #expect(heard.error?.code == .badURL)
        #expect(last.withLock { $0 } == "elsewhere.test")
    }

    @Test func `a request is resent without Expect after a 417 whose cookies await a decision`() throws {
        server.route("POST", "/expect", options: .answersEarly) { request in
            request.headers["Expect"] == nil
                ? .text("taken")
                : .raw("HTTP/1.1 417 Expectation Failed\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
        }
        let answer = DispatchSemaphore(value: 0)
        let keeper = AskingKeeper { [thread] in
            // Wait until the turn in which the head arrived has ended.
            for _ in 0..<3 {
                thread.perform { answer.signal() }
                answer.wait()
            }
        }
        let heard = try #require(
            get("/expect", keeper: keeper) { request in
                request.httpMethod = "POST"
                request.httpBody = Data(repeating: 7, count: 10)
                request.setValue("100-continue", forHTTPHeaderField: "Expect")
            })
        #expect(heard.isFinished && heard.text == "taken")
        #expect(heard.heads.map(\.statusCode) == [200])
        #expect(keeper.taken == 1)
    }

    @Test(.enabled(if: Libcurl.hasNTLM, "this libcurl has no NTLM"))
    func `a late answer about cookies does not affect the next response`() throws {
        server.route("GET", "/ntlm") { request in
            // The client's third message is longer than its first.
            request.headers["Authorization"].map { $0.utf8.count > 100 } == true
                ? .text("inside")
                : .text("").status(401).header("WWW-Authenticate", "NTLM \(Self.ntlmChallenge)").header("Set-Cookie", "a=b")
        }
        let answer = DispatchSemaphore(value: 0)
        let delegate = Collector()
        let ended = delegate.ended
        // If the response mistakenly waits for the answer, provide it.
        DispatchQueue.global().async {
            _ = ended.wait(timeout: .now() + 10)
            ended.signal()
            answer.signal()
        }
        let heard = try #require(
            get("/ntlm", keeper: AskingKeeper { answer.wait() }, authorizer: NTLMAuthorizer(), delegate: delegate))
        #expect(heard.isFinished && heard.text == "inside", "\(heard.ends)")
        #expect(heard.heads.map(\.statusCode) == [200])
    }

    /// An NTLM challenge of a server ([MS-NLMP], section 2.2.1.2) without a target name.
    private static let ntlmChallenge: String = {
        var bytes = Array("NTLMSSP\0".utf8) + [2, 0, 0, 0]
        bytes += [0, 0, 0, 0, 48, 0, 0, 0]  // No target name.
        bytes += [0x01, 0x82, 0, 0]  // Unicode, NTLM, signed always.
        bytes += [1, 2, 3, 4, 5, 6, 7, 8] + Array(repeating: 0, count: 8)
        bytes += [0, 0, 0, 0, 48, 0, 0, 0]  // No target information.
        return Data(bytes).base64EncodedString()
    }()
}

/// A cache that responds by path as configured by a test, and stores nothing.
private final class ScriptedCache: ResponseCache {
    private struct State {
        var answers: [String: CacheAnswer] = [:]
        var stale: StoredResponse?
        var asked: [String] = []
    }

    private let state = Locked(State())

    var answers: [String: CacheAnswer] {
        get { state.withLock { $0.answers } }
        set { state.withLock { $0.answers = newValue } }
    }

    /// The response to serve instead of an error.
    var stale: StoredResponse? {
        get { state.withLock { $0.stale } }
        set { state.withLock { $0.stale = newValue } }
    }

    /// The paths of all exchanges.
    var asked: [String] { state.withLock { $0.asked } }

    var salt: String { "" }

    func begin(_ request: CacheRequest) -> any ResponseCacheExchange {
        let path = URL(string: request.address)?.path ?? ""
        return state.withLock { state in
            state.asked.append(path)
            return Answer(answer: state.answers[path] ?? .miss, stale: state.stale)
        }
    }

    private final class Answer: ResponseCacheExchange {
        private let answer: CacheAnswer
        private let stale: StoredResponse?

        init(answer: CacheAnswer, stale: StoredResponse?) {
            self.answer = answer
            self.stale = stale
        }

        func lookUp() -> CacheAnswer? { answer }
        func lookUpInFiles(_ then: @escaping @Sendable (CacheAnswer) -> Void) { then(answer) }
        func willSend() {}
        var needsHead: Bool { false }
        func receive(_ head: CachedHead) -> CacheReaction { .pass }
        func failed() -> (any ServableResponse)? { stale }
        func cancel() {}
    }
}

private final class StoredResponse: ServableResponse {
    let head = CachedHead(statusCode: 200, fields: [])
    let length: Int
    let bytes: [UInt8]?
    let use = StoredUse.staleIfError

    init(_ text: String) {
        bytes = Array(text.utf8)
        length = text.utf8.count
    }

    /// A response whose file has been removed.
    init(unreadableLength: Int) {
        bytes = nil
        length = unreadableLength
    }

    func read(at offset: Int, count: Int, _ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void) {
        then(.failure(POSIXError(.ENOENT)))
    }
}

/// A cookie store that asks the user about each cookie.
private final class AskingKeeper: CookieStorage {
    private let count = Atomic(0)
    private let answer: @Sendable () -> Void

    /// - Parameter answer: Returns once the user has answered.
    init(answer: @escaping @Sendable () -> Void) { self.answer = answer }

    /// The number of responses whose cookies were passed.
    var taken: Int { count.load(ordering: .relaxed) }

    var isEmpty: Bool { true }
    var revision: UInt64 { 0 }
    var identity: String { "" }
    var asksBeforeAccepting: Bool { true }
    var fieldLimit: Int { 10 }
    func field(for target: CookieTarget, site: URL?, isSafeMethod: Bool) -> [UInt8]? { nil }
    func take(_ fields: [[UInt8]], from target: CookieTarget, url: URL) { count.add(1, ordering: .relaxed) }
    func takeAsking(_ fields: [[UInt8]], from target: CookieTarget, url: URL) {
        answer()
        take(fields, from: target, url: url)
    }
}

private final class NTLMAuthorizer: RequestAuthorizer {
    func authorization(for target: AuthorizationTarget) -> RequestAuthorization? {
        .connection(.ntlm, user: "ada", password: "secret")
    }
}
