import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests of the default limits, and that slow bodies do not affect other transfers.
@Suite struct LimitTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = testQueue
    }

    private func expectTooLarge(_ operation: HTTPRequestOperation) async {
        await #expect(throws: (any Error).self) { try await manager.enqueue(operation).finished() }
        let error = operation.error as? URLError
        #expect(error?.code == .dataLengthExceedsMaximum)
        #expect(operation.responseData == nil)
    }

    @Test func `a body longer than the limit fails before it arrives`() async throws {
        server.servePattern(count: 10_000_000_000, at: "/huge")
        let announced = try manager.makeOperation(.get, "huge")
        announced.responseSerializer = HTTPResponseSerializer()
        await expectTooLarge(announced)
        #expect(
            (announced.error as? URLError)?.userInfo[URLResponseSerializationErrorKey.limit] as? ResponseLimitExceeded
                == .bodySize)
        // The same limit applies without a length.
        server.route("GET", "/endless", .pattern(count: 10_000_000_000).framed(.chunked))
        let silent = try manager.makeOperation(.get, "endless")
        silent.responseSerializer = HTTPResponseSerializer()
        silent.maximumBodySize = 1_000_000
        await expectTooLarge(silent)
    }

    @Test func `the serializer's limit applies while the body arrives`() async throws {
        server.route("GET", "/json", .pattern(count: 5_000_000).header("Content-Type", "application/json"))
        let operation = try manager.makeOperation(.get, "json")
        var serializer = JSONResponseSerializer()
        serializer.limits.maximumBodySize = 1_000_000
        operation.responseSerializer = serializer
        await expectTooLarge(operation)
    }

    @Test func `an error body that is too long is truncated, and its status is the error`() async throws {
        server.route("GET", "/broken", .pattern(count: 1_000_000).status(500))
        let directory = try TemporaryDirectory()
        let operation = try manager.makeOperation(.get, "broken")
        operation.outputStream = FileOutputStream(fileURL: directory.file("out"))
        operation.maximumBodySize = 1_000
        await #expect(throws: HTTPError.self) { try await manager.enqueue(operation).finished() }
        #expect(operation.statusCode == 500 && operation.responseData?.count == 1_000)
        #expect((operation.error as? HTTPError)?.statusCode == 500)
    }

    @Test func `a body written to a file is not limited`() async throws {
        server.servePattern(count: 5_000_000, at: "/file")
        let directory = try TemporaryDirectory()
        let operation = try manager.makeOperation(.get, "file")
        operation.responseSerializer = HTTPResponseSerializer()
        operation.outputStream = FileOutputStream(fileURL: directory.file("out"))
        operation.maximumBodySize = 1_000
        try await manager.enqueue(operation).finished()
        #expect(try Data(contentsOf: directory.file("out")).count == 5_000_000)
    }

    @Test func `a decompression bomb fails while it is being decoded`() async throws {
        let bomb = try gzip(Data(count: 64 << 20))
        #expect(bomb.count < 100_000)
        server.route("GET", "/bomb", .bytes(bomb, type: "text/plain").header("Content-Encoding", "gzip"))
        let operation = try manager.makeOperation(.get, "bomb")
        operation.responseSerializer = HTTPResponseSerializer()
        await expectTooLarge(operation)
        let raised = try manager.makeOperation(.get, "bomb")
        raised.responseSerializer = HTTPResponseSerializer()
        raised.connectionConfiguration.maximumExpansion = nil
        try await manager.enqueue(raised).finished()
        #expect(raised.responseData?.count == 64 << 20)
    }

    /// Compresses data with the gzip program rather than with Convoy's code.
    private func gzip(_ data: Data) throws -> Data {
        let result = try ProcessRunner.run("/bin/gzip", ["-9", "-c"], input: data)
        return result.output
    }

    @Test func `a throttled form delays no other transfer`() throws {
        server.route("POST", "/form", .text("taken"))
        server.route("GET", "/quick", .text("quick"))
        let slow = try manager.makeMultipartOperation("form") { form in
            form.appendPart(
                fileData: Data(count: 5_000), name: "file", fileName: "f", mimeType: "application/octet-stream")
            form.throttleBandwidth(packetSize: 1_000, delay: 0.5)
        }
        slow.responseSerializer = HTTPResponseSerializer()
        let done = DispatchSemaphore(value: 0)
        slow.whenDelivered { done.signal() }
        manager.enqueue(slow)
        for _ in 0..<20 {
            let quick = Probe(server.url("/quick"))
            manager.enqueue(quick.operation)
            #expect(quick.outcome() == Probe.succeeded)
        }
        #expect(done.wait(timeout: .now() + 100) == .success)
        let form = try #require(server.requests("POST", "/form").first)
        #expect(form.body.count > 5_000)
        // The duration is two and a half seconds, minus the tokens saved at the start and the credit used at the end.
        #expect(form.uploadDuration > 1.5)
        // The other requests arrived and were answered while the form was being sent.
        let end = form.arrivedAt.addingTimeInterval(form.uploadDuration)
        #expect(server.requests("GET", "/quick").allSatisfy { $0.arrivedAt < end })
    }
}
