import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Tests of downloads whose power fails, or whose process is killed, after each system call.
///
/// `CONVOY_POWER_CUTS` repeats this for all downloads that resume after a power failure, instead of some.
@Suite struct PowerCutTests {
    /// Synchronizations run concurrently with the download. On a busy machine they are late, so some recordings have
    /// too few of them, or at different times.
    private static let attempts = 10

    private func record(_ scene: PowerCutScene, in folder: URL) async throws -> PowerCutScene.Recording {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return try await scene.recordAll(in: folder)
    }

    @Test(arguments: PowerCutScene.Kind.allCases)
    func `a power failure leaves the old file, the new file, or a partial file that resumes`(
        _ kind: PowerCutScene.Kind
    ) async throws {
        let scene = try PowerCutScene(kind)
        let directory = try TemporaryDirectory(prefix: "convoy-power", isInMemory: true)
        var found: PowerCutScene.Recording?
        for attempt in 0..<Self.attempts where found == nil {
            let recording = try await record(scene, in: directory.file("recorded-\(attempt)"))
            let file = recording.calls.filter { if case .synchronize = $0 { true } else { false } }
            // A recording with fewer calls would test very little.
            if file.count >= 3, recording.calls.count > 15 { found = recording }
        }
        let recording = try #require(found)
        let cuts = PowerCuts(scene, directory)
        try await cuts.examine(recording, isFirst: true)
        #expect(cuts.faults.isEmpty)
        print("power cuts: \(kind): \(recording.calls.count) calls, \(cuts.report)")
        scene.server.stop()
    }

    /// The file is kept in memory until complete.
    @Test(arguments: [true, false]) func `a short file is complete or missing after a power failure`(
        isSynchronized: Bool
    ) async throws {
        let server = try TestServer()
        defer { server.stop() }
        let right = Array(PatternBytes.data(count: 9_000))
        server.serve(Data(right), at: "/file", etag: "\"1\"")
        let directory = try TemporaryDirectory(prefix: "convoy-power", isInMemory: true)
        let recorder = try DiskRecorder(directory.url, like: DiskContents())
        let operation = DownloadOperation(
            request: URLRequest(url: server.url("/file")), destination: directory.file("file"))
        operation.completionQueue = .global()
        operation.synchronizesFile = isSynchronized
        operation.fileCalls = recorder.calls
        RequestOperationQueue().addOperation(operation)
        try await operation.finished()
        let calls = recorder.recorded
        // There is one synchronization for the bytes, and one each for the disk and the name.
        #expect(calls.count == (isSynchronized ? 4 : 3), "\(calls)")
        func faults(of calls: [DiskCall]) -> Int {
            var model = DiskModel(recorder.before)
            var faults = 0
            for count in 0...calls.count {
                if count > 0 { model.apply(calls[count - 1]) }
                for contents in model.afterPowerCut() + [model.visible] {
                    let file = contents.contents("file")
                    let mayBeMissing = count < calls.count || !isSynchronized
                    if !(isSame(file, right) || file == nil && mayBeMissing) { faults += 1 }
                }
            }
            return faults
        }
        #expect(faults(of: calls) == 0)
        // The check must find faults without synchronizations; otherwise the test could not fail.
        #expect(faults(of: calls.filter { if case .synchronize = $0 { false } else { true } }) > 0)
    }

    /// Verifies that the test above can fail.
    @Test(arguments: PowerCutScene.Omission.allCases)
    func `a missing synchronization is detected`(_ omission: PowerCutScene.Omission) async throws {
        let scene = try PowerCutScene(.plain)
        let directory = try TemporaryDirectory(prefix: "convoy-power", isInMemory: true)
        var isFound = false
        for attempt in 0..<Self.attempts where !isFound {
            let recording = try await record(scene, in: directory.file("recorded-\(attempt)"))
            let forgetful = omission.applied(to: recording)
            guard forgetful.calls.count < recording.calls.count else { continue }
            let cuts = PowerCuts(scene, directory)
            try await cuts.examine(forgetful, isFirst: false)
            isFound = !cuts.faults.isEmpty
        }
        #expect(isFound)
        scene.server.stop()
    }
}

/// Simulates power failures in a recording, and checks the results.
private final class PowerCuts {
    private let scene: PowerCutScene
    private let directory: TemporaryDirectory
    private(set) var faults: [String] = []
    private var number = 0
    private var states = 0
    private var runs = 0
    private var seen: Set<Int> = []
    private var continued: Set<Found> = []
    /// The number of resumed downloads for which power failures are simulated as well.
    private let examined: Int

    /// The state that a later download finds.
    private struct Found: Hashable {
        var tag: String?
        var written: [Range<Int64>] = []
        var names: Set<String> = []
        var hasRight = false
        var count: Int64 { written.reduce(0) { $0 + Int64($1.count) } }
    }

    init(_ scene: PowerCutScene, _ directory: TemporaryDirectory) {
        (self.scene, self.directory) = (scene, directory)
        let isLong = ProcessInfo.processInfo.environment["CONVOY_POWER_CUTS"] != nil
        examined = isLong ? .max : scene.kind == .large ? 0 : 4
    }

