import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations

/// An operation of a scenario, with its observed events.
final class Witness: @unchecked Sendable {
    let request: OperationScenario.Request
    let number: Int
    private unowned let world: OperationWorld
    private(set) var operation: HTTPRequestOperation?
    /// The object retained by the closures of the operation; nil once they are released.
    private(set) weak var token: Token?
    var answers: [Answer]
    var dependencies: [Witness] = []
    weak var connection: SimulatedConnection?
    var connectionCount = 0
    /// The number of times a server has received the request.
    var arrivals = 0
    var isInQueue = false
    var isStartedByHand = false
    var wasCancelled = false
    private var finishCount = 0
    private var outcome: Outcome?
    private var handled = (success: 0, failure: 0, completion: 0)
    private var lateHandlers = (added: 0, called: 0)
    private var observations: [OperationObservation] = []
    private var observed: [[OperationState]] = []
    private var sink: SimulatedSink?
    /// Records the events, also those of copies.
    private(set) var recorder: EventRecorder?

    /// The results of an operation.
    private struct Outcome: Equatable {
        let status: Int?
        let data: Data?
        let hasObject: Bool
        let error: Int?
        let isCancelled: Bool

        init(of operation: HTTPRequestOperation) {
            (status, data) = (operation.statusCode, operation.responseData)
            hasObject = operation.responseObject != nil
            error = operation.error.map { ($0 as NSError).code }
            isCancelled = operation.isCancelled
        }
    }

    init(
        _ request: OperationScenario.Request, copy: HTTPRequestOperation? = nil, of original: Witness? = nil, number: Int,
        in world: OperationWorld
    ) {
        (self.request, self.number, self.world, answers) = (request, number, world, request.answers)
        host = original?.host ?? number % 2
        recorder = original?.recorder
        let operation = copy ?? makeOperation()
        self.operation = operation
        setHandlers(of: operation)
        if world.scenario.isLate { operation.setSupervisor(world) }
        if world.scenario.isWatched {
            if !world.scenario.isLate { operation.setSupervisor(world) }
            operation.completionGroup = world.group
            if recorder == nil { recorder = EventRecorder(of: operation) }
            observe()
        }
    }

    let host: Int
    private var url: URL { URL(string: "http://host\(host).test/\(number)") ?? URL(fileURLWithPath: "/\(number)") }
    var text: String { "operation \(number)" }

    private func makeOperation() -> HTTPRequestOperation {
        var urlRequest = URLRequest(url: url)
        urlRequest.httpMethod = request.method
        if request.method == "POST" { urlRequest.httpBody = Data("body".utf8) }
        let operation = HTTPRequestOperation(request: urlRequest, transport: world.network, clock: world.machine.clock)
        operation.completionQueue = world.handlers
        if request.retries {
            var policy = RetryPolicy()
            (policy.initialDelay, policy.budget) = (0, nil)
            operation.retryPolicy = policy
        }
        if request.parses { operation.responseSerializer = JSONResponseSerializer() }
        if request.expires { operation.totalTimeout = 5 }
        if request.followsFailure { operation.dependencyFailurePolicy = .cancel }
        if request.answers.contains(.asks) {
            operation.authenticationChallengeHandler = { _, challenge, answer in
                let credential = URLCredential(user: "u", password: "p", persistence: .none)
                answer(challenge.previousFailureCount == 0 ? .useCredential(credential) : .performDefaultHandling)
            }
        }
        if request.place != .memory {
            let sink = SimulatedSink(request.place)
            self.sink = sink
            operation.setBodySink(sink)
        }
        return operation
    }

    private func setHandlers(of operation: HTTPRequestOperation) {
        let token = Token()
        self.token = token
        operation.setCompletionHandler(
            success: { [weak self] operation, _ in
                withExtendedLifetime(token) { self?.didCallHandler(\.success, of: operation) }
            },
            failure: { [weak self] operation, _ in
                withExtendedLifetime(token) { self?.didCallHandler(\.failure, of: operation) }
            })
        operation.completionBlock = { [weak self, weak operation] in
            withExtendedLifetime(token) {
                guard let operation else { return }
                self?.didCallHandler(\.completion, of: operation)
            }
        }
        if world.scenario.isWatched {
            operation.downloadProgressHandler = { _, _, _ in withExtendedLifetime(token) {} }
        }
    }

