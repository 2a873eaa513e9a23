import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// The effect of `throttleBandwidth(packetSize:delay:)`, which slows down one transfer only.
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

    @Test func `a throttled upload takes as long as its rate requires`() async throws {
        let operation = try upload(90_000, packetSize: 10_000, delay: 0.1)
        try await manager.enqueue(operation).finished()
        let request = try #require(server.requests.last)
        #expect(request.bodyLength > 90_000 && request.bodyLength < 100_000)
        // An eighth of a second is available at the start, and the last block may be sent on credit, so the total is
        // shorter.
        #expect(request.uploadDuration >= 0.9 - 0.125 - 0.05)
        #expect(request.body.range(of: PatternBytes.data(count: 90_000)) != nil)
    }

    @Test func `other transfers continue while an upload waits`() async throws {
        // This upload would take an hour if it were not cancelled.
        let slow = try upload(60_000, packetSize: 1_000, delay: 60)
        manager.enqueue(slow)
        _ = try await server.wait { $0.receivedBodyBytes > 0 }
        for _ in 0..<20 { try await manager.response(.get, "quick") }
        #expect(slow.isExecuting && server.requests("/upload").isEmpty)
        slow.cancel()
        await #expect(throws: URLError.self) { try await slow.finished() }
    }

    @Test func `an upload that is not throttled does not wait`() async throws {
        let operation = try upload(90_000, packetSize: 10_000, delay: 0)
        try await manager.enqueue(operation).finished()
        #expect(server.requests.last?.bodyLength ?? 0 > 90_000)
    }

    /// A user's stream with unusual values.
    private final class OddStream: InputStream, ReplayableBodyStream, ThrottledBodyStream {
        let packetSize: Int
        let delay: TimeInterval
        private let data = InputStream(data: Data(repeating: 1, count: 1_000))

        init(_ packetSize: Int, _ delay: TimeInterval) {
            (self.packetSize, self.delay) = (packetSize, delay)
            super.init(data: Data())
        }

        func replay() -> InputStream { OddStream(packetSize, delay) }
        override var streamStatus: Stream.Status { data.streamStatus }
        override var hasBytesAvailable: Bool { data.hasBytesAvailable }
        override func open() { data.open() }
        override func close() { data.close() }
        override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
            data.read(buffer, maxLength: maxLength)
        }
    }

    private func upload(_ stream: OddStream) -> HTTPRequestOperation {
        var request = URLRequest(url: server.url("/upload"))
        request.httpMethod = "POST"
        request.httpBodyStream = stream
        return manager.makeOperation(request: request)
    }

    @Test(
        arguments: [
            (100, -.infinity), (100, -1), (100, 0), (100, .nan), (0, 1), (-1, 1), (.max, 1), (1_000, 1e-300),
            (.max - 1, .leastNonzeroMagnitude),
        ] as [(Int, Double)])
    func `packet sizes and delays that define no rate do not limit an upload`(packetSize: Int, delay: Double) async throws {
        let operation = upload(OddStream(packetSize, delay))
        try await manager.enqueue(operation).finished()
        #expect(server.requests.last?.bodyLength == 1_000)
    }

    @Test func `endless delays hold an upload until it is cancelled`() async throws {
        let operation = upload(OddStream(100, .infinity))
        manager.enqueue(operation)
        while !operation.isExecuting { await Task.yield() }
        for _ in 0..<20 { try await manager.response(.get, "quick") }
        #expect(operation.isExecuting && server.requests("/upload").isEmpty)
        operation.cancel()
        await #expect(throws: URLError.self) { try await operation.finished() }
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
        #expect(request.path == "/upload" && request.uploadDuration >= 0.4 - 0.125 - 0.05)
    }
}
