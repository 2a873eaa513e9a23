import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyUploads
import Foundation
import FoundationNetworking
import Testing

/// Uploads in a queue shared by processes.
struct SharedUploadTests {
    @Test(arguments: StoreKind.available) func `a worker uploads a file`(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let server = try TestServer()
        server.route("PUT", "/place", .text("taken", status: 201))
        let file = test.directory.file("film.bin")
        let bytes = Data(repeating: 7, count: 100_000)
        try bytes.write(to: file)
        var upload = UploadRequest(URLRequest(url: server.url("/place")), file: file)
        upload.uploadProtocol = .plain
        let id = try await queue.enqueue(SharedRequest(upload))
        #expect(try await queue.entry(id).kind == .upload)
        var kept = SharedRequest(upload)
        kept.responseBody = .entry()
        await #expect(throws: SharedQueueError.self) { try await queue.enqueue(kept) }

        let worker = SharedQueueWorker(queue: queue, manager: HTTPRequestOperationManager(completionQueue: .global()))
        async let running: Void = worker.run()
        try await waitUntil("the entry to end") { try await queue.entry(id).state == .done }
        worker.stop()
        try await running
        #expect(server.requests.map(\.body) == [bytes])
        #expect(try await queue.entry(id).size == 100_000)
    }
}
