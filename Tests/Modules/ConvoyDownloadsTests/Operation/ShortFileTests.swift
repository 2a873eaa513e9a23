import CEpoll
import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Tests that new short files are kept in memory until complete.
@Suite struct ShortFileTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 8192)

    init() throws { fixture = try DownloadFixture() }

    private func serve(_ change: @escaping @Sendable (TestServer.Response) -> TestServer.Response = { $0 }) {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"", lastModified: Date(timeIntervalSince1970: 1_000_000_000)) {
            request, response in request.headers["Range"] == nil ? change(response) : response
        }
    }

    /// A recorder that makes system calls and logs their names.
    private final class Log: Sendable {
        private let names = Locked<[String]>([])
        var called: [String] { names.withLock { $0 } }

        func calls(_ hook: @escaping @Sendable (String) -> Int32? = { _ in nil }) -> FileCalls {
            let real = FileCalls.withoutWaiting
            var calls = real
            @Sendable func make(_ name: String, _ call: () -> Int32) -> Int32 {
                names.withLock { $0.append(name) }
                guard let code = hook(name) else { return call() }
                errno = code
                return -1
            }
            calls.open = { path, flags, mode in
                let isUnnamed = flags & cepoll_unnamed_file == cepoll_unnamed_file
                return make(isUnnamed ? "open unnamed" : "open") { real.open(path, flags, mode) }
            }
            calls.writeAt = { descriptor, bytes, offset in
                Int(make("write") { Int32(real.writeAt(descriptor, bytes, offset)) })
            }
            calls.synchronizeData = { descriptor in make("synchronize") { real.synchronizeData(descriptor) } }
            calls.setModificationTime = { descriptor, time in
                make("time") { real.setModificationTime(descriptor, time) }
            }
            calls.name = { descriptor, path in make("name") { real.name(descriptor, path) } }
            calls.close = { descriptor in
                let result = real.close(descriptor)
                return make("close") { result }
            }
            calls.renameWithoutReplacing = { path, new in make("rename") { real.renameWithoutReplacing(path, new) } }
            return calls
        }
    }

    @Test func `a short file is written with one system call per step`() async throws {
        serve()
        let log = Log()
        let download = await fixture.run(fixture.download { $0.fileCalls = log.calls() })
        #expect(download.error == nil)
        #expect(log.called == ["open unnamed", "write", "time", "synchronize", "name", "close"])
        #expect(fixture.contents() == bytes)
        #expect(fixture.names == ["file.bin"])
        let attributes = try FileManager.default.attributesOfItem(atPath: fixture.file().path)
        #expect(attributes[.modificationDate] as? Date == Date(timeIntervalSince1970: 1_000_000_000))
        #expect(attributes[.posixPermissions] as? Int == 0o644)
    }

    @Test(arguments: ["open unnamed", "write", "synchronize", "name"])
    func `the partial file is used if unnamed files are not supported`(_ failing: String) async throws {
        serve()
        let log = Log()
        let hasFailed = Locked(false)
        let download = await fixture.run(
            fixture.download {
                $0.fileCalls = log.calls { name in
                    hasFailed.withLock { hasFailed in
                        guard name == failing, !hasFailed else { return nil }
                        hasFailed = true
                        return EOPNOTSUPP
                    }
                }
            })
        #expect(download.error == nil)
        #expect(log.called.last { $0 != "close" } == "rename" || failing == "synchronize")
        #expect(fixture.contents() == bytes)
        #expect(fixture.names == ["file.bin"])
    }

    @Test(arguments: [false, true])
    func `received bytes are kept after a pause or a lost connection`(isPaused: Bool) async throws {
        let gate = TestServer.Gate()
        serve { isPaused ? $0.heldBody(by: gate, afterBytes: 5000) : $0.truncated(afterBytes: 5000) }
        let download = fixture.download()
        fixture.queue.addOperation(download)
        if isPaused {
            for await progress in download.transferProgressUpdates where progress.bytesReceived >= 5000 { break }
            #expect(fixture.names == [])
            download.pause()
            try await waitUntil("its partial file") { fixture.names == ["file.bin.convoyjournal", "file.bin.convoypart"] }
            download.resume()
            try await download.finished()
        } else {
            await #expect(throws: URLError.self) { try await download.finished() }
            #expect(fixture.names == ["file.bin.convoyjournal", "file.bin.convoypart"])
            await fixture.run(fixture.download())
        }
        gate.open()
        #expect(fixture.server.requests.last?.headers["Range"] == "bytes=5000-")
        #expect(fixture.contents() == bytes)
        #expect(fixture.names == ["file.bin"])
    }

    @Test func `a cancelled download without a validator leaves no files`() async throws {
        let gate = TestServer.Gate()
        fixture.server.serve(bytes, at: "/file") { _, response in response.heldBody(by: gate, afterBytes: 5000) }
        let download = fixture.download()
        fixture.queue.addOperation(download)
        for await progress in download.transferProgressUpdates where progress.bytesReceived >= 5000 { break }
        download.cancel()
        try? await download.finished()
        gate.open()
        #expect((download.error as? URLError)?.code == .cancelled)
        #expect(fixture.names == [])
    }

    /// An incomplete file does not exist, and an existing one is a success unless the download was cancelled.
    @Test(arguments: ["open unnamed", "write", "time", "synchronize", "name", "close"], [true, false])
    func `cancelling or pausing at any call leaves a complete file or none`(_ call: String, isCancelled: Bool) async throws {
        serve()
        let log = Log()
        let download = fixture.download()
        let isFirst = Locked(true)
        download.fileCalls = log.calls { [weak download] name in
            let isDue = isFirst.withLock { isFirst in
                defer { if name == call { isFirst = false } }
                return isFirst && name == call
            }
            if isDue, isCancelled {
                download?.cancel()
            } else if isDue {
                download?.pause()
                download?.resume()
            }
            return nil
        }
        await fixture.run(download)
        if isCancelled, download.error != nil {
            #expect((download.error as? URLError)?.code == .cancelled)
            try await waitUntil("its descriptor") {
                !ProcessMeters.descriptorTargets.contains { $0.contains(fixture.directory.url.path) }
            }
            // The received bytes are kept.
            let isNamed = fixture.contents() != nil
            #expect(isNamed ? fixture.contents() == bytes : fixture.names.allSatisfy { $0.hasPrefix("file.bin.convoy") })
            let next = await fixture.run(fixture.download { $0.existingFilePolicy = .skip })
            #expect(next.error == nil && fixture.contents() == bytes && fixture.names == ["file.bin"])
        } else {
            #expect(download.error == nil)
            #expect(fixture.contents() == bytes)
            #expect(fixture.names == ["file.bin"])
        }
    }

    @Test(arguments: [ExistingFilePolicy.fail, .skip])
    func `a file created during the download is kept`(_ policy: ExistingFilePolicy) async throws {
        serve()
        let file = fixture.file()
        let download = fixture.download { download in
            download.existingFilePolicy = policy
            download.fileCalls = Log().calls { name in
                if name == "name" { try? Data("other".utf8).write(to: file) }
                return nil
            }
        }
        await fixture.run(download)
        #expect((download.error as? DownloadError)?.reason == (policy == .fail ? .fileExists(file) : nil))
        #expect(download.outcome == (policy == .fail ? nil : .skipped))
        #expect(fixture.contents() == Data("other".utf8))
        #expect(fixture.names == ["file.bin"])
    }

    @Test func `a symbolic link created during the download is not followed`() async throws {
        serve()
        let file = fixture.file()
        let target = fixture.file("target")
        let download = fixture.download { download in
            download.fileCalls = Log().calls { name in
                if name == "name" { symlink(target.path, file.path) }
                return nil
            }
        }
        await fixture.run(download)
        #expect((download.error as? DownloadError)?.reason == .fileExists(file))
        #expect(!FileManager.default.fileExists(atPath: target.path))
    }

    @Test(arguments: ["open unnamed", "write", "name"])
    func `a download fails if its directory is removed while it runs`(_ call: String) async throws {
        serve()
        let folder = fixture.file("folder")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let download = fixture.download(to: "folder/file.bin") { download in
            download.fileCalls = Log().calls { name in
                if name == call { try? FileManager.default.removeItem(at: folder) }
                return nil
            }
        }
        await fixture.run(download)
        #expect((download.error as? URLError)?.code == .cannotWriteToFile)
        #expect(fixture.names == [])
    }

    @Test func `a download into a missing directory fails before anything is sent`() async throws {
        serve()
        let download = await fixture.run(fixture.download(to: "folder/file.bin"))
        #expect((download.error as? URLError)?.code == .cannotWriteToFile)
        #expect(fixture.server.requests.isEmpty)
    }

    @Test(arguments: [1, 4, Int.max])
    func `a download waits for a file descriptor without blocking a thread`(failures: Int) async throws {
        serve()
        let count = Locked(0)
        let download = fixture.download { download in
            download.fileCalls = Log().calls { name in
                guard name.hasPrefix("open") else { return nil }
                return count.withLock { count in
                    count += 1
                    // Each attempt to open the file makes two calls.
                    return count <= failures.multipliedReportingOverflow(by: 2).partialValue || failures == .max
                        ? EMFILE : nil
                }
            }
        }
        let other = fixture.download(to: "other.bin")
        fixture.queue.addOperation(download)
        await fixture.run(other)
        #expect(other.error == nil)
        try? await download.finished()
        if failures == .max {
            #expect((download.error as? URLError)?.lacksDescriptor == true)
            #expect(fixture.names == ["other.bin"])
        } else {
            #expect(download.error == nil)
            #expect(fixture.contents() == bytes)
        }
    }

    @Test func `a segmented download also waits for a file descriptor`() async {
        serve()
        let download = await fixture.run(
            fixture.download {
                $0.segmentCount = 2
                $0.fileCalls = FailingCalls(.open, number: 0, .once(EMFILE)).calls
            })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
    }

    @Test(.needsSmallDisk) func `a download to a full disk fails and leaves no file`() async throws {
        serve()
        let disk = try #require(try SmallDisk(bytes: 1 << 20))
        try disk.fill(leaving: 4096)
        let file = disk.url.appendingPathComponent("file")
        let download = DownloadOperation(request: URLRequest(url: fixture.server.url("/file")), destination: file)
        download.completionQueue = .global()
        await fixture.run(download)
        #expect((download.error as? URLError)?.code == .cannotWriteToFile)
        #expect(!FileManager.default.fileExists(atPath: file.path))
        try disk.makeRoom()
        let next = DownloadOperation(request: URLRequest(url: fixture.server.url("/file")), destination: file)
        next.completionQueue = .global()
        await fixture.run(next)
        #expect(next.error == nil)
        #expect(try Data(contentsOf: file) == bytes)
    }
}
