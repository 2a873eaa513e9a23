import ConvoyDownloads
import ConvoyOperations
import ConvoySession
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Download tasks: the destinations of their files, and the files they leave behind.
@Suite struct DownloadTaskTests {
    let fixture: SessionFixture

    init() throws {
        fixture = try SessionFixture()
        fixture.server.servePattern(count: 300_000, at: "/file", etag: "\"1\"")
    }

    private var manager: HTTPSessionManager { fixture.manager }

    /// Serves a file whose first response stops in the middle until the gate opens.
    private func hold(_ path: String, by gate: TestServer.Gate, after count: Int = 100_000) {
        fixture.server.servePattern(count: 300_000, at: path, etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: count) : response
        }
    }

    @Test func `a file is moved to its destination`() async throws {
        let asked = Locked<[String]>([])
        let place = fixture.file("done.bin")
        let task = manager.downloadTask(
            with: fixture.request("/file"),
            destination: { temporary, response in
                asked.withLock {
                    $0.append("\(FileManager.default.fileExists(atPath: temporary.path)) \(response?.statusCode ?? 0)")
                }
                return place
            }
        ) { [fixture] response, file, error in
            fixture.note("\(response?.statusCode ?? 0) \(file?.lastPathComponent ?? "none") \(error == nil)")
        }
        #expect(manager.downloadTasks == [task] && task.operation is DownloadOperation)
        task.resume()
        try await task.finished()
        #expect(fixture.notes == ["200 done.bin true"] && asked.withLock { $0 } == ["true 200"])
        #expect(fixture.contents("done.bin") == PatternBytes.data(count: 300_000))
        #expect(task.fileURL == place && task.resumeData == nil && task.operation.responseObject as? URL == place)
        #expect(fixture.parts.isEmpty)
    }

    @Test func `a file without a destination stays and belongs to the user`() async throws {
        let task = manager.downloadTask(with: fixture.request("/file"))
        task.resume()
        try await task.finished()
        let file = try #require(task.fileURL)
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: 300_000))
        fixture.settle()
        #expect(fixture.parts == [file.lastPathComponent])
        let mode = try FileManager.default.attributesOfItem(atPath: file.deletingLastPathComponent().path)
        #expect(mode[.posixPermissions] as? Int == 0o700)
    }

    @Test func `the manager's handler overrides the task's destination`() async throws {
        let place = fixture.file("manager.bin")
        manager.downloadTaskDidFinishDownloadingHandler = { _, _ in place }
        let other = fixture.file("task.bin")
        let task = manager.downloadTask(
            with: fixture.request("/file"), destination: { _, _ in other }, completionHandler: nil)
        task.resume()
        try await task.finished()
        #expect(task.fileURL == place && fixture.contents("task.bin") == nil)
    }

    @Test func `an existing file is not replaced, and the new one is kept`() async throws {
        try Data("mine".utf8).write(to: fixture.file("taken"))
        let (stream, continuation) = AsyncStream.makeStream(of: URL?.self)
        let observer = NotificationCenter.default.addObserver(
            forName: .networkingDownloadTaskDidFailToMoveFile, object: nil, queue: nil
        ) { notification in
            guard (notification.object as? SessionTask)?.taskDescription == "taken" else { return }
            continuation.yield(notification.userInfo?[TaskNotificationKey.assetPath] as? URL)
            continuation.finish()
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        let place = fixture.file("taken")
        let task = manager.downloadTask(
            with: fixture.request("/file"), destination: { _, _ in place }, completionHandler: nil)
        task.taskDescription = "taken"
        task.resume()
        let error = try #require(await task.end() as? DownloadMoveError)
        #expect((error.underlyingError as? DownloadError)?.reason == .fileExists(place) && error.destination == place)
        #expect(fixture.contents("taken") == Data("mine".utf8))
        let kept = try #require(await stream.first { _ in true } ?? nil)
        #expect(error.file == kept && error.localizedDescription.contains(kept.path))
        #expect(try Data(contentsOf: kept) == PatternBytes.data(count: 300_000))
    }

    @Test(arguments: ["/nowhere/at/all", "/"])
    func `an impossible destination is an error`(path: String) async throws {
        let task = manager.downloadTask(
            with: fixture.request("/file"), destination: { _, _ in URL(fileURLWithPath: path) }, completionHandler: nil)
        task.resume()
        #expect(await task.end() != nil)
        #expect(task.fileURL == nil)
    }

    @Test func `a file is moved completely to another file system`() async throws {
        guard FileSystems.differ(fixture.directory.url.path, "/dev/shm") else {
            print("skipped, because /dev/shm is not a separate file system")
            return
        }
        let shared = URL(fileURLWithPath: "/dev/shm/convoy-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: shared) }
        let task = manager.downloadTask(
            with: fixture.request("/file"), destination: { _, _ in shared }, completionHandler: nil)
        task.resume()
        try await task.finished()
        #expect(try Data(contentsOf: shared) == PatternBytes.data(count: 300_000))
        #expect(fixture.parts.isEmpty)
    }

    @Test func `a directory that others can write to is rejected`() async throws {
        let parts = fixture.directory.url.appendingPathComponent("parts")
        try FileManager.default.createDirectory(at: parts, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: parts.path)
        let task = manager.downloadTask(with: fixture.request("/file"))
        task.resume()
        #expect(await task.end() as? SessionError == .unsafeDirectory(parts))
        try FileManager.default.removeItem(at: parts)
        try FileManager.default.createSymbolicLink(at: parts, withDestinationURL: fixture.directory.url)
        let other = manager.downloadTask(with: fixture.request("/file"))
        other.resume()
        #expect(await other.end() is SessionError && fixture.server.requests.isEmpty)
    }

    @Test func `a suspended download resumes and reports the offset`() async throws {
        let gate = TestServer.Gate()
        hold("/held", by: gate)
        manager.downloadTaskDidWriteDataHandler = { [fixture] _, _, total, expected in
            if total >= 50_000 { fixture.note("total \(expected)") }
        }
        manager.downloadTaskDidResumeHandler = { [fixture] _, offset, expected in
            fixture.note("resumed \(offset > 0 && offset < 300_000) \(expected)")
        }
        let task = manager.downloadTask(with: fixture.request("/held"))
        task.resume()
        try await waitUntil("bytes") { fixture.notes.contains("total 300000") }
        task.suspend()
        task.resume()
        // The first transfer has stopped when the remaining bytes are requested.
        try await waitUntil("the remaining bytes are requested") { fixture.server.requests.count == 2 }
        gate.open()
        try await task.finished()
        fixture.settle()
        #expect(fixture.notes.contains("resumed true 300000"), "\(fixture.notes)")
        #expect(try Data(contentsOf: #require(task.fileURL)) == PatternBytes.data(count: 300_000))
    }

    // MARK: Resume data

    @Test func `a cancelled download resumes in another session`() async throws {
        let gate = TestServer.Gate()
        hold("/held", by: gate)
        let task = manager.downloadTask(with: fixture.request("/held"))
        task.resume()
        try await waitUntil("bytes") { task.countOfBytesReceived >= 100_000 }
        let left = await task.cancelProducingResumeData()
        let resumeData = try #require(left)
        #expect(await task.end() is URLError)
        #expect(task.resumeData == resumeData)
        #expect(resumeData.url == fixture.server.url("/held") && resumeData.expectedByteCount == 300_000)
        #expect(resumeData.byteCount >= 1 && resumeData.byteCount <= 100_000 && resumeData.data.count < 2000)
        let directory = fixture.directory.url.appendingPathComponent("parts")
        var configuration = SessionConfiguration.ephemeral
        configuration.temporaryDirectory = directory
        let other = URLSessionManager(configuration: configuration, completionQueue: .global())
        let place = fixture.file("resumed")
        let second = try other.downloadTask(
            withResumeData: resumeData.data, destination: { _, _ in place }, completionHandler: nil)
        gate.open()
        second.resume()
        try await second.finished()
        #expect(fixture.contents("resumed") == PatternBytes.data(count: 300_000))
        let ranges = fixture.server.requests.compactMap { $0.headers["Range"] }
        #expect(ranges.count == 1 && ranges[0] != "bytes=0-", "\(ranges)")
        #expect(fixture.parts.isEmpty)
    }

    @Test func `a download cancelled without resume data leaves nothing`() async throws {
        let gate = TestServer.Gate()
        hold("/held", by: gate)
        let task = manager.downloadTask(with: fixture.request("/held"))
        task.resume()
        try await waitUntil("bytes") { task.countOfBytesReceived > 0 }
        task.cancel()
        await task.end()
        #expect(task.resumeData == nil)
        try await waitUntil("nothing is left") { fixture.parts.isEmpty }
        gate.open()
    }

    @Test func `a failed download can be resumed`() async throws {
        fixture.server.servePattern(count: 300_000, at: "/broken", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 120_000) : response
        }
        let task = manager.downloadTask(with: fixture.request("/broken"))
        task.resume()
        #expect(await task.end() is URLError)
        let resumeData = try #require(task.resumeData)
        let second = manager.downloadTask(with: resumeData)
        second.resume()
        try await second.finished()
        #expect(try Data(contentsOf: #require(second.fileURL)) == PatternBytes.data(count: 300_000))
        #expect(fixture.server.requests.count == 2)
    }

    @Test func `a download starts over if the file of its resume data is missing, and fails if it is in use`() async throws {
        let gate = TestServer.Gate()
        hold("/held", by: gate)
        let task = manager.downloadTask(with: fixture.request("/held"))
        task.resume()
        try await waitUntil("bytes") { task.countOfBytesReceived >= 100_000 }
        let left = await task.cancelProducingResumeData()
        let resumeData = try #require(left)
        let one = manager.downloadTask(with: resumeData), two = manager.downloadTask(with: resumeData)
        one.resume()
        two.resume()
        gate.open()
        let errors = [await one.end(), await two.end()]
        // The second download may have started after the first ended.
        let refused = errors.compactMap { $0 as? DownloadError }
        #expect(errors.compactMap { $0 }.count == refused.count && refused.count <= 1, "\(errors)")
        for case let file? in [one.fileURL, two.fileURL] where FileManager.default.fileExists(atPath: file.path) {
            #expect(try Data(contentsOf: file) == PatternBytes.data(count: 300_000))
        }
        try FileManager.default.removeItem(at: fixture.directory.url.appendingPathComponent("parts"))
        let three = manager.downloadTask(with: resumeData)
        three.resume()
        try await three.finished()
        #expect(try Data(contentsOf: #require(three.fileURL)) == PatternBytes.data(count: 300_000))
    }

    @Test func `resume data is nil without bytes or validators, and after the task has ended`() async throws {
        let task = manager.downloadTask(with: fixture.request("/file"))
        #expect(await task.cancelProducingResumeData() == nil)
        let whole = manager.downloadTask(with: fixture.request("/file"))
        whole.resume()
        try await whole.finished()
        #expect(await whole.cancelProducingResumeData() == nil)
        let gate = TestServer.Gate()
        fixture.server.route("/weak", .pattern(count: 300_000).heldBody(by: gate, afterBytes: 100_000))
        let weak = manager.downloadTask(with: fixture.request("/weak"))
        weak.resume()
        try await waitUntil("bytes") { weak.countOfBytesReceived > 0 }
        #expect(await weak.cancelProducingResumeData() == nil)
        gate.open()
        #expect(await task.cancelProducingResumeData() == nil)
    }

    // MARK: Becoming a download

    @Test func `a data task becomes a download`() async throws {
        let place = fixture.file("became")
        manager.dataTaskDidReceiveResponseHandler = { _, _ in .becomeDownload }
        manager.dataTaskDidBecomeDownloadTaskHandler = { [fixture] old, new in
            fixture.note("\(old.taskIdentifier == new.taskIdentifier && old.operation === new.operation)")
        }
        manager.downloadTaskDidFinishDownloadingHandler = { _, _ in place }
        manager.taskDidCompleteHandler = { [fixture] task, error in
            fixture.note("\(task is SessionDownloadTask) \(error == nil)")
        }
        let task = manager.dataTask(with: fixture.request("/file"))
        task.resume()
        try await task.finished()
        fixture.settle()
        #expect(fixture.notes == ["true", "true true"])
        #expect(fixture.contents("became") == PatternBytes.data(count: 300_000))
        #expect(task.operation.responseData == nil && fixture.parts.isEmpty)
    }

    @Test func `a data task that became a download can be suspended, and leaves nothing if cancelled`() async throws {
        let gate = TestServer.Gate()
        hold("/held", by: gate)
        manager.dataTaskDidReceiveResponseHandler = { _, _ in .becomeDownload }
        let task = manager.dataTask(with: fixture.request("/held"))
        task.resume()
        try await waitUntil("bytes in a file") { task.countOfBytesReceived > 0 && !fixture.parts.isEmpty }
        task.suspend()
        task.resume()
        // The first transfer has stopped when the remaining bytes are requested.
        try await waitUntil("the remaining bytes are requested") { fixture.server.requests.count == 2 }
        try await task.finished()
        let file = try #require(fixture.parts.first)
        let directory = fixture.directory.url.appendingPathComponent("parts")
        #expect(try Data(contentsOf: directory.appendingPathComponent(file)) == PatternBytes.data(count: 300_000))
        try FileManager.default.removeItem(at: directory.appendingPathComponent(file))
        let other = manager.dataTask(with: fixture.request("/held"))
        other.resume()
        try await waitUntil("bytes in a file") { other.countOfBytesReceived > 0 && !fixture.parts.isEmpty }
        other.cancel()
        #expect((await other.end() as? URLError)?.code == .cancelled)
        try await waitUntil("nothing is left") { fixture.parts.isEmpty }
        gate.open()
    }

    @Test func `a data task that became a download fails if its destination exists, and keeps the file`() async throws {
        try Data("mine".utf8).write(to: fixture.file("became"))
        let place = fixture.file("became")
        manager.dataTaskDidReceiveResponseHandler = { _, _ in .becomeDownload }
        manager.downloadTaskDidFinishDownloadingHandler = { _, _ in place }
        let task = manager.dataTask(with: fixture.request("/file"))
        task.resume()
        let error = await task.end() as? DownloadMoveError
        #expect((error?.underlyingError as? DownloadError)?.reason == .fileExists(place))
        #expect(fixture.contents("became") == Data("mine".utf8) && fixture.parts.count == 1)
    }
}

enum FileSystems {
    static func differ(_ one: String, _ other: String) -> Bool {
        var first = stat(), second = stat()
        return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev != second.st_dev
    }
}