    func addLateHandler() {
        guard let operation else { return }
        let token = self.token
        let isEarly = handled.completion == 0
        // This handler replaces one that was not called yet.
        if !isEarly, lateHandlers.added == lateHandlers.called { lateHandlers.added += 1 }
        operation.completionBlock = { [weak self, weak operation] in
            withExtendedLifetime(token) {
                guard let self, let operation else { return }
                if isEarly { self.didCallHandler(\.completion, of: operation) } else { self.lateHandlers.called += 1 }
            }
        }
    }

    func observe() {
        guard let operation, !operation.isFinished else { return }
        let index = observed.count
        observed.append([])
        observations.append(
            operation.observe(.state, on: world.observers) { [weak self] _, change in
                guard let self else { return }
                if let last = observed[index].last, last != change.oldValue {
                    world.report("changes in order", "\(text): \(change.oldValue) after \(last)")
                }
                observed[index].append(change.newValue)
            })
    }

    // MARK: Observations

    var hasBegun: Bool { connectionCount > 0 || isInQueue }
    /// Whether the last handler has run.
    var isHandled: Bool { handled.completion > 0 }
    var isOver: Bool { isHandled && operation?.isFinished != false }

    /// Records a change of the state to `finished`, before any consequences.
    func didFinish() {
        finishCount += 1
        if finishCount > 1 { world.report("it ends once", text) }
        noteOutcome()
    }

    private func noteOutcome() {
        guard let operation, operation.isFinished, outcome == nil else { return }
        let outcome = Outcome(of: operation)
        self.outcome = outcome
        checkOutcome(outcome, operation)
    }

    private func checkOutcome(_ outcome: Outcome, _ operation: HTTPRequestOperation) {
        if outcome.isCancelled {
            if !wasCancelled, operation.cancellationReason == nil {
                world.report("an outcome", "\(text) was cancelled without a call")
            }
            if outcome.error != URLError.Code.cancelled.rawValue {
                world.report("an outcome", "\(text) is cancelled, with \(outcome)")
            }
        } else if let error = outcome.error {
            let fails: [Answer] = [.lost, .refused, .busy, .asks, .broken]
            let isExpected = request.answers.contains(where: fails.contains) || request.expires
            if !isExpected { world.report("an outcome", "\(text) fails with \(error)") }
        } else if let sink {
            if request.answers.contains(.broken), sink.bytes == Data("[1,".utf8) { return }
            let isError = outcome.status.map { $0 >= 300 } ?? false
            if !isError, sink.bytes != Answer.body(of: url) {
                world.report("whole bytes", "\(text) has \(sink.bytes.count) in its sink")
            }
            if !isError, sink.isProvisional, !sink.isCommitted { world.report("whole bytes", "\(text) was not committed") }
        } else if outcome.status == 200 || outcome.status == 206 {
            if request.answers.contains(.broken), outcome.data == Data("[1,".utf8) { return }
            if outcome.data != Answer.body(of: operation.request.url) {
                world.report("whole bytes", "\(text): \(outcome)")
            }
            if request.parses, !outcome.hasObject { world.report("an outcome", "\(text) has no object") }
        } else if outcome.status == nil {
            world.report("an outcome", "\(text) has no outcome")
        }
    }

    private func didCallHandler(
        _ handler: WritableKeyPath<(success: Int, failure: Int, completion: Int), Int>, of operation: HTTPRequestOperation
    ) {
        if !operation.isFinished { world.report("completion comes last", "\(text) has not finished") }
        // The order of late changes is known only at the end.
        if !world.scenario.isLate { recorder?.readMetrics(of: operation) }
        if handled.completion > 0 { world.report("completion comes last", "\(text): another handler follows") }
        handled[keyPath: handler] += 1
        noteOutcome()
        if outcome != Outcome(of: operation) { world.report("results are final", text) }
        let hasFailed = operation.error != nil
        if handled.success > 0 && hasFailed || handled.failure > 0 && !hasFailed { world.report("the right handler", text) }
        // The time limit may expire before the operation starts, because it waits at the closed gate of a host.
        let hasExpired = request.expires && (operation.error as? URLError)?.code == .timedOut
        for dependency in dependencies where !dependency.isHandled && !wasCancelled && !hasExpired {
            world.report("handlers in order", "that of \(text) runs before that of \(dependency.text)")
        }
    }

