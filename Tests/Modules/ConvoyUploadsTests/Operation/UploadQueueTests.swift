import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// Uploads in a queue that survives the process.
struct UploadQueueTests {
    private func manager() -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager()
        manager.completionQueue = .global()
        return manager
    }

    @Test func `an interrupted upload resumes in the next queue`() async throws {
        let fixture = try UploadFixture(200_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            isBroken.withLock { $0 } && request.number("upload-offset") ?? 0 >= 100_000 ? .stall : nil
        }
        let folder = fixture.directory.file("queue")
        var request = UploadRequest(URLRequest(url: server.url()), file: fixture.file)
        request.uploadProtocol = .tus
        request.chunkLength = 50_000
        request.tag = "film"
        do {
            let queue = try DownloadQueue(directory: folder, manager: manager())
            queue.start()
            try await queue.enqueue([request])
            while !server.state.withLock({ $0.requests.contains { $0.number("upload-offset") == 100_000 } }) {
                await Task.yield()
            }
            await queue.close()
        }
        isBroken.withLock { $0 = false }
        let queue = try DownloadQueue(directory: folder, manager: manager())
        let entry = try #require(queue.entries.first)
        #expect(entry.kind == .upload && entry.tag == "film" && entry.file == fixture.file.standardizedFileURL)
        #expect(entry.id == request.id)
        queue.start()
        try eventually { queue.entries.first?.state == .finished }
        let state = server.state.withLock { $0 }
        #expect(state.uploads.count == 1 && state.uploads.values.first?.data == fixture.bytes && state.received == 200_000)
        #expect(queue.entries.first?.bytesCompleted == 200_000 && fixture.journals.isEmpty)
        await queue.close()
    }

    @Test func `a cancelled entry leaves no journal`() async throws {
        let fixture = try UploadFixture(200_000)
        let server = try UploadServer { request, _ in request.number("upload-offset") ?? 0 >= 100_000 ? .stall : nil }
        var request = UploadRequest(URLRequest(url: server.url()), file: fixture.file)
        request.uploadProtocol = .tus
        request.chunkLength = 50_000
        let queue = try DownloadQueue(directory: fixture.directory.file("queue"), manager: manager())
        queue.start()
        try await queue.enqueue([request])
        while !server.state.withLock({ $0.requests.contains { $0.number("upload-offset") == 100_000 } }) {
            await Task.yield()
        }
        try queue.cancel(request.id)
        try eventually { fixture.journals.isEmpty }
        #expect(queue.entries.isEmpty)
        await queue.close()
    }
}
