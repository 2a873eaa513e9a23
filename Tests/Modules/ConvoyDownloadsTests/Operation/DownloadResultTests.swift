import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDownloads

/// The results of a download: the checksums of its file, and its first request.
@Suite struct DownloadResultTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 5 << 20)

    init() throws { fixture = try DownloadFixture() }

    // MARK: The destination

    /// Returns a download that delays the renaming of its file until the semaphore is signalled.
    private func held() async -> (download: DownloadOperation, goesOn: DispatchSemaphore) {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let commits = DispatchSemaphore(value: 0)
        let goesOn = DispatchSemaphore(value: 0)
        let download = DownloadOperation(
            request: URLRequest(url: fixture.server.url("/file")), destination: fixture.file())
        download.completionQueue = .global()
        download.commitCheck = { _, _ in
            commits.signal()
            Self.wait(for: goesOn)
        }
        fixture.queue.addOperation(download)
        await Task.detached { Self.wait(for: commits) }.value
        return (download, goesOn)
    }

    private static func wait(for semaphore: DispatchSemaphore) { _ = semaphore.wait(timeout: .now() + 60) }

    @Test func `a download cancelled while its file is being renamed succeeds`() async throws {
        let (download, goesOn) = await held()
        download.cancel()
        #expect(!download.isFinished && !download.isCancelled)
        goesOn.signal()
        try await download.finished()
        #expect(download.error == nil && !download.isCancelled && download.outcome == .downloaded)
        #expect(fixture.contents() == bytes && fixture.names == ["file.bin"])
    }

    @Test func `a cancelled download does not wait long for the renaming of its file`()
        async throws
    {
        let (download, goesOn) = await held()
        download.cancel()
        await #expect(throws: URLError.self) { try await download.finished() }
        #expect(download.isCancelled && (download.error as? URLError)?.code == .cancelled)
        #expect(!fixture.names.contains("file.bin"))
        goesOn.signal()
        try await waitUntil("the file") { fixture.names == ["file.bin"] }
        #expect(fixture.contents() == bytes)
    }

    // MARK: Checksums

    @Test(arguments: [1, 4])
    func `computed checksums are those of the complete file`(_ segments: Int) async {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let download = await fixture.run(
            fixture.download {
                $0.computedChecksumAlgorithms = [.sha256, .md5]
                $0.segmentCount = segments
            })
        #expect(download.error == nil)
        #expect(Set(download.computedChecksums.map(\.algorithm)) == [.sha256, .md5])
        let sha256 = download.computedChecksums.first { $0.algorithm == .sha256 }
        #expect(sha256?.hexadecimal == MessageDigest.sha256(bytes)?.hexadecimalString)
    }

    @Test func `computing checksums does not hide a mismatch of the expected one`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let wrong = try Checksum(parsing: "md5=\(String(repeating: "0", count: 32))")
        let download = await fixture.run(
            fixture.download {
                $0.checksum = wrong
                $0.computedChecksumAlgorithms = [.sha256]
            })
        guard case .checksumMismatch = (download.error as? DownloadError)?.reason else {
            Issue.record("\(String(describing: download.error))")
            return
        }
        #expect(download.computedChecksums.isEmpty)
    }

    @Test func `a skipped file has no computed checksums`() async throws {
        try Data("old".utf8).write(to: fixture.file())
        let download = await fixture.run(
            fixture.download {
                $0.existingFilePolicy = .skip
                $0.computedChecksumAlgorithms = [.sha256]
            })
        #expect(download.outcome == .skipped)
        #expect(download.computedChecksums.isEmpty)
    }

    @Test func `a download fails if no source sends the correct pieces`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let wrong = try Checksum(parsing: "sha-256=\(String(repeating: "0", count: 64))")
        let download = await fixture.run(
            fixture.download { $0.pieceChecksums = PieceChecksums(length: 5 << 20, checksums: [wrong]) })
        #expect((download.error as? DownloadError)?.reason == .piecesMismatch)
        #expect(fixture.names.isEmpty)
    }

    // MARK: The first request

    @Test func `firstRequest() requests a new file completely and creates no files`() throws {
        let request = try #require(try fixture.download().firstRequest())
        #expect(request.value(forHTTPHeaderField: "Range") == nil)
        #expect(request.value(forHTTPHeaderField: "Accept-Encoding") == "identity")
        #expect(fixture.names.isEmpty && fixture.server.requests.isEmpty)
    }

    @Test func `firstRequest() requests the missing bytes like the download itself`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 1_000_000) : response
        }
        await fixture.run(fixture.download())
        let before = fixture.names
        #expect(before.count == 2)
        let request = try #require(try fixture.download().firstRequest())
        #expect(fixture.names == before)
        fixture.server.forgetRequests()
        await fixture.run(fixture.download())
        let sent = try #require(fixture.server.requests.first)
        for name in ["Range", "If-Range"] {
            #expect(request.value(forHTTPHeaderField: name) == sent.headers[name] && sent.headers[name] != nil)
        }
        #expect(fixture.contents() == bytes)
    }

    @Test func `firstRequest() follows the policy for an existing file`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        await fixture.run(fixture.download { $0.existingFilePolicy = .revalidate })
        let request = try #require(try fixture.download { $0.existingFilePolicy = .revalidate }.firstRequest())
        #expect(request.value(forHTTPHeaderField: "If-None-Match") == "\"1\"")
        #expect(try fixture.download { $0.existingFilePolicy = .skip }.firstRequest() == nil)
        let error = #expect(throws: DownloadError.self) { try fixture.download().firstRequest() }
        #expect(error?.reason == .fileExists(fixture.file()))
        #expect(fixture.names == ["file.bin"])
    }
}
