import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The progress of a transfer as values and as a sequence, at any time.
@Suite(.timeLimit(.minutes(2))) struct TransferProgressTests {
    let server: TestServer
    let gate = TestServer.Gate()

    init() throws { server = try TestServer() }

    private func operation(_ path: String, _ method: String = "GET") -> HTTPRequestOperation {
        var request = URLRequest(url: server.url(path))
        request.httpMethod = method
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        return operation
    }

    private func numbers(_ progress: TransferProgress) -> [Int64?] {
        [progress.bytesReceived, progress.bytesExpectedToReceive, progress.bytesSent, progress.bytesExpectedToSend]
    }

    @Test func `a Progress that is requested late includes earlier bytes`() async throws {
        defer { gate.open() }
        server.route("GET", "/late", .pattern(count: 500_000).heldBody(by: gate, afterBytes: 100_000))
        let operation = operation("/late")
        operation.start()
        try await waitUntil("the bytes") { operation.transferProgress.bytesReceived == 100_000 }
        let progress = operation.progress
        try await waitUntil("their report") { progress.completedUnitCount == 100_000 && progress.totalUnitCount == 500_000 }
    }

    @Test(arguments: [false, true])
    func `a snapshot is correct before the start and after the end`(intoStream: Bool) async throws {
        server.route("GET", "/x", .bytes(PatternBytes.data(count: 70_000)))
        let operation = operation("/x")
        if intoStream { operation.outputStream = OutputStream.toMemory() }
        #expect(numbers(operation.transferProgress) == [0, nil, 0, nil])
        #expect(operation.transferProgress.fractionCompleted == nil)
        try await operation.finished()
        #expect(numbers(operation.transferProgress) == [70_000, 70_000, 0, nil])
        #expect(operation.transferProgress.fractionCompleted == 1)
        // Created after the end, the sequence contains the last state and ends.
        var all: [TransferProgress] = []
        for await progress in operation.transferProgressUpdates { all.append(progress) }
        #expect(all.last.map(numbers) == [70_000, 70_000, 0, nil])
    }

    @Test func `a snapshot during a transfer is correct even if none was taken before`() async throws {
        server.route("GET", "/x", .bytes(PatternBytes.data(count: 100_000)).heldBody(by: gate, afterBytes: 40_000))
        let operation = operation("/x")
        async let done: Void = operation.finished()
        #expect(eventually { operation.transferProgress.bytesReceived == 40_000 })
        #expect(numbers(operation.transferProgress) == [40_000, 100_000, 0, nil])
        #expect(operation.transferProgress.fractionCompleted == 0.4)
        gate.open()
        try await done
    }

    @Test func `sent bytes are reported too, even after a failure`() async throws {
        server.route("POST", "/x", .text("no", status: 500))
        let operation = operation("/x", "POST")
        operation.prepare = { $0.httpBody = Data(count: 50_000) }
        await #expect(throws: (any Error).self) { try await operation.finished() }
        #expect(operation.transferProgress.bytesSent == 50_000 && operation.transferProgress.bytesExpectedToSend == 50_000)
        #expect(operation.transferProgress.bytesReceived == 2)
    }

    @Test func `a progress sequence that begins before the start increases to the total and ends`() async throws {
        server.route("GET", "/x", .bytes(PatternBytes.data(count: 3_000_000)))
        let operation = operation("/x")
        let updates = operation.transferProgressUpdates
        async let done: Void = operation.finished()
        var all: [TransferProgress] = []
        for await progress in updates { all.append(progress) }
        try await done
        let received = all.map(\.bytesReceived)
        #expect(received == received.sorted() && received.last == 3_000_000)
        #expect(all.last?.fractionCompleted == 1)
    }

    @Test func `a slow reader buffers only one state and then receives the last one`() async throws {
        server.route("GET", "/x", .bytes(PatternBytes.data(count: 3_000_000)))
        let operation = operation("/x")
        let updates = operation.transferProgressUpdates
        try await operation.finished()
        var all: [TransferProgress] = []
        for await progress in updates { all.append(progress) }
        #expect(all.map(\.bytesReceived) == [3_000_000])
    }

    @Test func `cancelling or releasing an operation ends its sequences`() async throws {
        let cancelled = operation("/nothing")
        let updates = cancelled.transferProgressUpdates
        cancelled.cancel()
        try? await cancelled.finished()
        for await progress in updates { #expect(progress.bytesReceived == 0) }
        let left = operation("/nothing").transferProgressUpdates
        for await progress in left { #expect(progress.bytesReceived == 0) }
    }

    @Test func `sequences that begin while the operation ends all end`() async throws {
        server.route("GET", "/x", .bytes(Data(count: 1_000)))
        for _ in 0..<300 {
            let operation = operation("/x")
            operation.start()
            await withTaskGroup(of: Int64?.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        for _ in 0..<(number * 3) { await Task.yield() }
                        var last: Int64?
                        for await progress in operation.transferProgressUpdates { last = progress.bytesReceived }
                        return last
                    }
                }
                for await last in group { #expect(last == 1_000) }
            }
        }
    }
}