    private func expect(_ isRight: Bool, _ what: @autoclosure () -> String) {
        if !isRight { faults.append(what()) }
    }

    var report: String { "\(states) states, \(runs) downloads after them" }

    private func makeFolder() -> URL {
        number += 1
        return directory.file("\(number)")
    }

    /// - Parameter isFirst: Whether to simulate power failures of the resumed downloads as well.
    func examine(_ recording: PowerCutScene.Recording, isFirst: Bool) async throws {
        var model = DiskModel(recording.before)
        for count in 0...recording.calls.count where faults.count < 20 {
            if count > 0 { model.apply(recording.calls[count - 1]) }
            let isOver = count == recording.calls.count
            let secured = try find(model.secured)
            // Discarded files may still exist.
            let givesUp = model.pending.contains {
                switch $0 {
                case .truncate, .unlink, .rename: true
                default: false
                }
            }
            for contents in model.afterPowerCut() {
                let found = try await examine(contents, isOver: isOver, isFirst: isFirst)
                if let found, !givesUp {
                    expect(found.count >= secured.count, "less than was secured, after \(count) calls: \(found)")
                }
            }
            // After a kill, all changes are visible.
            _ = try await examine(model.visible, isOver: isOver, isFirst: isFirst)
        }
    }

    private func examine(_ contents: DiskContents, isOver: Bool, isFirst: Bool) async throws -> Found? {
        var hasher = Hasher()
        contents.hash(into: &hasher)
        hasher.combine(isOver)
        hasher.combine(isFirst)
        guard seen.insert(hasher.finalize()).inserted else { return nil }
        states += 1
        let file = contents.contents("file")
        expect(isSame(file, scene.right) || isSame(file, scene.old) && !isOver, "a wrong file")
        let found = try find(contents)
        if isFirst, continued.insert(found).inserted { try await goOn(contents, found) }
        return found
    }

    /// Returns the state that a later download finds. All bytes that it relies on must exist.
    private func find(_ contents: DiskContents) throws -> Found {
        let folder = makeFolder()
        try contents.write(to: folder)
        defer { try? FileManager.default.removeItem(at: folder) }
        var found = Found(
            names: Set(contents.names.keys), hasRight: isSame(contents.contents("file"), scene.right))
        let paths = PartialPaths(destination: folder.appendingPathComponent("file").path)
        let file = DownloadFile(paths, calls: .withoutWaiting(contents))
        guard let (representation, written) = try file.open() else { return found }
        (found.tag, found.written) = (representation.validators.entityTag, written.ranges)
        let bytes = contents.contents("file.convoypart") ?? []
        guard let right = scene.representation(found.tag), Int64(right.count) == representation.total,
            written.end <= bytes.count
        else {
            expect(false, "a journal of another file: \(found)")
            return found
        }
        for range in found.written {
            let range = Int(range.lowerBound)..<Int(range.upperBound)
            expect(isSame(bytes, right, in: range), "missing bytes: \(found)")
        }
        return found
    }

    /// Resumes downloads after the power failure, with and without the server.
    private func goOn(_ contents: DiskContents, _ found: Found) async throws {
        runs += 1
        let folder = makeFolder()
        try contents.write(to: folder)
        defer { try? FileManager.default.removeItem(at: folder) }
        let failing = scene.makeOperation(scene.deadURL, in: folder, .withoutWaiting(contents))
        await #expect(throws: URLError.self) { try await scene.finish(failing) }
        let left = try DiskContents(of: folder, like: contents)
        expect(isSame(left.contents("file"), contents.contents("file")), "another file without a server: \(found)")
        let stillThere = try find(left)
        // The last byte of a complete file is fetched again, so that the server is contacted.
        let isWhole = found.count == scene.representation(found.tag).map { Int64($0.count) }
        let kept = isWhole ? found.count - 1 : found.count
        expect(
            stillThere.count >= kept && stillThere.tag == found.tag, "lost without a server: \(found), \(stillThere)")

        let recording = try await scene.record(in: folder, like: contents)
        let end = try DiskContents(of: folder)
        expect(
            Array(end.names.keys) == ["file"] && isSame(end.contents("file"), scene.right), "not finished: \(found)")
        // At most one reliable byte is fetched again.
        let isCurrent = isSame(scene.representation(found.tag), scene.right)
        let fetched = recording.calls.reduce(0) { sum, call in
            guard case .write(let file, _, let bytes) = call, file != recording.before.names["file.convoyjournal"] else {
                return sum
            }
            return sum + (isEntry(bytes) ? 0 : bytes.count)
        }
        expect(
            Int64(fetched) == Int64(scene.right.count) - (isCurrent ? kept : 0), "fetched \(fetched) bytes: \(found)")
        // Examine only the first results, all of which are different.
        if runs <= examined { try await examine(recording, isFirst: false) }
    }

    private func isEntry(_ bytes: [UInt8]) -> Bool { bytes.starts(with: Array("convoy-journal ".utf8)) }
}
