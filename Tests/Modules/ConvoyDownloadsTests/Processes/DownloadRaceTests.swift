import ConvoyDownloads
import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Two simultaneous downloads of one file. `CONVOY_DOWNLOAD_RACES` sets the number of races (12).
@Suite struct DownloadRaceTests {
    private let count = ProcessInfo.processInfo.environment["CONVOY_DOWNLOAD_RACES"].flatMap { Int($0) } ?? 12
    private let size = 700_000

    @Test func `one of two processes that download a file succeeds, and the other reports the reason`() throws {
        let server = try TestServer()
        server.servePattern(count: size, at: "/file", etag: "\"1\"")
        var said: [String: Int] = [:]
        for round in 0..<count {
            let (directory, logs) = (try TemporaryDirectory(), try TemporaryDirectory())
            let file = directory.file("file")
            let processes = try (0..<2).map {
                try DownloadProgram.start(server.url("/file"), file, log: logs.file("\($0)"))
            }
            try eventually(timeout: 60, "the end of both") { processes.allSatisfy { !$0.isRunning } }
            let texts = processes.map { $0.output.trimmingCharacters(in: .whitespacesAndNewlines) }.sorted()
            #expect(texts[0] == "downloaded" && ["file exists", "in use"].contains(texts[1]), "round \(round): \(texts)")
            #expect(try DownloadProgram.isPattern(file, count: size), "round \(round)")
            let names = try FileManager.default.contentsOfDirectory(atPath: directory.url.path)
            #expect(names == ["file"], "round \(round): \(names), \(texts)")
            said[texts[1], default: 0] += 1
        }
        print("races: \(said)")
    }

    @Test func `one of two operations that download a file succeeds, and the other reports the reason`() async throws {
        let fixture = try DownloadFixture()
        let count = count * 10
        fixture.server.servePattern(count: size, at: "/file", etag: "\"1\"")
        var losers: [String: Int] = [:]
        for round in 0..<count {
            let name = "\(round)"
            let operations = [fixture.download(to: name), fixture.download(to: name)]
            for operation in operations { fixture.queue.addOperation(operation) }
            for operation in operations { try? await operation.finished() }
            let errors = operations.compactMap(\.error)
            #expect(errors.count == 1, "round \(round): \(errors)")
            for error in errors {
                switch (error as? DownloadError)?.reason {
                case .inUse: losers["in use", default: 0] += 1
                case .fileExists: losers["file exists", default: 0] += 1
                default: Issue.record("round \(round): \(error)")
                }
            }
            #expect(try DownloadProgram.isPattern(fixture.file(name), count: size), "round \(round)")
        }
        #expect(fixture.names.count == count)
        print("races: \(losers)")
    }

    /// Another download ends between the check for the file and the locking of the partial file.
    @Test(arguments: [ExistingFilePolicy.fail, .skip])
    func `a file created before the partial file is locked is detected`(policy: ExistingFilePolicy) async throws {
        let fixture = try DownloadFixture()
        fixture.server.servePattern(count: size, at: "/file", etag: "\"1\"")
        let theirs = Data("theirs".utf8)
        let operation = fixture.download { download in
            download.existingFilePolicy = policy
            // With one segment, the file would be opened only when its first bytes arrive.
            download.segmentCount = 2
            let (open, file) = (download.fileCalls.open, fixture.file())
            download.fileCalls.open = { path, flags, mode in
                if flags & O_CREAT != 0 { try? theirs.write(to: file) }
                return open(path, flags, mode)
            }
        }
        await fixture.run(operation)
        if policy == .skip { #expect(operation.error == nil) } else { #expect(operation.error is DownloadError) }
        #expect(fixture.contents() == theirs && fixture.names == ["file.bin"])
        #expect(fixture.server.requests.isEmpty)
    }

    /// One download discards its partial file while others open it.
    @Test func `a download reports no file error if another one removes its partial file`() async throws {
        let fixture = try DownloadFixture()
        // Without a validator, no bytes are kept, so each download removes its partial file at the end.
        fixture.server.serve(Data(repeating: 7, count: 50_000), at: "/file") { _, response in
            response.truncated(afterBytes: 20_000)
        }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<count * 10 {
                        let operation = await fixture.run(fixture.download())
                        if case .inUse = (operation.error as? DownloadError)?.reason { continue }
                        #expect((operation.error as? URLError)?.code == .networkConnectionLost)
                    }
                }
            }
        }
        #expect(fixture.names == [])
    }
}
