import ConvoyOperations
import ConvoySerialization
import ConvoySession
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// Response bodies as async sequences, in sessions.
@Suite(.timeLimit(.minutes(2))) struct SessionBytesTests {
    @Test func `a session reads bytes like a manager, with its handlers and its tasks`() async throws {
        let fixture = try SessionFixture()
        fixture.server.route("GET", "/x", .pattern(count: 3_000_000))
        let count = Atomic(0)
        fixture.manager.dataTaskDidReceiveDataHandler = { _, data in count.wrappingAdd(data.count, ordering: .relaxed) }
        let (bytes, response) = try await fixture.manager.bytes(.get, "x")
        #expect(response.statusCode == 200)
        #expect(fixture.manager.tasks.count == 1)
        var data = Data()
        for try await chunk in bytes.chunks { data += chunk }
        #expect(data == PatternBytes.data(count: 3_000_000))
        try await waitUntil("the handlers") { count.load(ordering: .relaxed) == 3_000_000 }
    }

    @Test func `leaving the loop cancels the task`() async throws {
        let fixture = try SessionFixture()
        fixture.server.route("GET", "/x", .bytes(Data("a\nb\nc".utf8)).stalls(afterBytes: 3))
        let (bytes, _) = try await fixture.manager.bytes(.get, "x")
        for try await line in bytes.lines {
            #expect(line == "a")
            break
        }
        try await waitUntil("the end") { bytes.operation.isFinished }
        #expect(bytes.operation.isCancelled)
        try await waitUntil("the task to be released") { fixture.manager.tasks.isEmpty }
    }

    @Test func `a session uploads a sequence`() async throws {
        let fixture = try SessionFixture()
        fixture.server.route("POST", "/x", .json(text: "[1]"))
        let pieces = AsyncStream<Data> { continuation in
            for piece in ["a", "b", "c"] { continuation.yield(Data(piece.utf8)) }
            continuation.finish()
        }
        let numbers: [Int] = try await fixture.manager.upload("x", from: .sequence(pieces, length: 3))
        #expect(numbers == [1])
        #expect(fixture.server.requests.first?.text == "abc")
    }
}
