import ConvoyDownloads
import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Downloads to full disks.
@Suite struct FullDiskTests {
    private let fixture: DownloadFixture

    init() throws { fixture = try DownloadFixture() }

    private func run(to file: URL) async -> DownloadOperation {
        let operation = DownloadOperation(request: URLRequest(url: fixture.server.url("/file")), destination: file)
        operation.completionQueue = .global()
        return await fixture.run(operation)
    }

    private static func cause(of operation: DownloadOperation) -> POSIXErrorCode? {
        let error = operation.error as? URLError
        guard error?.code == .cannotWriteToFile else { return nil }
        return (error?.userInfo[NSUnderlyingErrorKey] as? POSIXError)?.code
    }

    @Test(.needsSmallDisk) func `a file that does not fit is rejected before any byte is written`() async throws {
        let disk = try #require(try SmallDisk(bytes: 1 << 20))
        fixture.server.servePattern(count: 3 << 20, at: "/file", etag: "\"1\"")
        let file = disk.url.appendingPathComponent("file")
        let download = await run(to: file)
        guard case .notEnoughSpace(3 << 20, let available, _) = (download.error as? DownloadError)?.reason else {
            Issue.record("\(String(describing: download.error))")
            return
        }
        #expect(available <= 1 << 20)
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.url.path) == [])
    }

    @Test(.needsSmallDisk, arguments: [1, 3])
    func `a download keeps its bytes on a full disk and resumes when there is space`(segments: Int) async throws {
        let disk = try #require(try SmallDisk(bytes: 4 << 20))
        let size = 3 << 20
        let gate = TestServer.Gate()
        fixture.server.servePattern(count: size, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 2 << 20) : response
        }
        let file = disk.url.appendingPathComponent("file")
        let first = DownloadOperation(request: URLRequest(url: fixture.server.url("/file")), destination: file)
        first.completionQueue = .global()
        fixture.queue.addOperation(first)
        for await progress in first.transferProgressUpdates where progress.bytesReceived >= 2 << 20 { break }
        try disk.fill(leaving: 100_000)
        gate.open()
        try? await first.finished()
        #expect(Self.cause(of: first) == .ENOSPC, "\(String(describing: first.error))")
        #expect(!FileManager.default.fileExists(atPath: file.path))

        // The disk is still full, so the result is the same, and nothing is lost.
        let second = DownloadOperation(request: URLRequest(url: fixture.server.url("/file")), destination: file)
        second.completionQueue = .global()
        second.segmentCount = segments
        second.minimumSegmentLength = 100_000
        await fixture.run(second)
        #expect(second.error != nil)
        #expect(!FileManager.default.fileExists(atPath: file.path))

        try disk.makeRoom()
        fixture.server.forgetRequests()
        let third = await run(to: file)
        #expect(third.error == nil)
        #expect(try DownloadProgram.isPattern(file, count: size))
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.url.path) == ["file"])
        let range = fixture.server.requests.first?.headers["Range"] ?? "bytes=0-"
        let start = Int(range.dropFirst(6).prefix { $0 != "-" }) ?? 0
        #expect(start >= 2 << 20, "\(range)")
    }

    @Test(.needsSmallDisk) func `a body of unknown length that fills the disk leaves no files`() async throws {
        let disk = try #require(try SmallDisk(bytes: 1 << 20))
        fixture.server.route("/file", .pattern(count: 3 << 20).framed(.chunked))
        let download = await run(to: disk.url.appendingPathComponent("file"))
        #expect(Self.cause(of: download) == .ENOSPC)
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.url.path) == [])
    }

    @Test(arguments: [0, 100_000, 1_500_000])
    func `a download keeps its bytes at the file size limit, and resumes when the limit is raised`(limit: Int) throws {
        let size = 3_000_000
        fixture.server.servePattern(count: size, at: "/file", etag: "\"1\"")
        let said = try DownloadProgram.run(
            fixture.server.url("/file"), fixture.file(), ["--limit", "\(limit)"])
        #expect(said == ["URLError \(URLError.Code.cannotWriteToFile.rawValue) \(EFBIG)", "downloaded"])
        #expect(try DownloadProgram.isPattern(fixture.file(), count: size))
        #expect(fixture.names == ["file.bin"])
        let ranges = fixture.server.requests.map { $0.headers["Range"] }
        #expect(ranges.first == .some(nil))
        // The journal also needs space.
        if limit > 64 << 10 { #expect(ranges.last == "bytes=\(limit)-", "\(ranges)") }
    }
}
