import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoyStorySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import ConvoySupport

/// A run of a case, with the checks of its result. It blocks its thread.
final class DownloadCaseRun {
    enum Fault: String, CaseIterable, Sendable {
        case wrongBytes = "WRONG BYTES"
        case hung = "HUNG"
        case toldNotOnce = "NOT COMPLETED ONCE"
        case failedThoughHonest = "FAILED WITH AN HONEST SERVER"
        case oldFileLost = "OLD FILE LOST"
        case left = "FILES LEFT BEHIND"
        case toldWrong = "WRONG EVENTS"
    }

    struct Verdict: Sendable {
        var fault: Fault?
        var isSuccess = false
        var detail = ""
    }

    private let test: DownloadCase
    private let server: TestServer
    private let resources: [BehavingResource]
    /// The directory of the case, and the subdirectory on the simulated disk.
    private let root: URL
    private var directory: URL
    private var destination: URL { directory.appendingPathComponent("file") }
    private var recorder: DiskRecorder?
    private var contents = DiskContents()
    private var random: SplitMix64
    private let old = Data("the old file".utf8)
    private let right: Data

    init(_ test: DownloadCase, server: TestServer, directory: TemporaryDirectory) throws {
        self.test = test
        self.server = server
        let seed = test.seed &+ UInt64(test.number)
        var resources = [
            server.route(
                "/\(test.number)", behaving: test.behaviour, size: test.size, seed: seed, slice: test.slice,
                delay: test.delay)
        ]
        for (index, mirror) in test.mirrors.enumerated() {
            resources.append(
                server.route(
                    "/\(test.number)-\(index)", behaving: mirror.behaviour,
                    size: mirror.sameness == .otherLength ? test.size + 17 : test.size,
                    seed: mirror.sameness == .same ? seed : seed &+ 1 &+ UInt64(index), slice: test.slice,
                    delay: test.delay))
        }
        self.resources = resources
        right = resources[0].firstVersion
        random = SplitMix64(seed: seed)
        root = directory.file("\(test.number)")
        self.directory = root.appendingPathComponent("0")
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
        if test.replaces { try old.write(to: destination) }
    }

    deinit {
        for resource in resources { server.removeRoute(resource) }
        try? FileManager.default.removeItem(at: root)
    }

    func run() throws -> Verdict {
        var verdict = Verdict()
        for index in test.operations.indices {
            if test.world == .planted {
                let found = plant()
                if found.fault != nil { return found }
            }
            if test.world == .pulled { recorder = try DiskRecorder(directory, like: contents) }
            verdict = run(index)
            if verdict.fault != nil || verdict.isSuccess { break }
            if test.world == .pulled { try pullDisk() }
        }
        return verdict
    }

    /// Removes the disk at some time during the last operation, and restores its contents.
    private func pullDisk() throws {
        guard let recorder else { return }
        let calls = recorder.recorded
        var model = DiskModel(recorder.before)
        for call in calls.prefix(Int.random(in: 0...calls.count, using: &random)) { model.apply(call) }
        contents = model.afterPowerCut(&random)
        directory = root.appendingPathComponent("\(directory.lastPathComponent)0")
        try contents.write(to: directory)
    }

    /// The names that the server suggests, and the resulting files.
    private static let offered = [
        ".convoypart", ".convoyjournal", ".convoynew", ".CONVOYPART", ".convoy\u{AD}journal", ".convoypart.",
    ]
    private var planted: Set<String> = []

    private func plant() -> Verdict {
        let before = names
        for index in Self.offered.indices {
            let operation = DownloadOperation(
                request: URLRequest(url: server.url("/planted/\(index)")), directory: directory)
            operation.completionQueue = .global()
            operation.existingFilePolicy = .replace
            let done = DispatchSemaphore(value: 0)
            operation.completionBlock = { done.signal() }
            RequestOperationQueue().addOperation(operation)
            guard done.wait(timeout: .now() + 40) == .success else { return verdict(.hung, "\(operation)") }
            if let name = operation.fileURL?.lastPathComponent { planted.insert(name) }
        }
        let reserved = ["file.convoypart", "file.convoyjournal", "file.convoynew"]
        guard planted.isDisjoint(with: reserved), names.subtracting(planted) == before.subtracting(planted) else {
            return verdict(.left, "\(planted), \(names)")
        }
        return Verdict()
    }

    /// Serves files under the names of those beside a download.
    static func servePlanted(_ server: TestServer) {
        server.route("/planted/*") { request in
            let index = request.path.split(separator: "/").last.flatMap { Int($0) } ?? 0
            let name = "file" + offered[index % offered.count]
            let encoded = name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            return .bytes(Data(repeating: UInt8(ascii: "x"), count: 5000))
                .header("Content-Disposition", "attachment; filename*=UTF-8''\(encoded)")
        }
    }

