import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoyStorySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import ConvoySupport

/// One case, run and checked. Blocks its thread.
final class DownloadCaseRun {
    enum Fault: String, CaseIterable, Sendable {
        case wrongBytes = "WRONG BYTES"
        case hung = "HUNG"
        case toldNotOnce = "TOLD NOT ONCE"
        case failedThoughHonest = "FAILED THOUGH HONEST"
        case oldFileLost = "OLD FILE LOST"
        case left = "LEFT SOMETHING"
        case toldWrong = "TOLD WRONG"
    }

    struct Verdict: Sendable {
        var fault: Fault?
        var isSuccess = false
        var detail = ""
    }

    private let test: DownloadCase
    private let server: TestServer
    private let resources: [BehavingResource]
    private let directory: URL
    private let destination: URL
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
        self.directory = directory.file("\(test.number)")
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
        destination = self.directory.appendingPathComponent("file")
        if test.replaces { try old.write(to: destination) }
        right = resources[0].firstVersion
    }

    deinit {
        for resource in resources { server.removeRoute(resource) }
        try? FileManager.default.removeItem(at: directory)
    }

    func run() -> Verdict {
        var verdict = Verdict()
        for index in test.operations.indices {
            verdict = run(index)
            if verdict.fault != nil || verdict.isSuccess { break }
        }
        return verdict
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
        return judge(operation, isLast: index == test.operations.count - 1)
    }

    private func makeOperation(_ index: Int) -> DownloadOperation {
        var request = URLRequest(url: server.url(resources[0].path))
        request.timeoutInterval = test.timeout
        let operation = DownloadOperation(request: request, destination: destination)
        operation.completionQueue = .global()
        operation.segmentCount = test.segments
        operation.minimumSegmentLength = test.minimumSegment
        operation.mirrors = resources.dropFirst().map { server.url($0.path) }
        operation.existingFilePolicy = test.replaces ? .replace : .fail
        if test.knowsChecksum { operation.checksum = Self.checksum(right) }
        if test.knowsPieces {
            let length = 4096
            let pieces = stride(from: 0, to: right.count, by: length).compactMap {
                Self.checksum(right[$0..<min($0 + length, right.count)])
            }
            operation.pieceChecksums = PieceChecksums(length: Int64(length), checksums: pieces)
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

    private func judge(_ operation: DownloadOperation, isLast: Bool) -> Verdict {
        let contents = try? Data(contentsOf: destination)
        let names = Set((try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? [])
        if let error = operation.error {
            let isCancelled = (error as? URLError)?.code == .cancelled
            guard contents == (test.replaces ? old : nil) else {
                // A cancel that comes when the file has just got its name cancels the operation, and takes nothing back.
                if isCancelled, isRight(contents, operation) { return Verdict(isSuccess: true) }
                return verdict(.oldFileLost, "\(error)")
            }
            guard names.isSubset(of: ["file", "file.convoypart", "file.convoyjournal"]) else {
                return verdict(.left, "\(names)")
            }
            return verdict(test.mustSucceed && isLast && !isCancelled ? .failedThoughHonest : nil, "\(error)")
        }
        guard names == ["file"] else { return verdict(.left, "\(names)") }
        guard isRight(contents, operation) else {
            return verdict(.wrongBytes, "\(contents?.count ?? -1) bytes, status \(operation.statusCode ?? 0)")
        }
        return Verdict(isSuccess: true)
    }

    /// Whether these are the bytes of a file that one of the servers has.
    private func isRight(_ contents: Data?, _ operation: DownloadOperation) -> Bool {
        guard !test.isUndetectable, let contents else { return contents != nil }
        if test.knowsChecksum { return contents == right }
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

/// A number that several threads change.
private final class Counter: Sendable {
    private let number = Locked(0)

    var value: Int { number.withLock { $0 } }

    func add() { number.withLock { $0 += 1 } }

    /// The next of these offsets, if so many bytes are there.
    func next(in offsets: [Int64], upTo total: Int64) -> Int? {
        number.withLock { number in
            guard number < offsets.count, total >= offsets[number] else { return nil }
            defer { number += 1 }
            return number
        }
    }
}
