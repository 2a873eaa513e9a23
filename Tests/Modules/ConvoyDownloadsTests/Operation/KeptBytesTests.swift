import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Tests that existing bytes are kept until a better file is complete.
struct KeptBytesTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 3_000_000)

    init() throws { fixture = try DownloadFixture() }

    private func beginFile() async {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 2_000_000) }
        await fixture.run(fixture.download())
    }

    private func expectContinuation() async {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        fixture.server.forgetRequests()
        let last = await fixture.run(fixture.download())
        #expect(last.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.server.requests("/file").first?.headers["Range"] == "bytes=2000000-")
        #expect(fixture.names == ["file.bin"])
    }

    // MARK: Replacing

    /// Responses that cannot be the resource whose download was begun, such as the login page of a network.
    enum Unrelated: CaseIterable {
        case page, longPage, shorter, pageByRedirect

        func response(_ bytes: Data) -> TestServer.Response {
            switch self {
            case .page, .pageByRedirect: .bytes(Data(repeating: 60, count: 820), type: "text/html; charset=utf-8")
            case .longPage: .bytes(Data(repeating: 60, count: 4_000_000), type: "text/html")
            case .shorter: .bytes(bytes.prefix(1_999_999), type: "application/octet-stream").header("ETag", "\"2\"")
            }
        }

        func reason(from type: String, stored: Int64) -> DownloadError.Reason {
            self == .shorter
                ? .changedLength(stored: stored, actual: 1_999_999) : .changedType(expected: type, actual: "text/html")
        }
    }

    private func serve(_ kind: Unrelated) {
        fixture.server.route("/file", kind == .pageByRedirect ? .redirect(to: "/login") : kind.response(bytes))
        fixture.server.route("/login", kind.response(bytes))
    }

    @Test(arguments: Unrelated.allCases, [1, 4])
    func `unrelated content does not replace an interrupted download`(kind: Unrelated, segments: Int) async {
        await beginFile()
        serve(kind)
        for existing in [ExistingFilePolicy.fail, .skip, .replace, .resume, .revalidate] {
            let download = await fixture.run(
                fixture.download {
                    ($0.existingFilePolicy, $0.segmentCount) = (existing, segments)
                })
            let expected = kind.reason(from: "application/octet-stream", stored: 2_000_000)
            #expect((download.error as? DownloadError)?.reason == expected, "\(String(describing: download.error))")
        }
        await expectContinuation()
    }

    @Test(arguments: Unrelated.allCases)
    func `unrelated content replaces an interrupted download if it is accepted`(kind: Unrelated) async throws {
        await beginFile()
        serve(kind)
        let download = await fixture.run(fixture.download { $0.acceptsUnrelatedContent = true })
        #expect(download.error == nil)
        let body = try #require(fixture.contents())
        #expect(body.first == (kind == .shorter ? bytes.first : 60) && body.count != 3_000_000)
    }

    @Test(arguments: Unrelated.allCases, ["file.tar.gz", "file.bin", "file"])
    func `unrelated content does not replace a file that is being resumed`(kind: Unrelated, name: String) async throws {
        let stored = bytes.prefix(2_000_000)
        try stored.write(to: fixture.file(name))
        serve(kind)
        let download = await fixture.run(fixture.download(to: name) { $0.existingFilePolicy = .resume })
        // A page that is longer than the file may be its new contents, unless its name contradicts that.
        guard name == "file.tar.gz" || kind != .longPage else {
            #expect(download.error == nil)
            return
        }
        let expected: DownloadError.Reason =
            if kind != .shorter, name != "file.tar.gz" {
                .changedLength(stored: 2_000_000, actual: 820)
            } else {
                kind.reason(from: "application/gzip", stored: 2_000_000)
            }
        #expect((download.error as? DownloadError)?.reason == expected, "\(String(describing: download.error))")
        #expect(fixture.contents(name) == stored)
    }

    @Test func `a login page does not replace a file that is being revalidated`() async throws {
        try bytes.write(to: fixture.file("file.zip"))
        serve(.page)
        let download = await fixture.run(fixture.download(to: "file.zip") { $0.existingFilePolicy = .revalidate })
        #expect(
            (download.error as? DownloadError)?.reason
                == .changedType(expected: "application/zip", actual: "text/html"))
        #expect(fixture.contents("file.zip") == bytes)
    }

    @Test func `a shorter file replaces an interrupted download if its checksum matches`() async throws {
        await beginFile()
        let digest = MessageDigest(.sha256)
        digest.update(bytes.prefix(820))
        let checksum = try #require(Checksum(of: digest))
        fixture.server.serve(bytes.prefix(820), at: "/file", etag: "\"2\"")
        let download = await fixture.run(fixture.download { $0.checksum = checksum })
        #expect(download.error == nil && download.earlierLength == 3_000_000)
        #expect(fixture.contents() == bytes.prefix(820))
    }

    @Test func `a change in the length of the server's file is reported`() async {
        await beginFile()
        fixture.server.serve(bytes.prefix(2_500_000), at: "/file", etag: "\"2\"")
        let download = await fixture.run(fixture.download())
        #expect(download.error == nil && download.earlierLength == 3_000_000)
        #expect(fixture.contents() == bytes.prefix(2_500_000))
    }

    @Test func `an unchanged length is not reported`() async {
        await beginFile()
        await expectContinuation()
        try? FileManager.default.removeItem(at: fixture.file())
        await beginFile()
        fixture.server.serve(Data(bytes.reversed()), at: "/file", etag: "\"2\"")
        let download = await fixture.run(fixture.download())
        #expect(download.error == nil && download.earlierLength == nil)
    }

    // MARK: Claiming

    @Test func `the bytes of a stalled download are claimed without another write`() async throws {
        let gate = TestServer.Gate()
        fixture.server.route(
            "/file", .pattern(count: 300_000).header("ETag", "\"1\"").heldBody(by: gate, afterBytes: 200_000))
        let download = fixture.download()
        fixture.queue.addOperation(download)
        let journal = PartialPaths(destination: fixture.file().path).journal
        try await waitUntil("a claim") {
            let text = FileManager.default.contents(atPath: journal).map { String(decoding: $0, as: UTF8.self) }
            return text?.contains("[0,200000]") == true
        }
        gate.open()
        try await download.finished()
    }

    @Test func `an interrupted replacement keeps the stored bytes`() async {
        await beginFile()
        fixture.server.serve(Data(bytes.reversed()), at: "/file", etag: "\"2\"") { _, response in
            response.truncated(afterBytes: 500_000)
        }
        let second = await fixture.run(fixture.download())
        #expect(second.error != nil)
        await expectContinuation()
    }

    @Test func `a replacement with a wrong checksum keeps the stored bytes`() async throws {
        await beginFile()
        let digest = MessageDigest(.sha256)
        digest.update(bytes)
        let checksum = try #require(Checksum(of: digest))
        fixture.server.serve(Data(bytes.prefix(800)), at: "/file", etag: "\"2\"")
        let second = await fixture.run(fixture.download { $0.checksum = checksum })
        guard case .checksumMismatch = (second.error as? DownloadError)?.reason else {
            Issue.record("\(String(describing: second.error))")
            return
        }
        await expectContinuation()
    }

    @Test(arguments: [204, 205]) func `a response without a body does not empty the file`(status: Int) async throws {
        try Data("old".utf8).write(to: fixture.file())
        fixture.server.route("/file", .status(status))
        let download = await fixture.run(fixture.download { $0.existingFilePolicy = .replace })
        #expect((download.error as? DownloadError)?.reason == .noContent(status: status))
        #expect(fixture.contents() == Data("old".utf8))
        #expect(fixture.names == ["file.bin"])
    }

    // MARK: Special files

    @Test(.timeLimit(.minutes(1))) func `a named pipe is not replaced`() async throws {
        try #require(mkfifo(fixture.file().path, 0o600) == 0)
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let download = await fixture.run(fixture.download { $0.existingFilePolicy = .replace })
        #expect((download.error as? DownloadError)?.reason == .unusableDestination(fixture.file()))
        var facts = stat()
        #expect(lstat(fixture.file().path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFIFO)
        #expect(fixture.names == ["file.bin"])
    }

    @Test func `the target of a symbolic link is replaced and keeps its permissions`() async throws {
        let folder = fixture.file("folder")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let target = folder.appendingPathComponent("target")
        try Data("old".utf8).write(to: target)
        try #require(chmod(target.path, 0o640) == 0)
        try FileManager.default.createSymbolicLink(atPath: fixture.file().path, withDestinationPath: "folder/target")
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let download = await fixture.run(fixture.download { $0.existingFilePolicy = .replace })
        #expect(download.error == nil)
        var facts = stat()
        #expect(lstat(fixture.file().path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFLNK)
        #expect(lstat(target.path, &facts) == 0 && facts.st_mode & 0o777 == 0o640)
        #expect(fixture.contents() == bytes)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["target"])
    }

    @Test(arguments: [false, true])
    func `the partial file is created beside the target of a symbolic link`(isNamedByURL: Bool) async throws {
        let folder = fixture.file("folder")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        try Data("old".utf8).write(to: folder.appendingPathComponent("target"))
        try FileManager.default.createSymbolicLink(atPath: fixture.file("file").path, withDestinationPath: "folder/target")
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 2_000_000) }
        let download = fixture.download(to: "file") {
            if isNamedByURL { $0.directory = fixture.directory.url }
            ($0.usesServerFileName, $0.existingFilePolicy) = (false, .replace)
        }
        await fixture.run(download)
        #expect((download.error as? URLError)?.code == .networkConnectionLost)
        #expect(fixture.names == ["file", "folder"])
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
                == ["target", "target.convoyjournal", "target.convoypart"])
    }

    // MARK: After a kill

    @Test func `a file renamed before the process was killed is recognized as complete`() async throws {
        var calls = FileCalls()
        calls.unlink = { _ in 0 }
        let unlucky = calls
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 2_000_000) : response
        }
        await fixture.run(fixture.download())
        await fixture.run(fixture.download { $0.fileCalls = unlucky })
        #expect(fixture.names == ["file.bin", "file.bin.convoyjournal"])
        fixture.server.forgetRequests()
        let download = await fixture.run(fixture.download())
        #expect(download.error == nil)
        #expect(download.outcome == .skipped)
        #expect(fixture.server.requests.isEmpty)
        #expect(fixture.names == ["file.bin"])
        #expect(fixture.contents() == bytes)
    }

    @Test func `a backup's hard link to the partial file does not count as another writer`() async throws {
        let gate = TestServer.Gate()
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in
            response.heldBody(by: gate, afterBytes: 1_000_000)
        }
        let first = fixture.download()
        fixture.queue.addOperation(first)
        for await progress in first.transferProgressUpdates where progress.bytesReceived >= 1_000_000 { break }
        try #require(link(fixture.file("file.bin.convoypart").path, fixture.file("backup").path) == 0)
        gate.open()
        try? await first.finished()
        #expect(first.error == nil)
        #expect(fixture.contents() == bytes)
    }

    @Test func `a partial file with another hard link is not modified`() async throws {
        await beginFile()
        try #require(link(fixture.file("file.bin.convoypart").path, fixture.file("backup").path) == 0)
        let before = fixture.contents("backup")
        fixture.server.serve(Data(bytes.reversed()), at: "/file", etag: "\"1\"")
        let download = await fixture.run(fixture.download())
        #expect(download.error == nil)
        #expect(fixture.contents() == Data(bytes.reversed()))
        #expect(fixture.contents("backup") == before)
        #expect(fixture.names == ["backup", "file.bin"])
    }

    // MARK: Errors

    @Test func `a lost connection after a change of the file is retried`() async {
        await beginFile()
        let other = Data(bytes.reversed())
        let answers = Locked(0)
        fixture.server.serve(other, at: "/file", etag: "\"2\"") { _, response in
            let count = answers.withLock { count in
                count += 1
                return count
            }
            return count <= 2 ? response.truncated(afterBytes: 600_000) : response
        }
        let download = await fixture.run(
            fixture.download {
                var policy = RetryPolicy(maximumRetryCount: 5)
                policy.initialDelay = 0.005
                policy.budget = nil
                $0.retryPolicy = policy
            })
        #expect(download.error == nil)
        #expect(fixture.contents() == other)
    }

    @Test(arguments: [1, 3]) func `a wrong piece is reported as a mismatch, not as a cancellation`(
        segments: Int
    ) async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let wrong = try (0..<3).map { _ in try Checksum(.sha256, hexadecimal: String(repeating: "0", count: 64)) }
        let pieces = try #require(PieceChecksums(length: 1_000_000, checksums: wrong))
        let download = await fixture.run(
            fixture.download {
                $0.pieceChecksums = pieces
                $0.segmentCount = segments
            })
        let error = download.error
        #expect((error as? DownloadError)?.reason == .piecesMismatch, "\(String(describing: error))")
    }
}
