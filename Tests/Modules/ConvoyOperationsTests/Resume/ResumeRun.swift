@testable import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The resources shared by the cases of a run.
struct ResumeGround: Sendable {
    let server: TestServer
    let nginx: Nginx?
    let directory: TemporaryDirectory
    let thread: NetworkThread
}

/// A run of a case, with the checks of its result. It blocks its thread.
final class ResumeRun: @unchecked Sendable {
    enum Fault: String, CaseIterable, Sendable {
        case wrongBytes = "WRONG BYTES"
        case hung = "HUNG"
        case toldNotOnce = "NOT REPORTED ONCE"
        case failedThoughHonest = "FAILED WITH AN HONEST SERVER"
        case cancelledByNobody = "CANCELLED WITHOUT A CALL"
        case streamNotClosed = "STREAM NOT CLOSED"
        case notHTTP2 = "NOT OVER HTTP/2"
    }

    struct Verdict: Sendable {
        var fault: Fault?
        var isSuccess = false
        var detail = ""
    }

    /// The time after which an operation counts as lost, in seconds. Nothing that it waits for takes a second.
    private static let deadline = 40.0

    let test: ResumeCase
    private let operation: URLConnectionOperation
    private let resource: BehavingResource
    private let sink: OpenedSink
    private let ground: ResumeGround
    private let tally = ResumeTally()
    private let script: Guarded<(next: Int, isCancelled: Bool)>
    private static let resumes = DispatchQueue(label: "Convoy.Tests.resumes")

    init(_ test: ResumeCase, on ground: ResumeGround, handlers: DispatchQueue) {
        self.test = test
        self.ground = ground
        resource = ground.server.route(
            "/\(test.number)", behaving: test.behaviour, size: test.size, seed: test.seed &+ UInt64(test.number),
            slice: test.slice, delay: test.delay)
        let url: URL
        var configuration = ConnectionConfiguration()
        if test.usesHTTP2, let nginx = ground.nginx {
            url = nginx.secureURL("forward\(resource.path)")
            configuration.certificateAuthorities = nginx.certificateAuthority
        } else {
            url = ground.server.url(resource.path)
        }
        var request = URLRequest(url: url)
        request.timeoutInterval = test.timeout
        switch test.kind {
        case .http, .anyStatus:
            let operation = HTTPRequestOperation(request: request, thread: ground.thread)
            if test.kind == .anyStatus {
                var serializer = HTTPResponseSerializer()
                serializer.acceptableStatusCodes = nil
                operation.responseSerializer = serializer
            }
            self.operation = operation
        case .plain: operation = URLConnectionOperation(request: request, thread: ground.thread)
        }
        operation.connectionConfiguration = configuration
        operation.completionQueue = handlers
        operation.coalescesIdenticalRequests = test.coalesces
        if test.retries {
            var policy = RetryPolicy(maximumRetryCount: 4)
            policy.initialDelay = 0.005
            policy.maximumDelay = 0.02
            policy.budget = nil
            operation.retryPolicy = policy
        }
        sink = OpenedSink(test.sink, for: operation, in: ground.directory, slowness: test.sinkSlowness)
        script = Guarded((0, false))
    }

    func run() -> Verdict {
        let done = listen()
        scriptPauses()
        if test.startsPaused { operation.pause() }
        let (requests, foundation) = (RequestOperationQueue(), OperationQueue())
        switch test.start {
        case .requestQueue: requests.addOperation(operation)
        case .foundationQueue: foundation.addOperation(operation)
        case .byHand: operation.start()
        }
        if test.startsPaused { operation.resume() }
        for knock in test.knocks {
            done.waitAtMost(microseconds: knock.wait)
            operation.pause()
            done.waitAtMost(microseconds: knock.gap)
            operation.resume()
        }
        if let delay = test.cancelDelay {
            done.waitAtMost(microseconds: delay)
            script.withLock { $0.isCancelled = true }
            operation.cancel()
        }
        let hasEnded = done.wait(timeout: .now() + Self.deadline) == .success
        defer { ground.server.removeRoute(resource) }
        return hasEnded ? evaluate() : verdict(.hung, "\(operation)")
    }

    /// Whether further ends were reported after the check.
    var lateFault: Fault? { tally.isBeyondOnce ? .toldNotOnce : nil }

    // MARK: Running

