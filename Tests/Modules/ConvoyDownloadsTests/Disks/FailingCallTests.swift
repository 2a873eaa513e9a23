import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Downloads in which each system call fails in turn, in every possible way.
@Suite struct FailingCallTests {
    @Test(arguments: FailingCallRun.Scene.allCases)
    func `a failing system call ends a download once and loses no data`(_ scene: FailingCallRun.Scene) async throws {
        let test = try FailingCallRun(scene)
        var random = SplitMix64.printingSeed()
        var (runs, errors) = (0, 0)
        for name in FailingCalls.Name.allCases {
            for manner in FailingCallRun.manners[name] ?? [] {
                // If there are many calls of one kind, try the first ones and a sample of the others.
                for number in Array(0..<12) + Array(stride(from: 12, to: 1000, by: 9)) {
                    // With the default budget, only a tenth of the later ones is tried.
                    if number > 0, Int.random(in: 0..<10, using: &random) >= PropertyBudget.factor { continue }
                    let failing = FailingCalls(name, number: number, manner)
                    if try await test.check(failing) { errors += 1 }
                    runs += 1
                    if !failing.hasFailed { break }
                }
            }
        }
        print("failing calls: \(scene): \(runs) runs, \(errors) errors")
        // A short file makes few calls whose failure has no fallback.
        #expect(errors > (scene == .short ? 3 : 12))
        test.server.stop()
    }
}

/// A download with a failing call, followed by one without.
struct FailingCallRun {
    enum Scene: String, CaseIterable, Sendable {
        /// No files exist.
        case new
        /// An earlier download has left a partial file.
        case continued
        /// An earlier download has left a partial file of a different version, and an old file will be replaced.
        case replaced
        /// The file is long enough to reserve space.
        case large
        /// The file is kept in memory until complete.
        case short
    }

    private let scene: Scene
    let server: TestServer
    private let old = Data("old".utf8)
    private let other: Data
    private let right: Data
    private let checksum: Checksum

    init(_ scene: Scene) throws {
        self.scene = scene
        let size = scene == .large ? 1_200_000 : scene == .short ? 9_000 : 180_000
        right = PatternBytes.data(count: size)
        other = Data(right.reversed())
        let digest = MessageDigest(.sha256)
        digest.update(right)
        checksum = try #require(Checksum(of: digest))
        server = try TestServer()
        server.serve(right, at: "/file", etag: "\"1\"", lastModified: Date(timeIntervalSince1970: 1_000_000_000))
    }

    private func makeOperation(_ path: String, in folder: URL) -> DownloadOperation {
        let operation = DownloadOperation(
            request: URLRequest(url: server.url(path)), destination: folder.appendingPathComponent("file"))
        operation.completionQueue = .global()
        operation.existingFilePolicy = scene == .replaced ? .replace : .fail
        operation.synchronizesFile = true
        operation.segmentCount = scene == .continued ? 3 : 1
        operation.minimumSegmentLength = 20_000
        if scene != .short { operation.checksum = checksum }
        let clock = JumpingClock(step: 700_000_000)
        operation.fileClock = { clock.now }
        return operation
    }

    /// Runs a download. Returns the number of calls of its completion handler.
    private func run(_ operation: DownloadOperation) async throws -> Int {
        let count = Locked(0)
        operation.setCompletionHandler(
            success: { _, _ in count.withLock { $0 += 1 } }, failure: { _, _ in count.withLock { $0 += 1 } })
        let queue = RequestOperationQueue()
        queue.addOperation(operation)
        try? await operation.finished()
        return count.withLock { $0 }
    }

    /// Creates the initial files, with downloads whose calls do not fail.
    private func prepare(_ folder: URL) async throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        switch scene {
        case .new, .large, .short: return
        case .continued, .replaced:
            // Use the same URL for both versions, because it identifies the resource.
            server.serve(
                scene == .continued ? right : other, at: "/file", etag: scene == .continued ? "\"1\"" : "\"2\""
            ) { [size = right.count] _, response in response.truncated(afterBytes: size / 2) }
            let first = makeOperation("/file", in: folder)
            first.segmentCount = 1
            #expect(try await run(first) == 1)
            #expect((first.error as? URLError)?.code == .networkConnectionLost)
            server.serve(right, at: "/file", etag: "\"1\"", lastModified: Date(timeIntervalSince1970: 1_000_000_000))
        }
        if scene == .replaced { try old.write(to: folder.appendingPathComponent("file")) }
    }

    static let manners: [FailingCalls.Name: [FailingCalls.Manner]] = [
        .writeAt: [.once(ENOSPC), .always(ENOSPC), .once(EIO), .once(EDQUOT), .always(EDQUOT), .once(EINTR), .short],
        .readAt: [.once(EIO), .always(EIO), .once(EINTR), .short],
        .open: [.once(EMFILE), .always(EACCES), .once(ENOSPC), .once(EACCES), .once(EINTR)],
        .lock: [.once(ENOLCK), .once(EWOULDBLOCK)],
        .close: [.once(EIO), .always(EIO), .once(EINTR), .once(ENOSPC), .once(EDQUOT)],
        .duplicate: [.once(EMFILE), .always(EBADF)],
        .truncate: [.once(EIO), .always(EIO), .once(EINTR)],
        .allocate: [.once(ENOSPC), .once(EDQUOT), .once(EIO), .once(EOPNOTSUPP), .once(EINTR), .once(EFBIG)],
        .synchronizeData: [.once(EIO), .always(EIO), .once(ENOSPC), .once(EDQUOT), .once(EINTR)],
        .synchronize: [.once(EIO), .always(EIO), .once(ENOSPC), .once(EDQUOT), .once(EINTR), .once(EINVAL)],
        .rename: [.once(EIO), .once(ENOSPC), .always(EACCES)],
        .renameWithoutReplacing: [.once(EIO), .once(ENOSPC), .once(EINVAL), .once(ENOSYS), .once(EEXIST)],
        .unlink: [.once(EIO), .always(EIO), .once(EACCES)],
        .setModificationTime: [.once(EIO)],
        .link: [.once(EIO)],
        .name: [.once(EIO), .once(ENOSPC), .always(EPERM), .once(EEXIST)],
    ]

    /// Returns whether the download failed.
    func check(_ failing: FailingCalls) async throws -> Bool {
        let directory = try TemporaryDirectory(prefix: "convoy-failing")
        let folder = directory.file("folder")
        try await prepare(folder)
        let file = folder.appendingPathComponent("file")
        let what: Comment = "\(scene), \(failing.name) \(failing.number) \(failing.manner)"
        let operation = makeOperation("/file", in: folder)
        operation.fileCalls = failing.calls
        #expect(try await run(operation) == 1, what)
        let contents = try? Data(contentsOf: file)
        let hasFailed = operation.error != nil
        if let error = operation.error {
            #expect(error is URLError || error is DownloadError, what)
            // The file can be correct only if a call after its renaming failed.
            #expect(contents == right || contents == (scene == .replaced ? old : nil), what)
            if contents == right { #expect([.synchronize, .open].contains(failing.name), what) }
        } else {
            #expect(contents == right, what)
        }
        // A synchronization may still be running.
        try await waitUntil("its descriptors: \(what)") {
            !ProcessMeters.descriptorTargets.contains { $0.contains(folder.path) }
        }
        guard hasFailed, contents != right else { return hasFailed }
        let next = makeOperation("/file", in: folder)
        #expect(try await run(next) == 1, what)
        #expect(next.error == nil, "\(what): \(next.error.map { "\($0)" } ?? "")")
        #expect((try? Data(contentsOf: file)) == right, what)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["file"], what)
        return true
    }
}
