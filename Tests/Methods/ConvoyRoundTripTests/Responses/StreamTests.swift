import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Slow and partial responses.
@Suite(.needsHttpbin) struct StreamTests {
    let manager: HTTPRequestOperationManager

    init() throws { manager = try Shared.manager() }

    /// Returns the content of `/range/COUNT`.
    static func alphabet(_ range: Range<Int>) -> Data { Data(range.map { UInt8(ascii: "a") + UInt8($0 % 26) }) }

    @Test func `a stream of JSON lines has the requested number of documents`() async throws {
        let operation = try await manager.send(.get, "stream/20") { $0.responseSerializer = StringResponseSerializer() }
        let text = try #require(operation.responseObject as? String)
        struct Line: Decodable { var id: Int, url: String }
        let lines = try text.split(separator: "\n").map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
        #expect(lines.map(\.id) == Array(0..<20))
        #expect(operation.response?.value(forHTTPHeaderField: "Transfer-Encoding") == "chunked")
        // Several lines of JSON are not one valid JSON document.
        #expect(try await manager.failure(.get, "stream/2").error != nil)
    }

    @Test func `a stream of bytes is the same for the same seed`() async throws {
        manager.responseSerializer = HTTPResponseSerializer()
        let one = try await manager.response(.get, "stream-bytes/50000?seed=1&chunk_size=777")
        let bytes = try await manager.response(.get, "stream-bytes/50000?seed=1&chunk_size=50000")
        #expect(one.responseData?.count == 50_000 && one.responseData == bytes.responseData)
    }

    @Test func `a request whose response is delayed beyond the timeout fails`() async throws {
        var serializer = HTTPRequestSerializer()
        serializer.timeoutInterval = 0.5
        manager.requestSerializer = serializer
        let start = DispatchTime.now()
        let (operation, error) = try await manager.failure(.get, "delay/3")
        #expect((error as? URLError)?.code == .timedOut && operation.response == nil)
        #expect(secondsSince(start) >= 0.45)
    }

    @Test func `a request whose response is delayed by less than the timeout succeeds`() async throws {
        var serializer = HTTPRequestSerializer()
        serializer.timeoutInterval = 30
        manager.requestSerializer = serializer
        let start = DispatchTime.now()
        let echo: Echo = try await manager.post("delay/1", parameters: ["a": "b"])
        #expect(echo.form == ["a": "b"])
        #expect(secondsSince(start) >= 1)
    }

    @Test func `concurrent delays each get their own response`() async throws {
        let manager = manager
        let answers = try await withThrowingTaskGroup(of: (Int, String?).self) { group in
            for number in 0..<8 {
                group.addTask {
                    let echo: Echo = try await manager.get("delay/0.3", parameters: ["number": number])
                    return (number, echo.args["number"]?.text)
                }
            }
            return try await group.reduce(into: [Int: String]()) { $0[$1.0] = $1.1 }
        }
        #expect(answers == Dictionary(uniqueKeysWithValues: (0..<8).map { ($0, "\($0)") }))
    }

    @Test func `a slow body is received completely even if it takes longer than the timeout`() async throws {
        var serializer = HTTPRequestSerializer()
        serializer.timeoutInterval = 2
        manager.requestSerializer = serializer
        manager.responseSerializer = HTTPResponseSerializer()
        let start = DispatchTime.now()
        let operation = try await manager.response(.get, "drip?numbytes=10&duration=3")
        #expect(operation.responseData == Data(repeating: UInt8(ascii: "*"), count: 10))
        // There are ten pauses of 0.3 s, and the last one may follow the last byte.
        #expect(secondsSince(start) >= 2.7)
    }

    @Test func `a slow body starts after its delay, with its status`() async throws {
        let start = DispatchTime.now()
        let (operation, error) = try await manager.failure(.get, "drip?numbytes=5&duration=0.1&delay=0.5&code=503")
        #expect(operation.statusCode == 503 && (error as NSError?)?.code == NSURLErrorBadServerResponse)
        #expect(operation.responseString == "*****")
        #expect(secondsSince(start) >= 0.45)
    }

    @Test func `a range request returns the requested part`() async throws {
        manager.responseSerializer = HTTPResponseSerializer()
        let part = try await manager.send(.get, "range/1000", headers: ["Range": "bytes=100-199"])
        #expect(part.statusCode == 206 && part.responseData == Self.alphabet(100..<200))
        #expect(part.response?.value(forHTTPHeaderField: "Content-Range") == "bytes 100-199/1000")
        let end = try await manager.send(.get, "range/1000", headers: ["Range": "bytes=-10"])
        #expect(end.statusCode == 206 && end.responseData == Self.alphabet(990..<1000))
        let (refused, error) = try await manager.failure(.get, "range/1000", headers: ["Range": "bytes=1000-"])
        #expect(refused.statusCode == 416 && error != nil)
    }

    /// httpbin's ETag has no quotes and is therefore not an entity tag (RFC 9110, section 8.8.3). Two parts cannot be
    /// shown to belong together, so the engine requests the complete body again.
    @Test func `a body that is paused midway arrives complete`() async throws {
        let size = 102_400
        let operation = try manager.makeOperation(.get, "range/\(size)?duration=2&chunk_size=1024")
        operation.responseSerializer = HTTPResponseSerializer()
        let pauses = Locked(0)
        operation.downloadProgressHandler = { [unowned operation] _, total, _ in
            guard total > 10_240, total < size,
                pauses.withLock({
                    $0 += 1; return $0
                }) == 1
            else { return }
            operation.pause()
            operation.resume()
        }
        try await manager.enqueue(operation).finished()
        #expect(pauses.withLock { $0 } > 0)
        #expect(operation.statusCode == 200 && operation.responseData == Self.alphabet(0..<size))
    }

    @Test func `a manager keeps working after a transfer is cancelled midway`() async throws {
        let operation = try manager.makeOperation(.get, "drip?numbytes=100&duration=30")
        operation.responseSerializer = HTTPResponseSerializer()
        operation.downloadProgressHandler = { [unowned operation] _, _, _ in operation.cancel() }
        await #expect(throws: URLError.self) { try await manager.enqueue(operation).finished() }
        #expect((operation.error as? URLError)?.code == .cancelled)
        #expect(try await manager.response(.get, "get").statusCode == 200)
    }
}
