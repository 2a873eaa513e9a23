import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDownloads

/// Slow writes.
struct DownloadWriteTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 300_000)

    init() throws { fixture = try DownloadFixture() }

    @Test func `a download does not finish before a running write has ended`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 200_000) }
        await fixture.run(fixture.download())
        // The replacement of an older version is written on a worker.
        fixture.server.serve(bytes, at: "/file", etag: "\"2\"")
        let (begun, isAllowed) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        defer { isAllowed.signal() }
        let isFirst = Locked(true)
        let download = fixture.download { download in
            let write = download.fileCalls.writeAt
            download.fileCalls.writeAt = { descriptor, bytes, offset in
                if isFirst.withLock({ isFirst in
                    defer { isFirst = false }; return isFirst
                }) {
                    begun.signal()
                    isAllowed.wait()
                }
                return write(descriptor, bytes, offset)
            }
        }
        fixture.queue.addOperation(download)
        try await waitUntil("a write") { begun.wait(timeout: .now()) == .success }
        download.cancel()
        try await waitUntil(timeout: 10, "the end of the part") {
            download.download.withLock { $0 }?.state.withLock { !$0.endedWhileWriting.isEmpty } ?? false
        }
        #expect(!download.isFinished)
        isAllowed.signal()
        try? await download.finished()
        #expect((download.error as? URLError)?.code == .cancelled)
    }
}
