import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A case that can be run, independent of its protocol.
protocol ReplayedCase: Sendable, CustomStringConvertible {
    var number: Int { get }
    var method: String { get }
    var target: String { get }
    var fields: [String: String] { get }
    var body: String? { get }
    /// Whether the server never finishes the response.
    var stalls: Bool { get }
    /// Whether the connection must not be reused if the request fails.
    var endsItsConnection: Bool { get }
    /// Computed once per case.
    var expectation: FaultExpectation { get }
    /// An additional outcome that is allowed if the server received the request again.
    var outcomeOfRepetition: FaultOutcome? { get }
}

extension FaultCase: ReplayedCase {
    var method: String { recording.responses[0].exchange.method }
    var target: String { recording.responses[0].exchange.target }
    var fields: [String: String] { recording.responses[0].exchange.fields }
    var body: String? { recording.responses[0].exchange.body }
    var stalls: Bool {
        switch fault {
        case .stall: true
        case .damage(_, _, let waits): waits
        default: false
        }
    }
    // A redirect is followed on the same connection, and the next request may fail.
    var endsItsConnection: Bool { recording.responses.count == 1 }
    var outcomeOfRepetition: FaultOutcome? { nil }
}

/// Runs cases through one manager and its queue, several hundred concurrently.
///
/// Each operation must end once, either with the specified outcome or with a typed error. The manager's next request
/// must receive its own response, and no connection may be reused after a failed response.
final class FaultRun: Sendable {
    struct Report: Sendable {
        var successes = 0
        var failures = 0
        /// The error codes, with their counts.
        var codes: [Int: Int] = [:]
        /// The first problems found.
        var faults: [String] = []
        var faultCount = 0
        var seconds = 0.0

        func print() {
            let time = String(format: "%.1f s", seconds)
            Swift.print("network faults: \(successes) succeeded, \(failures) failed with \(codes), in \(time)")
            for fault in faults { Swift.print("network faults: \(fault)") }
        }

        mutating func note(_ fault: String) {
            faultCount += 1
            if faults.count < 30 { faults.append(fault) }
        }
    }

    /// The maximum duration of a case in seconds.
    static let deadline = 60.0

    private let manager = HTTPRequestOperationManager(baseURL: nil)
    private let thread: NetworkThread
    private let base: String
    private let configuration: ConnectionConfiguration
    private let handlers = DispatchQueue(label: "Convoy.Tests.faults")
    /// Whether each case uses a separate connection.
    private let isolates: Bool
    /// The idle timeout in seconds, for cases that end with it.
    private let stallTimeout: TimeInterval
    private let arrivals: @Sendable (Int) -> Arrivals
    private let state = Locked(State())
    private let progress = DispatchSemaphore(value: 0)

    private struct State {
        var report = Report()
        var running: [Int: String] = [:]
        var waiting: ArraySlice<any ReplayedCase> = []
        /// The number of reported ends of each operation, by case number.
        var ends: [Int: Int] = [:]
        /// The failed cases.
        var failed: [Int: String] = [:]
    }

    init(
        base: String, configuration: ConnectionConfiguration, thread: NetworkThread, isolates: Bool = false,
        stallTimeout: TimeInterval = 0.4, width: Int,
        arrivals: @escaping @Sendable (Int) -> Arrivals
    ) {
        (self.base, self.configuration, self.thread) = (base, configuration, thread)
        (self.isolates, self.stallTimeout, self.arrivals) = (isolates, stallTimeout, arrivals)
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = width * 2
        queue.maxConcurrentOperationCountPerHost = width * 2
        manager.operationQueue = queue
    }

    /// Runs all cases. Blocks the calling thread.
    func run(_ cases: [any ReplayedCase], width: Int) -> Report {
        let start = DispatchTime.now()
        state.withLock { $0.waiting = cases[...] }
        for _ in 0..<min(width, cases.count) { startNext() }
        var left = cases.count
        while left > 0 {
            guard progress.wait(timeout: .now() + Self.deadline) == .success else { break }
            left -= 1
        }
        // A duplicate report may arrive later.
        handlers.sync {}
        return state.withLock { state in
            for name in state.running.values { state.report.note("did not end: \(name)") }
            for (number, name) in state.failed where arrivals(number).isFollowed {
                state.report.note("\(name): failed, and its connection was reused")
            }
            state.report.seconds = Double(DispatchTime.now().uptimeNanoseconds - start.uptimeNanoseconds) / 1e9
            for (number, count) in state.ends where count != 2 && state.running[number] == nil {
                state.report.note("case \(number) reported \(count) ends instead of 2, by its handler and its block")
            }
            return state.report
        }
    }

