import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations

/// The decisions after attempts, as the rows of a text table. Each row has a configuration and a script of outcomes, and
/// each column a kind of request.
///
/// A cell lists the decisions in order, then the number of requests and the result. `0` retries immediately, `7` retries
/// after seven seconds, and `!tooManyRetries` gives up for that reason.
enum DecisionTable {
    /// The outcome of a scripted attempt.
    struct Outcome: Sendable {
        let name: String
        let end: ScriptedTransport.End

        private static let basic = ("WWW-Authenticate", "Basic realm=\"r\"")

        static let all: [Outcome] = [
            Outcome(name: "unsent", end: .unsent),
            Outcome(name: "lost", end: .lost),
            Outcome(name: "refused", end: .refused),
            Outcome(name: "unproven", end: .unproven),
            Outcome(name: "timeout", end: .failure(.timedOut)),
            Outcome(name: "no-name", end: .failure(.cannotFindHost)),
            Outcome(name: "bad-tls", end: .failure(.secureConnectionFailed)),
            Outcome(name: "200", end: .answer),
            Outcome(name: "401", end: .status(401, [])),
            Outcome(name: "401-basic", end: .status(401, [basic])),
            Outcome(name: "404", end: .status(404, [])),
            Outcome(name: "429", end: .status(429, [])),
            Outcome(name: "503-after-7", end: .status(503, [("Retry-After", "7")])),
            Outcome(name: "503-after-day", end: .status(503, [("Retry-After", "86400")])),
            Outcome(name: "500", end: .status(500, [])),
        ]
    }

    /// A kind of request: a column.
    struct Kind: Sendable {
        let name: String
        let method: String
        let body: @Sendable () -> InputStream?

        static let all: [Kind] = [
            Kind(name: "GET", method: "GET") { nil },
            Kind(name: "PUT, replayable", method: "PUT") { ReplayableText("body") },
            Kind(name: "POST", method: "POST") { nil },
            Kind(name: "POST, replayable", method: "POST") { ReplayableText("body") },
            Kind(name: "POST, once", method: "POST") { InputStream(data: Data("body".utf8)) },
        ]
    }

    /// The settings of the operation.
    enum Setup: String, CaseIterable, Sendable {
        case plain, policy, poor, brief, credential, token, tokenAndPolicy

        func apply(to operation: HTTPRequestOperation) {
            switch self {
            case .plain: break
            case .policy: operation.retryPolicy = Self.policy()
            case .poor:
                var policy = Self.policy()
                policy.budget = RetryBudget(share: 0, reserve: 1)
                operation.retryPolicy = policy
            case .brief:
                var policy = Self.policy()
                policy.maximumDuration = 1
                operation.retryPolicy = policy
            case .credential:
                operation.credential = URLCredential(user: "u", password: "p", persistence: .none)
            case .token: operation.authenticator = Self.authenticator()
            case .tokenAndPolicy:
                operation.authenticator = Self.authenticator()
                operation.retryPolicy = Self.policy()
            }
        }

        /// Two retries without random delays.
        private static func policy() -> RetryPolicy {
            var policy = RetryPolicy(maximumRetryCount: 2)
            policy.initialDelay = 0
            return policy
        }

        private static func authenticator() -> Authenticator {
            let count = Locked(0)
            return Authenticator(token: AccessToken("t0")) { _ in
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                return AccessToken("t\(number)")
            }
        }
    }

    /// Returns the scripts for a setup: each outcome once and repeatedly, and each pair where outcomes affect each other.
    private static func scripts(_ setup: Setup) -> [[Outcome]] {
        let all = Outcome.all
        let alone = all.map { [$0] } + all.map { Array(repeating: $0, count: 6) }
        guard [.policy, .credential, .tokenAndPolicy].contains(setup) else { return alone }
        return alone + all.flatMap { first in all.filter { $0.name != first.name }.map { [first, $0] } }
    }

    /// Returns the table.
    static func text() -> String {
        var lines = ["setup: script | " + Kind.all.map(\.name).joined(separator: " | ")]
        for setup in Setup.allCases {
            for script in scripts(setup) {
                let cells = Kind.all.map { cell(setup, script, $0) }
                let isRepeated = script.count > 2
                let name = isRepeated ? "\(script.count) × \(script[0].name)" : script.map(\.name).joined(separator: ", ")
                lines.append("\(setup.rawValue): \(name) | " + cells.joined(separator: " | "))
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func cell(_ setup: Setup, _ script: [Outcome], _ kind: Kind) -> String {
        let transport = ScriptedTransport(script.map(\.end))
        // Hosts share credentials and gates, so each run has its own host.
        guard let url = URL(string: "http://h\(UUID().uuidString.prefix(8)).example/x") else { return "" }
        var request = URLRequest(url: url)
        request.httpMethod = kind.method
        request.httpBodyStream = kind.body()
        let operation = HTTPRequestOperation(request: request, transport: transport, clock: HurriedClock())
        setup.apply(to: operation)
        let events = RetryEvents()
        operation.completionQueue = testQueue
        operation.retryHandler = { events.add($1) }
        let done = Signal()
        operation.completionBlock = { done.fire() }
        operation.start()
        guard done.wait() else { return "never ends" }
        // Handlers run in order on one queue, so all decisions have been reported.
        let decisions = events.decisions.map(text)
        let result = (operation.error as? URLError).map { "\($0.code.rawValue)" } ?? "\(operation.statusCode ?? 0)"
        let http1 = transport.mayUseHTTP2.count { !$0 }
        return (decisions + ["\(transport.paths.count)×", result] + (http1 > 0 ? ["h1×\(http1)"] : []))
            .joined(separator: " ")
    }

    private static func text(_ decision: RetryEvent.Decision) -> String {
        switch decision {
        case .retry(let delay): delay == delay.rounded() ? "\(Int(delay))" : "\(delay)"
        case .giveUp(let refusal): "!\(refusal)"
        case .waitAtGate: "gate"
        case .waitForNetwork: "network"
        }
    }
}

/// A clock whose timers fire immediately, and which then returns their deadline as the time.
private final class HurriedClock: SchedulingClock {
    private final class Timer: ClockTimer {
        private let block: Locked<(@Sendable () -> Void)?>

        init(_ block: @escaping @Sendable () -> Void) { self.block = Locked(block) }

        func fire() { block.withLock { $0.take() }?() }
        func cancel() { _ = block.withLock { $0.take() } }
    }

    private let time = Locked(UInt64(1))

    var now: UInt64 { time.withLock { $0 } }

    func schedule(at deadline: UInt64, _ block: @escaping @Sendable () -> Void) -> any ClockTimer {
        let timer = Timer(block)
        testQueue.async { [self] in
            time.withLock { $0 = max($0, deadline) }
            timer.fire()
        }
        return timer
    }
}
