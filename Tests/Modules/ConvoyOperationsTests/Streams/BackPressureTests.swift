import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that slow readers slow the sender down without using additional memory.
@Suite(.serialized, .timeLimit(.minutes(2))) struct BackPressureTests {
    /// Returns the memory allocated beyond `before`, in bytes.
    private func growth(since before: Int) -> Int { ProcessMeters.allocatedBytes - before }

    @Test func `a slow reader of an endless response buffers less than 1 MiB, and the sender waits`() async throws {
        let sender = try EndlessSender()
        defer { sender.stop() }
        let manager = HTTPRequestOperationManager(baseURL: sender.url, completionQueue: testQueue)
        let before = ProcessMeters.allocatedBytes
        let (bytes, _) = try await manager.bytes(.get, "lines")
        var (count, most) = (0, 0)
        // Bytes that arrive after the reader has gone are not stored, and do not count.
        var received: Int64 = 0
        var (sent, isStuck) = (0, false)
        let began = ContinuousClock.now
        for try await line in bytes.lines {
            #expect(line.utf8.count == EndlessSender.lineLength - 1)
            count += 1
            most = max(most, growth(since: before))
            received = bytes.operation.transferProgress.bytesReceived
            try await Task.sleep(for: .milliseconds(100))
            // On a busy machine the sender takes longer to fill the buffers up to the reader.
            let elapsed = ContinuousClock.now - began
            isStuck = sender.isStuck()
            sent = sender.progress.sent
            if elapsed > .seconds(2), isStuck || elapsed > .seconds(60) { break }
        }
        #expect(isStuck)
        print("\(count) lines; the kernel took \(sent) bytes; at most \(most) bytes were allocated")
        // The remaining bytes are in the kernel.
        if before > 0 { #expect(most < 1 << 20) }
        #expect(received > 0 && received < 1 << 20)
        #expect(sent < 32 << 20)
    }

    @Test func `a transfer that waited for its reader continues to its end`() async throws {
        let server = try TestServer()
        server.route("GET", "/x", .pattern(count: 40 << 20))
        let manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        let (bytes, _) = try await manager.bytes(.get, "x", timeout: .idle(0.5))
        var (total, isRight) = (0, true)
        for try await chunk in bytes.chunks {
            // Wait once for longer than the idle timeout, and then briefly from time to time.
            if total == 0 { try await Task.sleep(for: .seconds(1)) }
            if total % (3 << 20) < chunk.count { try await Task.sleep(for: .milliseconds(5)) }
            isRight = isRight && chunk.withUnsafeBytes { PatternBytes.matches($0, offset: total) }
            total += chunk.count
        }
        #expect(isRight && total == 40 << 20)
    }

    @Test(.enabled(if: Nginx.isInstalled, "\(Nginx.installHint)"))
    func `over HTTP/2, a server whose stream is not read sends no more than the window`() async throws {
        let sender = try EndlessSender()
        let nginx = try Nginx(forwardingTo: sender.port)
        defer {
            nginx.stop()
            sender.stop()
        }
        let manager = HTTPRequestOperationManager(baseURL: nginx.secureURL, completionQueue: testQueue)
        manager.connectionConfiguration.certificateAuthorities = nginx.certificateAuthority
        let before = ProcessMeters.allocatedBytes
        let (bytes, response) = try await manager.bytes(.get, "forward/lines")
        #expect(response.value(forHTTPHeaderField: "X-Server-Protocol") == "HTTP/2.0")
        try await waitUntil("full buffers") { sender.isStuck() }
        let (sent, held) = (sender.progress.sent, growth(since: before))
        print("HTTP/2: \(sent) bytes were sent, \(held) bytes are allocated, of them \(bytes.operation.transferProgress)")
        #expect(bytes.operation.transferProgress.bytesReceived < 1 << 20)
        if before > 0 { #expect(held < 34 << 20) }
        // The limit covers the window, plus the buffers of two pairs of sockets.
        #expect(sent < 64 << 20)
        // Another request over the same connection is not blocked, and the reader continues.
        let small: String = try await manager.get("small")
        #expect(small == "hello world")
        try await waitUntil("full buffers") { sender.isStuck() }
        let (alsoSent, alsoHeld) = (sender.progress.sent, growth(since: before))
        print("HTTP/2, beside another request: \(alsoSent) bytes were sent, \(alsoHeld) bytes are allocated")
        if before > 0 { #expect(alsoHeld < 34 << 20) }
        #expect(alsoSent < 64 << 20)
        // More than has been buffered anywhere.
        var count = 0
        for try await chunk in bytes.chunks {
            count += chunk.count
            if count > alsoSent + (4 << 20) { break }
        }
        #expect(count > alsoSent + (4 << 20))
        try await waitUntil("the server to see the end") { !sender.progress.ends.isEmpty }
    }
}
