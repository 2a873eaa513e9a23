import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that pauses and retries neither repeat nor skip bytes that are read.
@Suite(.timeLimit(.minutes(2))) struct ResponseBytesResumeTests {
    static let size = 4 << 20
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
    }

    @Test(arguments: [0, 1, 100_000, 3_000_000])
    func `a paused operation resumes where it stopped`(position: Int) async throws {
        // The first attempt does not end before it is stopped.
        server.servePattern(count: Self.size, at: "/x", etag: "\"v1\"") { request, response in
            request.headers["Range"] == nil ? response.stalls(afterBytes: Self.size - 1) : response
        }
        let (bytes, _) = try await manager.bytes(.get, "x")
        var (total, isRight, hasPaused) = (0, true, false)
        for try await chunk in bytes.chunks {
            isRight = isRight && chunk.withUnsafeBytes { PatternBytes.matches($0, offset: total) }
            total += chunk.count
            if !hasPaused, total >= position {
                hasPaused = true
                bytes.operation.pause()
                #expect(bytes.operation.isPaused)
                bytes.operation.resume()
            }
        }
        #expect(isRight && total == Self.size)
        #expect(server.requests.count == 2)
    }

    @Test func `a retry continues after the received bytes`() async throws {
        server.servePattern(count: Self.size, at: "/x", etag: "\"v1\"") { request, response in
            request.headers["Range"] == nil ? response.resets(afterBytes: 1_000_000) : response
        }
        manager.retryPolicy = RetryPolicy()
        let (bytes, _) = try await manager.bytes(.get, "x")
        var (total, isRight) = (0, true)
        for try await chunk in bytes.chunks {
            isRight = isRight && chunk.withUnsafeBytes { PatternBytes.matches($0, offset: total) }
            total += chunk.count
        }
        #expect(isRight && total == Self.size)
        #expect(bytes.operation.retryCount == 1)
    }

    @Test(arguments: [true, false])
    func `a body that can only start over fails if bytes have been read`(isPaused: Bool) async throws {
        server.servePattern(count: Self.size, at: "/x", ranges: .ignored) { request, response in
            isPaused ? response.stalls(afterBytes: Self.size - 1) : response.resets(afterBytes: 1_000_000)
        }
        manager.retryPolicy = RetryPolicy()
        let (bytes, _) = try await manager.bytes(.get, "x")
        var (total, isRight) = (0, true)
        let error = await #expect(throws: URLError.self) {
            for try await chunk in bytes.chunks {
                isRight = isRight && chunk.withUnsafeBytes { PatternBytes.matches($0, offset: total) }
                if isPaused, total == 0 {
                    bytes.operation.pause()
                    bytes.operation.resume()
                }
                total += chunk.count
            }
        }
        #expect(isRight && total > 0 && total < Self.size)
        #expect(error?.code == .resourceUnavailable)
        #expect(error?.userInfo[NSUnderlyingErrorKey] as? ResponseBytesError == .cannotStartOver)
        // No further request is sent.
        #expect(server.requests.count == 2)
    }

    @Test func `unread bytes may be fetched again from the start`() async throws {
        let gate = TestServer.Gate()
        server.route(
            "GET", "/x", inTurn: [.pattern(count: 50_000).heldBody(by: gate, afterBytes: 20_000), .pattern(count: 50_000)])
        let (bytes, _) = try await manager.bytes(.get, "x")
        try await waitUntil("bytes") { bytes.operation.transferProgress.bytesReceived == 20_000 }
        bytes.operation.pause()
        bytes.operation.resume()
        try await waitUntil("the end") { bytes.operation.isFinished }
        var data = Data()
        for try await chunk in bytes.chunks { data += chunk }
        gate.open()
        #expect(data == PatternBytes.data(count: 50_000))
    }

    @Test func `a failure before the first byte is retried`() async throws {
        server.route("GET", "/x", inTurn: [.text("later", status: 503), .text("now")])
        var policy = RetryPolicy()
        policy.initialDelay = 0.01
        manager.retryPolicy = policy
        let (bytes, response) = try await manager.bytes(.get, "x")
        #expect(response.statusCode == 200)
        var lines: [String] = []
        for try await line in bytes.lines { lines.append(line) }
        #expect(lines == ["now"])
    }

    @Test func `a paused stream that is not read can be cancelled`() async throws {
        let sender = try EndlessSender()
        defer { sender.stop() }
        let (bytes, _) = try await manager.bytes(.get, try #require(sender.url))
        try await waitUntil("full buffers") { sender.isStuck() }
        bytes.operation.pause()
        try await waitUntil("the connection to end") { !sender.progress.ends.isEmpty }
        bytes.operation.cancel()
        await #expect(throws: URLError.self) { for try await _ in bytes {} }
        #expect(bytes.operation.isFinished)
    }
}
