import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// `throttleBandwidth(packetSize:delay:)`: the transfer pauses, and nothing else does.
@Suite
struct ThrottleTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.route("POST", "/upload", .json(text: "{}"))
        server.route("GET", "/quick", .json(text: "{}"))
        manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "Convoy.RoundTrips.Throttle")
    }

    private func upload(_ size: Int, packetSize: Int, delay: TimeInterval) throws -> HTTPRequestOperation {
        try manager.makeMultipartOperation("upload") { form in
            let data = PatternBytes.data(count: size)
            form.appendPart(fileData: data, name: "file", fileName: "file", mimeType: "application/octet-stream")
            form.throttleBandwidth(packetSize: packetSize, delay: delay)
        }
    }

    @Test func `a throttled upload takes at least its pauses`() async throws {
        let operation = try upload(90_000, packetSize: 10_000, delay: 0.1)
        try await manager.enqueue(operation).finished()
        let request = try #require(server.requests.last)
        // The parts' headers make it ten packets, with a pause between each and the next.
        #expect(request.bodyLength > 90_000 && request.bodyLength < 100_000)
        #expect(request.uploadDuration >= 9 * 0.1)
        #expect(request.body.range(of: PatternBytes.data(count: 90_000)) != nil)
    }

    @Test func `other transfers go on while an upload pauses`() async throws {
        // An hour of pauses, if nobody ended it.
        let slow = try upload(60_000, packetSize: 1_000, delay: 60)
        manager.enqueue(slow)
        _ = try await server.wait { $0.receivedBodyBytes > 0 }
        for _ in 0..<20 { try await manager.response(.get, "quick") }
        #expect(slow.isExecuting && server.requests("/upload").isEmpty)
        slow.cancel()
        await #expect(throws: URLError.self) { try await slow.finished() }
    }

    @Test func `an upload that is not throttled does not pause`() async throws {
        let operation = try upload(90_000, packetSize: 10_000, delay: 0)
        try await manager.enqueue(operation).finished()
        #expect(server.requests.last?.bodyLength ?? 0 > 90_000)
    }

    @Test func `a throttled upload that is redirected is throttled again`() async throws {
        server.redirect("/moved", to: "/upload", status: 307)
        let operation = try manager.makeMultipartOperation("moved") { form in
            let data = PatternBytes.data(count: 40_000)
            form.appendPart(fileData: data, name: "file", fileName: "file", mimeType: "application/octet-stream")
            form.throttleBandwidth(packetSize: 10_000, delay: 0.1)
        }
        try await manager.enqueue(operation).finished()
        let request = try #require(server.requests.last)
        #expect(request.path == "/upload" && request.uploadDuration >= 4 * 0.1)
    }
}
