import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoySerialization

/// The body of a response as a sequence.
@Suite(.timeLimit(.minutes(2))) struct ResponseBytesTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
    }

    private func operation(_ path: String) throws -> HTTPRequestOperation { try manager.makeOperation(.get, path) }

    private func all(_ chunks: ResponseChunks) async throws -> Data {
        var data = Data()
        for try await chunk in chunks {
            #expect(!chunk.isEmpty)
            data += chunk
        }
        return data
    }

    @Test func `bytes arrive in order, after the response`() async throws {
        server.route("GET", "/x", .pattern(count: 300_000).header("X-Name", "value"))
        let (bytes, response) = try await manager.bytes(.get, "x")
        #expect(response.statusCode == 200 && response.value(forHTTPHeaderField: "X-Name") == "value")
        var read: [UInt8] = []
        for try await byte in bytes { read.append(byte) }
        #expect(Data(read) == PatternBytes.data(count: 300_000))
        #expect(bytes.operation.isFinished && bytes.operation.error == nil && bytes.operation.responseData == nil)
    }

    @Test func `chunks contain all bytes of a long body`() async throws {
        let count = 200 << 20
        server.route("GET", "/x", .pattern(count: count))
        let (bytes, _) = try await manager.bytes(.get, "x")
        var (total, isRight) = (0, true)
        for try await chunk in bytes.chunks {
            isRight = isRight && chunk.withUnsafeBytes { PatternBytes.matches($0, offset: total) }
            total += chunk.count
        }
        #expect(total == count && isRight)
    }

    @Test func `lines arrive as they are sent, before the response ends`() async throws {
        let gate = TestServer.Gate()
        server.route("GET", "/x", .bytes(Data("eins\nzwei\ndrei".utf8)).heldBody(by: gate, afterBytes: 7))
        let (bytes, _) = try await manager.bytes(.get, "x")
        var lines: [String] = []
        for try await line in bytes.lines {
            lines.append(line)
            gate.open()
        }
        #expect(lines == ["eins", "zwei", "drei"])
    }

    @Test func `a line that is too long ends the transfer`() async throws {
        server.route("GET", "/x", .bytes(Data("short\n".utf8) + Data(repeating: 0x61, count: 5000)).stalls(afterBytes: 4000))
        let (bytes, _) = try await manager.bytes(.get, "x")
        var lines: [String] = []
        await #expect(throws: ResponseBytesError.lineTooLong(limit: 1000)) {
            for try await line in bytes.lines(maximumLength: 1000) { lines.append(line) }
        }
        #expect(lines == ["short"])
        try await waitUntil("the end") { bytes.operation.isFinished }
        #expect(bytes.operation.isCancelled)
    }

    @Test func `an unacceptable status throws like the other APIs, and keeps its body`() async throws {
        server.route("GET", "/x", .json(text: #"{"reason": "gone"}"#, status: 404))
        manager.responseSerializer = JSONResponseSerializer()
        let expected = await #expect(throws: (any Error).self) { try await manager.get("x") }
        let operation = try operation("x")
        let bytes = try operation.bytes()
        let error = await #expect(throws: (any Error).self) { _ = try await bytes.response }
        #expect((error as? NSError)?.code == (expected as? NSError)?.code)
        #expect((error as? NSError)?.domain == (expected as? NSError)?.domain)
        #expect((operation.responseObject as? [String: String]) == ["reason": "gone"])
        #expect(operation.responseData == Data(#"{"reason": "gone"}"#.utf8))
        await #expect(throws: (any Error).self) { _ = try await all(bytes.chunks) }
        await #expect(throws: (any Error).self) { _ = try await manager.bytes(.get, "x") }
    }

    @Test func `reading bytes ignores the content type`() async throws {
        server.route("GET", "/x", .text("plain"))
        manager.responseSerializer = JSONResponseSerializer()
        let (bytes, _) = try await manager.bytes(.get, "x")
        #expect(try await all(bytes.chunks) == Data("plain".utf8))
    }

    @Test func `bodies arrive decoded`() async throws {
        var random = SplitMix64(seed: 1)
        let body = Data((0..<500_000).map { _ in UInt8.random(in: 0...15, using: &random) }) + Data(count: 3_000_000)
        let compressed = try #require(try Gzip.compress(body))
        server.route("GET", "/x", .bytes(compressed).header("Content-Encoding", "gzip"))
        let (bytes, _) = try await manager.bytes(.get, "x")
        #expect(try await all(bytes.chunks) == body)
    }

    @Test func `responses without a body are empty sequences`() async throws {
        server.route("GET", "/none", .status(204))
        server.route("GET", "/empty", .bytes(Data()))
        server.route("HEAD", "/head", .pattern(count: 1000))
        for (method, path) in [(HTTPMethod.get, "none"), (.get, "empty"), (.head, "head")] {
            let (bytes, response) = try await manager.bytes(method, path)
            #expect(response.statusCode == (path == "none" ? 204 : 200))
            #expect(try await all(bytes.chunks) == Data(), "\(path)")
            #expect(bytes.operation.error == nil)
        }
    }

    @Test func `the bytes can be iterated over only once`() async throws {
        server.route("GET", "/x", .bytes(Data("a\nb\n".utf8)))
        let (bytes, _) = try await manager.bytes(.get, "x")
        var iterator = bytes.lines.makeAsyncIterator()
        #expect(try await iterator.next() == "a")
        await #expect(throws: ResponseBytesError.isIterated) { for try await _ in bytes {} }
        await #expect(throws: ResponseBytesError.isIterated) { for try await _ in bytes.lines {} }
        // The first iterator is not affected.
        #expect(try await iterator.next() == "b")
        #expect(try await iterator.next() == nil)
        #expect(try await iterator.next() == nil)
        await #expect(throws: ResponseBytesError.isIterated) { for try await _ in bytes.chunks {} }
    }

    @Test
    func `a queued operation waits for its dependencies, and dependents wait for the last byte of its body`() async throws {
        server.route("GET", "/first", .text("1"))
        server.route("GET", "/second", .text("2\n3"))
        server.route("GET", "/third", .text("4"))
        let (first, second, third) = try (operation("first"), operation("second"), operation("third"))
        second.addDependency(first)
        third.addDependency(second)
        let bytes = try second.bytes()
        manager.enqueue([first, second, third])
        var lines: [String] = []
        for try await line in bytes.lines { lines.append(line) }
        try await third.finished()
        #expect(lines == ["2", "3"])
        #expect(server.requests.map(\.path) == ["/first", "/second", "/third"])
    }

    @Test func `a loop starts an operation that was not started`() async throws {
        server.route("GET", "/x", .text("a\nb"))
        let bytes = try HTTPRequestOperation(request: URLRequest(url: server.url("/x"))).bytes()
        var lines: [String] = []
        for try await line in bytes.lines { lines.append(line) }
        #expect(lines == ["a", "b"])
    }

    @Test func `bytes cannot be read after the operation has begun or if the body has another destination`() async throws {
        server.route("GET", "/x", .text("a"))
        let finished = try operation("x")
        try await finished.finished()
        #expect(throws: ResponseBytesError.hasBegun) { try finished.bytes() }
        let stored = try operation("x")
        stored.outputStream = OutputStream.toMemory()
        #expect(throws: ResponseBytesError.goesElsewhere) { try stored.bytes() }
        let read = try operation("x")
        let bytes = try read.bytes()
        #expect(throws: ResponseBytesError.goesElsewhere) { try read.bytes() }
        #expect(try await all(bytes.chunks) == Data("a".utf8))
    }

    @Test func `a request that is read as bytes does not share a transfer`() async throws {
        server.route("GET", "/x", .pattern(count: 20_000_000))
        manager.coalescesIdenticalRequests = true
        let (bytes, _) = try await manager.bytes(.get, "x")
        let data: Data = try await manager.get("x")
        #expect(data.count == 20_000_000)
        #expect(try await all(bytes.chunks).count == 20_000_000)
    }
}
