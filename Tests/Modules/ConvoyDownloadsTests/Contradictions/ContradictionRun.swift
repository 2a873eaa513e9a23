import ConvoyDownloads
import ConvoyOperations
import ConvoyStorySupport
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The state shared by the cases of a run.
struct ContradictionGround: Sendable {
    let server: TestServer
    /// The HTTP/2 server; nil if h2 is not installed.
    let frames: FrameServer?
    let directory: TemporaryDirectory
}

/// A run of a case, with the checks of its result. It blocks its thread.
final class ContradictionRun: Sendable {
    enum Fault: String, Sendable {
        case wrongBytes = "WRONG BYTES"
        case hung = "HUNG"
        case toldNotOnce = "NOT COMPLETED ONCE"
        case toldWrong = "WRONG EVENTS"
        case failedThoughHonest = "FAILED WITH AN HONEST SERVER"
        case left = "FILES LEFT BEHIND"
    }

    struct Verdict: Sendable {
        var fault: Fault?
        var isSuccess = false
        var detail = ""
    }

    private let test: ContradictionCase
    private let ground: ContradictionGround
    /// The lane, which gives concurrent cases separate connections.
    private let lane: Int
    private let path: String
    private let seed: UInt64
    private let directory: URL
    private let file: URL
    private let answers = Locked<[String]>([])

    init(_ test: ContradictionCase, on ground: ContradictionGround, lane: Int) throws {
        (self.test, self.ground, self.lane) = (test, ground, lane)
        path = "/\(test.number)"
        seed = test.seed &+ UInt64(test.number)
        directory = ground.directory.file("\(test.number)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        file = directory.appendingPathComponent("file")
    }

    deinit {
        ground.server.removeRoute(path)
        try? FileManager.default.removeItem(at: directory)
    }

    /// Runs the case to its end.
    func run() -> Verdict {
        ground.server.route(path) { [weak self] request in try self?.response(to: request) ?? .status(500) }
        let operation = makeOperation()
        let listener = StoryListener()
        operation.eventMonitors = [listener.monitor]
        let done = DispatchSemaphore(value: 0)
        let count = Locked(0)
        operation.setCompletionHandler(
            success: { _, _ in count.withLock { $0 += 1 } }, failure: { _, _ in count.withLock { $0 += 1 } })
        operation.completionBlock = { done.signal() }
        pause(operation)
        let queue = RequestOperationQueue()
        queue.addOperation(operation)
        // While the operation sends requests, it may have to wait, but not forever.
        var (asked, patience) = (-1, 5)
        while done.wait(timeout: .now() + 40) == .timedOut {
            let number = answers.withLock { $0.count }
            patience -= 1
            guard number > asked, patience > 0 else { return verdict(.hung, "\(operation)") }
            asked = number
        }
        guard count.withLock({ $0 }) == 1 else { return verdict(.toldNotOnce, "\(count.withLock { $0 })") }
        if let fault = listener.faults().first { return verdict(.toldWrong, fault) }
        return evaluate(operation)
    }

    private func response(to request: RecordedRequest) throws -> TestServer.Response {
        // Take the number now, because two requests may be answered concurrently.
        let number = answers.withLock { answers in
            answers.append("")
            return answers.count - 1
        }
        let exchange = ScriptedExchange(request, number: number, path: path, size: test.size, seed: seed)
        var answer = test.server.answer(exchange)
        if let cut = test.cut, number == 0, case .whole = answer.end, answer.status == 200 {
            answer = answer.ending(test.usesHTTP2 && test.cutsStream ? .reset(after: cut, code: 2) : .closed(after: cut))
        }
        answer = answer.adding("Date", HTTPDate.string(Date()))
        let text = "\(request.headers["Range"] ?? "whole"): \(answer.status) \(answer.length ?? -1) \(answer.end)"
        answers.withLock { $0[number] = text }
        return request.headers["X-Frames"] == nil ? answer.response(test.pace) : try answer.plan(test.pace)
    }

    private func makeOperation() -> HTTPRequestOperation {
        var url = ground.server.url(path)
        if test.usesHTTP2, let frames = ground.frames {
            url = URL(string: "https://127.0.0.1:\(frames.ports[lane % frames.ports.count])\(path)") ?? url
        }
        let request = URLRequest(url: url)
        let operation: HTTPRequestOperation
        switch test.kind {
        case .memory: operation = HTTPRequestOperation(request: request)
        case .file:
            operation = HTTPRequestOperation(request: request)
            operation.outputStream = FileOutputStream(fileURL: file)
        case .download:
            let download = DownloadOperation(request: request, destination: file)
            download.segmentCount = test.segments
            download.minimumSegmentLength = 2_000
            operation = download
        }
        operation.completionQueue = .global()
        operation.connectionConfiguration.certificateAuthorities = ground.frames?.certificateAuthority
        if test.retries {
            var policy = RetryPolicy(maximumRetryCount: 12)
            (policy.initialDelay, policy.maximumDelay, policy.maximumGateDuration) = (0.001, 0.004, 0)
            operation.retryPolicy = policy
        }
        return operation
    }

    private func pause(_ operation: HTTPRequestOperation) {
        let next = Locked(0)
        let pauses = test.pauses
        operation.downloadProgressHandler = { [weak operation] _, total, _ in
            let gap = next.withLock { next -> Int? in
                guard next < pauses.count, total >= pauses[next].offset else { return nil }
                defer { next += 1 }
                return pauses[next].gap
            }
            guard let operation, let gap else { return }
            operation.pause()
            if gap == 0 { return operation.resume() }
            DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(gap)) { operation.resume() }
        }
    }

    private func evaluate(_ operation: HTTPRequestOperation) -> Verdict {
        let names = Set((try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? [])
        if let error = operation.error {
            guard names.isSubset(of: ["file", "file.convoypart", "file.convoyjournal"]) else {
                return verdict(.left, "\(names)")
            }
            if test.kind == .download, names.contains("file") { return verdict(.left, "a file after \(error)") }
            let isRight = !test.server.isHonest || keepsBytes(insteadOfShorterFileAfter: error, among: names)
            return verdict(isRight ? nil : .failedThoughHonest, "\(error)")
        }
        let body = test.kind == .memory ? operation.responseData : try? Data(contentsOf: file)
        let isRight = test.server.versions.contains {
            body == ScriptedExchange.entity($0, seed: seed, size: test.size)
        }
        guard isRight || test.server.isUndetectable else {
            return verdict(.wrongBytes, "\(body?.count ?? -1) bytes, status \(operation.statusCode ?? 0)")
        }
        return Verdict(isSuccess: isRight)
    }

    /// Returns whether a download failed because the server's file has become shorter than the stored bytes, and has kept
    /// those bytes, as documented.
    private func keepsBytes(insteadOfShorterFileAfter error: any Error, among names: Set<String>) -> Bool {
        guard test.kind == .download, names.contains("file.convoypart"),
            case .changedLength(let stored, let actual) = (error as? DownloadError)?.reason
        else { return false }
        return actual < stored
            && test.server.versions.contains {
                ScriptedExchange.entity($0, seed: seed, size: test.size).count == Int(actual)
            }
    }

    private func verdict(_ fault: Fault?, _ detail: String) -> Verdict {
        let answers = answers.withLock { $0.joined(separator: " | ") }
        return Verdict(fault: fault, detail: fault == nil ? detail : "\(detail); answered \(answers)")
    }
}
