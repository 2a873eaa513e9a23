import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

struct DownloadOperationTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 3_000_000)

    init() throws { fixture = try DownloadFixture() }

    private func serve(_ data: Data, etag: String? = "\"1\"") {
        fixture.server.serve(data, at: "/file", etag: etag, lastModified: Date(timeIntervalSince1970: 1_000_000_000))
    }

    @Test func `a download leaves only the file at its destination`() async throws {
        serve(bytes)
        let download = await fixture.run(fixture.download())
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.names == ["file.bin"])
        #expect(download.outcome == .downloaded)
        #expect((download.responseObject as? URL)?.lastPathComponent == "file.bin")
        #expect(download.statusCode == 200)
        #expect(download.transferProgress.bytesReceived == Int64(bytes.count))
        let attributes = try FileManager.default.attributesOfItem(atPath: fixture.file().path)
        #expect(attributes[.modificationDate] as? Date == Date(timeIntervalSince1970: 1_000_000_000))
    }

    @Test func `an empty file is downloaded`() async {
        serve(Data())
        let download = await fixture.run(fixture.download())
        #expect(download.error == nil)
        #expect(fixture.contents() == Data())
        #expect(fixture.names == ["file.bin"])
    }

    @Test(arguments: [1, 2, 4, 7]) func `segments are combined into the complete file`(count: Int) async {
        // With unlimited bandwidth, the first connection could fetch everything before the others are open.
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.bandwidth(bytesPerSecond: 6 << 20)
        }
        let download = await fixture.run(
            fixture.download {
                $0.segmentCount = count
                $0.minimumSegmentLength = 100_000
            })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.names == ["file.bin"])
        #expect(fixture.server.requests("/file").count >= count)
    }

    @Test func `a later download resumes an interrupted one`() async {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 2_000_000) : response
        }
        let first = await fixture.run(fixture.download())
        #expect((first.error as? URLError)?.code == .networkConnectionLost)
        #expect(fixture.names == ["file.bin.convoyjournal", "file.bin.convoypart"])
        let second = await fixture.run(fixture.download())
        #expect(second.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.names == ["file.bin"])
        #expect(fixture.server.requests("/file").last?.headers["Range"] == "bytes=2000000-")
    }

    @Test func `an interrupted download with the longest possible file name is resumed`() async throws {
        let name = String(repeating: "n", count: 255)
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 2_000_000) : response
        }
        await fixture.run(fixture.download(to: name))
        // Later versions of the library look for files with these names.
        let digest = try #require(MessageDigest.sha256(Data(name.utf8))).hexadecimalString
        let stem = "\(name.prefix(224))-\(digest.prefix(16))"
        #expect(fixture.names == ["\(stem).convoyjournal", "\(stem).convoypart"])
        let second = await fixture.run(fixture.download(to: name))
        #expect(second.error == nil)
        #expect(fixture.contents(name) == bytes)
        #expect(fixture.names == [name])
        #expect(fixture.server.requests("/file").last?.headers["Range"] == "bytes=2000000-")
    }

    @Test func `a download starts over if the file has changed`() async {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 2_000_000) }
        await fixture.run(fixture.download())
        let other = Data(bytes.reversed())
        serve(other, etag: "\"2\"")
        let second = await fixture.run(fixture.download())
        #expect(second.error == nil)
        #expect(fixture.contents() == other)
        #expect(fixture.names == ["file.bin"])
    }

    @Test func `a response that starts over keeps the stored bytes until its first byte arrives`() async {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 2_000_000) }
        await fixture.run(fixture.download())
        fixture.server.serve(bytes, at: "/file", etag: "\"2\"") { _, response in response.truncated(afterBytes: 0) }
        let second = await fixture.run(fixture.download())
        #expect(second.error != nil)
        serve(bytes)
        let third = await fixture.run(fixture.download())
        #expect(third.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.server.requests("/file").last?.headers["Range"] == "bytes=2000000-")
    }

    @Test func `a paused download resumes`() async throws {
        let gate = TestServer.Gate()
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 1_500_000) : response
        }
        let download = fixture.download()
        fixture.queue.addOperation(download)
        for await progress in download.transferProgressUpdates where progress.bytesReceived >= 1_500_000 { break }
        download.pause()
        #expect(download.isPaused)
        download.resume()
        try await download.finished()
        gate.open()
        #expect(fixture.contents() == bytes)
        #expect(fixture.names == ["file.bin"])
        // As with other operations, the response is that of the complete file.
        #expect(download.statusCode == 200)
    }

    @Test func `a later download resumes a cancelled one`() async throws {
        let gate = TestServer.Gate()
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 1_500_000) : response
        }
        let download = fixture.download()
        fixture.queue.addOperation(download)
        for await progress in download.transferProgressUpdates where progress.bytesReceived >= 1_500_000 { break }
        download.cancel()
        try? await download.finished()
        gate.open()
        #expect((download.error as? URLError)?.code == .cancelled)
        #expect(fixture.names == ["file.bin.convoyjournal", "file.bin.convoypart"])
        let second = await fixture.run(fixture.download())
        #expect(second.error == nil)
        #expect(fixture.contents() == bytes)
    }

    @Test func `cancelling during verification stops reading the file`() async throws {
        serve(bytes)
        let download = fixture.download()
        download.checksum = try Checksum(.sha256, hexadecimal: String(repeating: "0", count: 64))
        let real = download.fileCalls
        let reads = Locked(0)
        download.fileCalls.readAt = { [weak download] descriptor, bytes, offset in
            let number = reads.withLock { reads in
                reads += 1
                return reads
            }
            if number == 1 { download?.cancel() }
            return real.readAt(descriptor, bytes, offset)
        }
        await fixture.run(download)
        #expect((download.error as? URLError)?.code == .cancelled)
        #expect(reads.withLock { $0 } == 1)
    }

    /// Cancels a resumed download before it has requested the remaining bytes.
    private final class CancellingDelegate: OperationDelegate {
        func interests(in operation: URLConnectionOperation) -> OperationInterests { .progress }

        func operation(
            _ operation: URLConnectionOperation, willFollow request: URLRequest, after response: HTTPURLResponse?,
            decide: @escaping @Sendable (URLRequest?) -> Void
        ) { decide(request) }

        func operation(
            _ operation: URLConnectionOperation, didReceive challenge: AuthenticationChallenge,
            answer: @escaping @Sendable (AuthenticationDisposition) -> Void
        ) { answer(.performDefaultHandling) }

        func operation(_ operation: URLConnectionOperation, didResumeAt offset: Int64, expected: Int64?) {
            operation.cancel()
        }
    }

    @Test func `a download cancelled before its first request sends nothing`() async {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 2_000_000) }
        await fixture.run(fixture.download())
        fixture.server.forgetRequests()
        let second = await fixture.run(fixture.download { $0.setDelegate(CancellingDelegate()) })
        #expect((second.error as? URLError)?.code == .cancelled)
        #expect(fixture.server.requests.isEmpty)
        #expect(fixture.names == ["file.bin.convoyjournal", "file.bin.convoypart"])
    }

    @Test func `an error response leaves no files`() async {
        fixture.server.route("/file", .text("not here", status: 404))
        let download = await fixture.run(fixture.download())
        #expect(download.statusCode == 404)
        #expect(download.error != nil)
        #expect(download.responseString == "not here")
        #expect(fixture.names == [])
    }

    @Test func `a response with an unacceptable content type leaves no files`() async {
        fixture.server.route("/file", .bytes(Data("<html>".utf8), type: "text/html"))
        let download = await fixture.run(
            fixture.download { $0.responseSerializer.http.acceptableContentTypes = ["application/zip"] })
        #expect(download.error != nil)
        #expect(fixture.names == [])
    }

    @Test func `a second download to the same file is rejected`() async throws {
        let gate = TestServer.Gate()
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in
            response.heldBody(by: gate, afterBytes: 1_000_000)
        }
        let first = fixture.download()
        fixture.queue.addOperation(first)
        for await progress in first.transferProgressUpdates where progress.bytesReceived >= 1_000_000 { break }
        let second = await fixture.run(fixture.download())
        #expect((second.error as? DownloadError)?.reason == .inUse(fixture.file()))
        gate.open()
        try await first.finished()
        #expect(fixture.contents() == bytes)
    }

    @Test func `a download to an existing file fails before anything is sent`() async throws {
        serve(bytes)
        try Data("old".utf8).write(to: fixture.file())
        let download = await fixture.run(fixture.download())
        #expect((download.error as? DownloadError)?.reason == .fileExists(fixture.file()))
        #expect(fixture.server.requests.isEmpty)
        #expect(fixture.contents() == Data("old".utf8))
    }

    @Test func `an existing file is skipped without a request`() async throws {
        serve(bytes)
        try Data("old".utf8).write(to: fixture.file())
        let download = await fixture.run(fixture.download { $0.existingFilePolicy = .skip })
        #expect(download.error == nil)
        #expect(download.outcome == .skipped)
        #expect(fixture.server.requests.isEmpty)
    }

    @Test func `an existing file is replaced only when the new one is complete`() async throws {
        try Data("old".utf8).write(to: fixture.file())
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 2_000_000) }
        await fixture.run(fixture.download { $0.existingFilePolicy = .replace })
        #expect(fixture.contents() == Data("old".utf8))
        serve(bytes)
        let second = await fixture.run(fixture.download { $0.existingFilePolicy = .replace })
        #expect(second.error == nil)
        #expect(fixture.contents() == bytes)
    }

    @Test func `an unchanged file is not downloaded again`() async {
        serve(bytes)
        let first = await fixture.run(fixture.download { $0.existingFilePolicy = .revalidate })
        #expect(first.outcome == .downloaded)
        let second = await fixture.run(fixture.download { $0.existingFilePolicy = .revalidate })
        #expect(second.error == nil)
        #expect(second.outcome == .notModified)
        let request = fixture.server.requests("/file").last
        #expect(request?.headers["If-Modified-Since"] != nil)
        serve(Data(bytes.reversed()), etag: "\"2\"")
        #expect(fixture.names == ["file.bin"])
    }

    @Test func `a checksum mismatch leaves the old file unchanged`() async throws {
        serve(bytes)
        try Data("old".utf8).write(to: fixture.file())
        let expected = try Checksum(.sha256, hexadecimal: String(repeating: "0", count: 64))
        let download = await fixture.run(
            fixture.download {
                $0.existingFilePolicy = .replace
                $0.checksum = expected
            })
        guard case .checksumMismatch(expected, _) = (download.error as? DownloadError)?.reason else {
            Issue.record("\(String(describing: download.error))")
            return
        }
        #expect(fixture.contents() == Data("old".utf8))
        #expect(fixture.names == ["file.bin"])
    }

    @Test func `a segmented download with a matching checksum succeeds`() async throws {
        serve(bytes)
        let digest = MessageDigest(.sha512)
        digest.update(bytes)
        let expected = try #require(Checksum(of: digest))
        let download = await fixture.run(
            fixture.download {
                $0.segmentCount = 3
                $0.minimumSegmentLength = 100_000
                $0.checksum = expected
            })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
    }
}