    private func startNext() {
        let next = state.withLock { state -> (any ReplayedCase)? in
            guard let next = state.waiting.popFirst() else { return nil }
            state.running[next.number] = next.description
            return next
        }
        guard let next else { return }
        let expectation = next.expectation
        // Only cases that do not end with the timeout get enough time for a busy machine.
        let timeout = next.stalls && !expectation.mustSucceed ? stallTimeout : 30
        send(next.number, next.method, next.target, next.fields, next.body, timeout) { [self] operation in
            evaluate(operation, next, expectation)
            send(next.number, "GET", "/probe", [:], nil, isolates ? 3 : 30) { [self] operation in
                evaluateProbe(operation, next)
                state.withLock { _ = $0.running.removeValue(forKey: next.number) }
                progress.signal()
                startNext()
            }
        }
    }

    private func send(
        _ number: Int, _ method: String, _ target: String, _ fields: [String: String], _ body: String?,
        _ timeout: TimeInterval,
        _ ended: @escaping @Sendable (HTTPRequestOperation) -> Void
    ) {
        guard let url = URL(string: base + target) else { return }
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.timeoutInterval = timeout
        // If a request sets `Accept-Encoding`, it gets the encoded bytes.
        for (name, value) in fields where name != "Accept-Encoding" { request.setValue(value, forHTTPHeaderField: name) }
        request.setValue("\(number)", forHTTPHeaderField: "X-Case")
        request.httpBody = body.map { Data($0.utf8) }
        let operation = HTTPRequestOperation(request: request, thread: thread)
        var configuration = configuration
        if isolates { configuration.identity = "case \(number)" }
        operation.connectionConfiguration = configuration
        operation.completionQueue = handlers
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        operation.responseSerializer = serializer
        let isProbe = target == "/probe"
        // Retry the probe: the server may have just closed the HTTP/2 connection, or half of a frame may have arrived.
        if isProbe, isolates {
            var policy = RetryPolicy(maximumRetryCount: 4)
            (policy.initialDelay, policy.budget) = (0.001, nil)
            operation.retryPolicy = policy
        }
        operation.setCompletionHandler(
            success: { [self] operation, _ in
                if !isProbe { note(number) }
                ended(operation)
            },
            failure: { [self] operation, _ in
                if !isProbe { note(number) }
                ended(operation)
            })
        if !isProbe { operation.completionBlock = { [self] in note(number) } }
        manager.enqueue(operation)
    }

    private func note(_ number: Int) { state.withLock { $0.ends[number, default: 0] += 1 } }

    private func evaluate(_ operation: HTTPRequestOperation, _ test: any ReplayedCase, _ expectation: FaultExpectation) {
        let arrivals = arrivals(test.number)
        state.withLock { state in
            if let error = operation.error {
                state.report.failures += 1
                if test.endsItsConnection { state.failed[test.number] = test.description }
                guard let error = error as? URLError else {
                    return state.report.note("\(test): failed with an untyped error: \(error)")
                }
                state.report.codes[error.code.rawValue, default: 0] += 1
                // A POST may be sent over a connection that its server closes after another response, and is not sent
                // again.
                let isUnseen = test.method == "POST" && arrivals.requests == 0 && error.code == .networkConnectionLost
                if expectation.mustSucceed, !isUnseen {
                    state.report.note("\(test): failed with \(error.code.rawValue) \(error)")
                }
                if error.code == .unknown || error.code == .cancelled {
                    state.report.note("\(test): failed with an unspecific error: \(error.code.rawValue) \(error)")
                }
            } else {
                state.report.successes += 1
                let outcome = FaultOutcome(
                    status: operation.statusCode ?? 0, body: operation.responseData.map { Array($0) } ?? [])
                let isRepeated = arrivals.requests > 1 && outcome == test.outcomeOfRepetition
                if !expectation.outcomes.contains(outcome), !isRepeated {
                    state.report.note("\(test): succeeded with \(outcome) instead of one of \(expectation.outcomes)")
                }
            }
            // A GET is sent again if its connection was an old one: up to five times, after three redirects.
            let limit = ["GET", "HEAD"].contains(test.method) ? 9 : 1
            if arrivals.requests > limit { state.report.note("\(test): was sent \(arrivals.requests) times") }
        }
    }

    private func evaluateProbe(_ operation: HTTPRequestOperation, _ test: any ReplayedCase) {
        let text = operation.responseString
        state.withLock { state in
            if operation.error != nil || text != ReplayServer.probe(test.number) {
                state.report.note(
                    "\(test): the next request received \(text ?? "nothing"), \(operation.error.map { "\($0)" } ?? "")")
            }
        }
    }
}