    func check() {
        guard let operation else { return }
        noteOutcome()
        if let outcome {
            if outcome != Outcome(of: operation) {
                world.report("results are final", "\(text): \(outcome), then \(Outcome(of: operation))")
            }
        } else if operation.responseData != nil || operation.responseObject != nil || operation.error != nil {
            world.report("results are final", "\(text) has results but has not finished")
        }
        if let connection, connection.startCount > 1 {
            world.report("attempts do not overlap", "\(text) starts a connection twice")
        }
        // Only a request that was certainly not sent may be sent again.
        if request.method == "POST", arrivals > 1,
            request.answers.allSatisfy({ ![.moved, .asks, .busy].contains($0) })
        {
            world.report("sent once", "\(text) was received \(arrivals) times")
        }
    }

    func checkTheEnd() {
        guard let operation else { return }
        if !operation.isFinished { world.report("it ends", text) }
        if handled.completion != 1 || handled.success + handled.failure != 1 {
            world.report("handlers run once", "\(text): \(handled)")
        }
        if lateHandlers.called != lateHandlers.added { world.report("late handlers run once", "\(text): \(lateHandlers)") }
        for states in observed where states.last != .finished { world.report("every change is seen", "\(text): \(states)") }
        if sink?.isDiscarded == false, sink?.isOpened == true, sink?.isClosed == false { world.report("sinks end", text) }
        if let recorder {
            let texts = [
                recorder.difference(of: operation), recorder.difference(of: operation, from: observed[0], world.network),
            ]
            for case let text? in texts { world.report("metrics follow from events", "\(self.text): \(text)") }
        }
        if !operation.dependencies.isEmpty { world.report("closures are released", "\(text) has dependencies") }
    }

    /// Releases the operation and all objects that were set up for it.
    func letGo() {
        observations = []
        (operation, sink) = (nil, nil)
    }
}

/// A batch of all operations.
final class BatchWitness: @unchecked Sendable {
    var operation: BatchOperation?
    private(set) weak var token: Token?
    private unowned let world: OperationWorld
    private let members: [Witness]
    private(set) var isInQueue = false
    var wasCancelled = false
    private var progress: [Int] = []
    private var completions = 0

    init(of members: [Witness], in world: OperationWorld) {
        (self.members, self.world) = (members, world)
        let token = Token()
        self.token = token
        operation = BatchOperation(
            of: members.compactMap(\.operation), completionQueue: world.handlers,
            progress: { [weak self] count, _ in withExtendedLifetime(token) { self?.didProgress(count) } },
            completion: { [weak self] _ in withExtendedLifetime(token) { self?.didComplete() } })
    }

    var isOver: Bool { operation?.isFinished != false }

    func add(to queue: RequestOperationQueue) {
        guard let operation, !isInQueue else { return }
        isInQueue = true
        queue.addOperation(operation)
    }

    func cancel() {
        wasCancelled = true
        operation?.cancel()
    }

    private func didProgress(_ count: Int) {
        if count <= progress.last ?? 0 { world.report("a batch counts up", "\(count) after \(progress)") }
        if operation?.isFinished == true, !wasCancelled { world.report("a batch ends last", "it counts \(count)") }
        progress.append(count)
    }

    private func didComplete() {
        completions += 1
        if completions > 1 { world.report("a batch ends once") }
        if operation?.isFinished == true { world.report("a batch ends last", "its completion comes after its end") }
        for member in members where !member.isHandled {
            world.report("a batch ends last", "before the handler of \(member.text)")
        }
    }

    func checkTheEnd() {
        if completions != 1, !wasCancelled { world.report("a batch ends once", "\(completions) completions") }
        if !wasCancelled, progress != Array(1...members.count) { world.report("a batch counts up", "\(progress)") }
    }
}

/// A sink that keeps its bytes.
private final class SimulatedSink: BodySink, @unchecked Sendable {
    private let place: OperationScenario.Place
    private(set) var bytes = Data()
    private(set) var isOpened = false
    private(set) var isClosed = false
    private(set) var isCommitted = false
    private(set) var isDiscarded = false

    init(_ place: OperationScenario.Place) { self.place = place }

    var isOpen: Bool { place == .sink }
    var isImmediate: Bool { place == .sink }
    var isProvisional: Bool { place == .provisionalSink }

    func open() { isOpened = true }
    func begin(_ response: ResponseHead, discarding count: Int64) { bytes = Data() }
    func write(_ piece: UnsafeRawBufferPointer) { bytes.append(contentsOf: piece) }
    func commit() { isCommitted = true }
    func close() { isClosed = true }
    func discard() { isDiscarded = true }
}