    private var names: Set<String> {
        Set((try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? [])
    }

    private func run(_ index: Int) -> Verdict {
        let operation = makeOperation(index)
        let listener = StoryListener()
        operation.eventMonitors = [listener.monitor]
        let done = DispatchSemaphore(value: 0)
        let count = Counter()
        operation.setCompletionHandler(success: { _, _ in count.add() }, failure: { _, _ in count.add() })
        operation.completionBlock = { done.signal() }
        script(test.operations[index], operation)
        let queue = RequestOperationQueue()
        queue.addOperation(operation)
        guard done.wait(timeout: .now() + 40) == .success else { return verdict(.hung, "\(operation)") }
        guard count.value == 1 else { return verdict(.toldNotOnce, "\(count.value)") }
        if let fault = listener.faults().first { return verdict(.toldWrong, fault) }
        return evaluate(operation, index)
    }

    private func makeOperation(_ index: Int) -> DownloadOperation {
        var request = URLRequest(url: server.url(resources[0].path))
        request.timeoutInterval = test.timeout
        let operation = DownloadOperation(request: request, destination: destination)
        operation.completionQueue = .global()
        operation.segmentCount = test.segments
        operation.minimumSegmentLength = test.minimumSegment
        let knowledge = test.knowledge[index]
        if knowledge.mirrors { operation.mirrors = resources.dropFirst().map { server.url($0.path) } }
        operation.existingFilePolicy = test.replaces ? .replace : .fail
        if knowledge.checksum { operation.checksum = Self.checksum(right) }
        if knowledge.pieces {
            let length = 4096
            let pieces = stride(from: 0, to: right.count, by: length).compactMap {
                Self.checksum(right[$0..<min($0 + length, right.count)])
            }
            operation.pieceChecksums = PieceChecksums(length: Int64(length), checksums: pieces)
        }
        if let recorder {
            operation.fileCalls = recorder.calls
            // Every few writes are followed by a synchronization.
            let clock = JumpingClock(step: 1_700_000_000)
            operation.fileClock = { clock.now }
        }
        if test.retries {
            var policy = RetryPolicy(maximumRetryCount: 4)
            policy.initialDelay = 0.005
            policy.maximumDelay = 0.02
            policy.budget = nil
            operation.retryPolicy = policy
        }
        return operation
    }

    private static func checksum(_ data: Data) -> Checksum? {
        let digest = MessageDigest(.sha256)
        digest.update(data)
        return Checksum(of: digest)
    }

    private func script(_ events: [(offset: Int64, event: DownloadCase.Event)], _ operation: DownloadOperation) {
        let counter = Counter()
        operation.downloadProgressHandler = { [weak operation] _, total, _ in
            guard let operation else { return }
            guard let event = counter.next(in: events.map(\.offset), upTo: total).map({ events[$0].event }) else { return }
            switch event {
            case .cancel: operation.cancel()
            case .pause(let gap):
                operation.pause()
                if gap == 0 { return operation.resume() }
                DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(gap)) { operation.resume() }
            }
        }
    }

    private func evaluate(_ operation: DownloadOperation, _ index: Int) -> Verdict {
        let isLast = index == test.operations.count - 1
        let contents = try? Data(contentsOf: destination)
        let names = names.subtracting(planted)
        if let error = operation.error {
            let isCancelled = (error as? URLError)?.code == .cancelled
            guard contents == (test.replaces ? old : nil) else {
                // A cancel just after the file got its name cancels the operation, but does not remove the file.
                if isCancelled, isRight(contents, operation, index) { return Verdict(isSuccess: true) }
                return verdict(.oldFileLost, "\(error)")
            }
            guard names.isSubset(of: ["file", "file.convoypart", "file.convoyjournal"]) else {
                return verdict(.left, "\(names)")
            }
            return verdict(test.mustSucceed && isLast && !isCancelled ? .failedThoughHonest : nil, "\(error)")
        }
        guard names == ["file"] else { return verdict(.left, "\(names)") }
        guard isRight(contents, operation, index) else {
            return verdict(.wrongBytes, "\(contents?.count ?? -1) bytes, status \(operation.statusCode ?? 0)")
        }
        return Verdict(isSuccess: true)
    }

    /// Returns whether these are the bytes of a file on one of the servers.
    private func isRight(_ contents: Data?, _ operation: DownloadOperation, _ index: Int) -> Bool {
        guard !test.isUndetectable(by: index), let contents else { return contents != nil }
        if test.knowledge[index].checksum { return contents == right }
        return resources.contains { resource in
            resource.accepts(contents) || resource.accepts(contents, status: operation.statusCode ?? 200)
        }
    }

    private func verdict(_ fault: Fault?, _ detail: String) -> Verdict {
        let answers = resources.map { resource in
            resource.answers.map { "\($0.range ?? "whole"): \($0.status)" }.joined(separator: ", ")
        }.joined(separator: " | ")
        return Verdict(fault: fault, detail: fault == nil ? detail : "\(detail); answered \(answers)")
    }
}

/// A thread-safe counter.
private final class Counter: Sendable {
    private let number = Locked(0)

    var value: Int { number.withLock { $0 } }

    func add() { number.withLock { $0 += 1 } }

    /// Returns the index of the next offset, if the total number of bytes has reached it.
    func next(in offsets: [Int64], upTo total: Int64) -> Int? {
        number.withLock { number in
            guard number < offsets.count, total >= offsets[number] else { return nil }
            defer { number += 1 }
            return number
        }
    }
}