    private func listen() -> DispatchSemaphore {
        let done = DispatchSemaphore(value: 0)
        let tally = tally
        if let operation = operation as? HTTPRequestOperation {
            operation.setCompletionHandler(
                success: { _, _ in tally.note(\.outcomes) }, failure: { _, _ in tally.note(\.outcomes) })
        } else {
            tally.note(\.outcomes)
        }
        operation.keepObserving(.isFinished) { _, change in
            if change.newValue { tally.note(\.observations) }
        }
        operation.completionBlock = {
            tally.note(\.completions)
            done.signal()
        }
        return done
    }

    private func scriptPauses() {
        let (test, script) = (test, script)
        operation.downloadProgressHandler = { [weak operation] _, total, _ in
            guard let operation else { return }
            let next: Int? = script.withLock { script in
                guard script.next < test.pauses.count, total >= test.pauses[script.next].offset else { return nil }
                defer { script.next += 1 }
                return script.next
            }
            guard let next else { return }
            let gap = test.pauses[next].gap
            operation.pause()
            if test.cancelsInLastPause, next == test.pauses.count - 1 {
                script.withLock { $0.isCancelled = true }
                operation.cancel()
            } else if gap == 0 {
                operation.resume()
            } else {
                Self.resumes.asyncAfter(deadline: .now() + .microseconds(gap)) { operation.resume() }
            }
        }
    }

    // MARK: Checking

    private func evaluate() -> Verdict {
        let judged = judgeOutcome()
        guard judged.fault == nil, test.usesHTTP2, let response = operation.response,
            response.value(forHTTPHeaderField: "X-Server-Protocol") != "HTTP/2.0"
        else { return judged }
        return verdict(.notHTTP2, "\(response)")
    }

    private func judgeOutcome() -> Verdict {
        // Reports on queues other than the handlers' may arrive a moment later.
        guard eventually({ tally.isOnce }) else { return verdict(.toldNotOnce, "\(tally)") }
        guard eventually({ sink.isBalanced }) else { return verdict(.streamNotClosed) }
        if let error = operation.error {
            let (isCancelled, detail) = (script.withLock { $0.isCancelled }, "\(error)")
            if !isCancelled, (error as? URLError)?.code == .cancelled { return verdict(.cancelledByNobody, detail) }
            return verdict(test.mustSucceed && !isCancelled ? .failedThoughHonest : nil, detail)
        }
        var success = Verdict(isSuccess: true)
        guard !test.behaviour.isUndetectable else { return success }
        let body = sink.body(of: operation)
        guard let status = operation.statusCode, resource.accepts(body, status: status) else {
            success.fault = .wrongBytes
            let right = resource.acceptableBodies(status: operation.statusCode ?? 0).map(\.count)
            success.detail =
                "\(body.count) bytes with status \(operation.statusCode.map(String.init) ?? "none"), "
                + "correct are bodies of \(right) bytes, \(answers)"
            return success
        }
        return success
    }

    private func verdict(_ fault: Fault?, _ detail: String = "") -> Verdict {
        Verdict(fault: fault, detail: fault == nil ? detail : "\(detail) \(answers)")
    }

    private var answers: String {
        "answered " + resource.answers.map { "\($0.range ?? "whole"): \($0.status)" }.joined(separator: ", ")
    }
}

/// The number of reports of an operation's end, by kind of report.
final class ResumeTally: Sendable, CustomStringConvertible {
    struct Counts: Sendable {
        var outcomes = 0
        var completions = 0
        var observations = 0
    }

    private let counts = Guarded(Counts())

    func note(_ count: WritableKeyPath<Counts, Int> & Sendable) { counts.withLock { $0[keyPath: count] += 1 } }

    var isOnce: Bool { counts.withLock { $0.outcomes == 1 && $0.completions == 1 && $0.observations == 1 } }
    var isBeyondOnce: Bool { counts.withLock { $0.outcomes > 1 || $0.completions > 1 || $0.observations > 1 } }
    var description: String { counts.withLock { "\($0)" } }
}

extension DispatchSemaphore {
    /// Waits for the signal, with a time limit, and signals again for other waiters.
    fileprivate func waitAtMost(microseconds: UInt32) {
        if wait(timeout: .now() + .microseconds(Int(microseconds))) == .success { signal() }
    }
}
