import ConvoyDownloads
import ConvoyOperations
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

struct ManagerDownloadTests {
    private let fixture: DownloadFixture
    private let manager: HTTPRequestOperationManager
    private let bytes = PatternBytes.data(count: 300_000)

    init() throws {
        fixture = try DownloadFixture()
        manager = HTTPRequestOperationManager(baseURL: fixture.server.url("/"))
        manager.completionQueue = .global()
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
    }

    @Test func `makeDownload() resolves the URL and adds the parameters and headers`() async throws {
        let download = try manager.makeDownload(
            "file", to: fixture.file(), parameters: ["a": 1], headers: ["X-Client": "tests"])
        try await manager.enqueue(download).finished()
        #expect(fixture.contents() == bytes)
        let request = fixture.server.requests("/file").first
        #expect(request?.headers["X-Client"] == "tests")
        #expect(request?.query == "a=1")
    }

    @Test func `a download into a directory uses the file name suggested by the server`() async throws {
        fixture.server.route(
            "/named", .bytes(bytes).header("Content-Disposition", "attachment; filename=\"../evil/na\u{ef}ve.txt\""))
        let download = try manager.makeDownload("named", into: fixture.directory.url)
        try await manager.enqueue(download).finished()
        #expect(fixture.names.count == 1)
        #expect(fixture.names.first?.hasSuffix("ve.txt") == true)
        #expect(download.fileURL?.lastPathComponent == fixture.names.first)
        let again = try manager.makeDownload("named", into: fixture.directory.url)
        await #expect(throws: DownloadError.self) { try await manager.enqueue(again).finished() }
        #expect(fixture.names.count == 1)
    }

    @Test func `a batch reports the total bytes of its downloads`() async throws {
        let downloads = try (0..<5).map { try manager.makeDownload("file", to: fixture.file("\($0)")) }
        let batch = BatchOperation(of: downloads, completionQueue: .global())
        #expect(batch.transferProgress.bytesReceived == 0)
        let updates = batch.transferProgressUpdates
        manager.enqueue(downloads + [batch])
        var last: TransferProgress?
        for await progress in updates { last = progress }
        #expect(last?.bytesReceived == Int64(5 * bytes.count))
        #expect(last?.bytesExpectedToReceive == Int64(5 * bytes.count))
        #expect(last?.fractionCompleted == 1)
    }

    @Test func `the progress of a resumed download includes the stored bytes`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 200_000) : response
        }
        await fixture.run(fixture.download())
        let download = fixture.download()
        var seen: [DownloadProgress] = []
        let updates = download.downloadProgressUpdates
        fixture.queue.addOperation(download)
        for await progress in updates { seen.append(progress) }
        #expect(seen.last?.bytesReceived == Int64(bytes.count))
        #expect(seen.last?.timeRemaining == 0 || seen.last?.bytesPerSecond == nil)
        #expect(download.error == nil)
    }
}
