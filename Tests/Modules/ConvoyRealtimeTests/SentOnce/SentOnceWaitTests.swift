import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoyTransport

/// Requests that must not be sent twice, and are paused while they wait for something other than their response, or
/// share their connection.
@Suite(.timeLimit(.minutes(2))) struct SentOnceWaitTests {
    private let server: TestServer
    private let gate = TestServer.Gate()

    init() throws { server = try TestServer() }

    private func post(_ url: URL) -> HTTPRequestOperation {
        var request = URLRequest(url: url)
        request.httpMethod = "POST"
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = DispatchQueue(label: "handlers")
        operation.responseSerializer = HTTPResponseSerializer()
        return operation
    }

    private func wait(for operation: HTTPRequestOperation) throws {
        let end = DispatchSemaphore(value: 0)
        operation.whenDelivered { end.signal() }
        try end.waitOrThrow(timeout: 60, "the end of \(operation)")
    }

    /// Waits until the network thread has processed everything submitted so far.
    private func settle() {
        for _ in 0..<3 {
            let turn = DispatchSemaphore(value: 0)
            let isPerformed: Bool = NetworkThread.shared.perform { turn.signal() }
            if isPerformed { turn.wait() }
        }
    }

    @Test(arguments: [303, 307], [false, true])
    func `a redirect that waits for a slot of its host waits again after a pause`(
        status: Int, becomesFreeDuringPause: Bool
    ) throws {
        let other = try TestServer()
        other.route("GET", "/busy", .text("busy").held(by: gate))
        other.route(status == 303 ? "GET" : "POST", "/next", .text("next"))
        server.route("POST", "/", .redirect(to: other.url("/next").absoluteString, status: status))
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCountPerHost = 1
        let busy = HTTPRequestOperation(request: URLRequest(url: other.url("/busy")))
        busy.responseSerializer = HTTPResponseSerializer()
        busy.completionQueue = DispatchQueue(label: "handlers")
        queue.addOperation(busy)
        _ = try other.waitForRequests(count: 1)
        let operation = post(server.url("/"))
        let isRedirected = DispatchSemaphore(value: 0)
        operation.redirectHandler = { _, request, _ in
            isRedirected.signal()
            return request
        }
        queue.addOperation(operation)
        try isRedirected.waitOrThrow(timeout: 60, "the redirect")
        settle()
        operation.pause()
        settle()
        if becomesFreeDuringPause {
            gate.open()
            try wait(for: busy)
            settle()
            #expect(other.requests.count == 1, "nothing is sent during a pause")
        }
        operation.resume()
        settle()
        gate.open()
        try wait(for: operation)
        #expect(operation.error == nil && operation.responseString == "next")
        #expect(server.requests.count == 1 && other.requests.map(\.path) == ["/busy", "/next"])
    }

    /// A sequence that waits after its first piece.
    private struct Pieces: AsyncSequence, Sendable {
        let wait: @Sendable () async -> Void

        struct AsyncIterator: AsyncIteratorProtocol {
            let wait: @Sendable () async -> Void
            var count = 0

            mutating func next() async -> Data? {
                count += 1
                if count == 2 { await wait() }
                return count < 3 ? PatternBytes.data(count: 300_000) : nil
            }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator(wait: wait) }
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `an HTTP/2 stream can be held during its request and its response while others continue`() throws {
        let nginx = try Nginx(forwardingTo: server.port)
        server.route("POST", "/", .pattern(count: 3_000_000))
        server.route("GET", "/other", .pattern(count: 1_000_000))
        let operation = post(nginx.secureURL("forward/"))
        let (isFed, feed) = (DispatchSemaphore(value: 0), AsyncStream<Void>.makeStream())
        var request = operation.request
        request.httpBodyStream = SequenceBody.stream(canRepeat: true) {
            SequencePump {
                Pieces {
                    isFed.signal()
                    for await _ in feed.stream { return }
                }
            }
        }
        operation.replaceRequest(with: request)
        operation.connectionConfiguration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        let hasResponse = Locked(false)
        operation.downloadProgressHandler = { [weak operation] _, _, _ in
            let isFirst = hasResponse.withLock { hasResponse in
                defer { hasResponse = true }
                return !hasResponse
            }
            if isFirst { operation?.pause() }
        }
        func loadAnother() throws {
            let other = HTTPRequestOperation(request: URLRequest(url: nginx.secureURL("forward/other")))
            other.responseSerializer = HTTPResponseSerializer()
            other.completionQueue = DispatchQueue(label: "handlers")
            other.connectionConfiguration = operation.connectionConfiguration
            other.start()
            try wait(for: other)
            #expect(other.error == nil && other.responseData == PatternBytes.data(count: 1_000_000))
        }

        operation.start()
        try isFed.waitOrThrow(timeout: 60, "the first piece")
        operation.pause()
        settle()
        feed.continuation.yield()
        try loadAnother()
        #expect(operation.isPaused && operation.response == nil)
        operation.resume()

        try eventually { hasResponse.withLock { $0 } && operation.isPaused }
        settle()
        let received = operation.transferProgress.bytesReceived
        try loadAnother()
        #expect(operation.isPaused && operation.transferProgress.bytesReceived == received)
        operation.resume()
        try wait(for: operation)
        #expect(operation.error == nil && operation.responseData == PatternBytes.data(count: 3_000_000))
        let posts = server.requests.filter { $0.method == "POST" }
        #expect(posts.count == 1 && posts.first?.body.count == 600_000)
    }
}
