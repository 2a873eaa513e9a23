import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations
@testable import ConvoyRealtime

/// The simulated event source of a scenario, with checks at each step.
final class EventWorld: World, TransitionInterceptor, @unchecked Sendable {
    private let scenario: EventScenario
    private let handlers = DispatchQueue(label: "handlers")
    private let observers = DispatchQueue(label: "observers")
    private var queue: RequestOperationQueue?
    private var source: EventSource?
    private var recorder: EventRecorder?
    private weak var token: Token?
    private var replies: [EventScenario.Reply]
    private var connection: SimulatedConnection?
    /// The requests that wait for the source to open and to end.
    private var dependents: [HTTPRequestOperation] = []
    private var isInQueue = false
    private var isStartedByHand = false
    /// Whether a user is ending the source.
    private var isClosed = false
    private var wasCancelled = false
    /// The listener; nil without a listener, in which case events may be missed.
    private var listener: EventListenerID?
    private var heard: [Int] = []
    private var heardByListener: [Int] = []
    private var states: [EventSourceState] = []
    private var observation: OperationObservation?
    private var handled = (success: 0, failure: 0, completion: 0)
    private var finishCount = 0
    /// Whether the next event must pause the source.
    private var pausesWithin = false

    init(_ scenario: EventScenario, tells: Bool) {
        (self.scenario, replies) = (scenario, scenario.replies)
        super.init(Machine(concurrent: [OperationQueues.processing]), tells: tells)
    }

    override func setUp() {
        queue = RequestOperationQueue(clock: machine.clock)
        queue?.maxConcurrentOperationCount = 1
        network.willConnect = { [unowned self] connection in
            guard connection.operation.map(isDependent) == false else { return Answer.whole.events }
            check(connection)
            guard !replies.isEmpty else { return { _ in [.head(204, []), .finish] } }
            return replies.removeFirst().events
        }
        let source = EventSource(request: URLRequest(url: URL(string: "http://events.test/") ?? URL(fileURLWithPath: "/")))
        self.source = source
        setUp(source)
        recorder = EventRecorder(of: source)
        source.retryInterval = 1
        source.maximumRetryInterval = 1
        var network = NetworkSense()
        network.isAway = { _ in false }
        network.awaitReturn = { _, _, _ in Token() }
        source.network = network
        if scenario.isLate { source.setSupervisor(self) }
        let token = Token()
        self.token = token
        source.eventHandler = { [weak self] source, event in withExtendedLifetime(token) { self?.didHear(event, of: source) }
        }
        source.openHandler = { _ in withExtendedLifetime(token) {} }
        source.reconnectHandler = { _, _ in withExtendedLifetime(token) {} }
        source.setCompletionHandler(
            success: { [weak self] _, _ in withExtendedLifetime(token) { self?.handled.success += 1 } },
            failure: { [weak self] _, _ in withExtendedLifetime(token) { self?.handled.failure += 1 } })
        source.completionBlock = { [weak self] in withExtendedLifetime(token) { self?.didComplete() } }
        observation = source.observeReadyState(on: observers) { [weak self] change in self?.didChange(change) }
        if scenario.hasDependents { addDependents(of: source) }
        for (index, calls) in scenario.users.enumerated() {
            machine.add(User(machine.makeThread("user \(index + 1)"), calls) { [unowned self] in perform($0) })
        }
    }

    private func setUp(_ operation: HTTPRequestOperation) {
        operation.change { values in
            values.holder.transport = network
            values.holder.clock = machine.clock
        }
        operation.completionQueue = handlers
    }

    private func addDependents(of source: EventSource) {
        for (number, dependency) in [source.opening, source].enumerated() {
            let dependent = HTTPRequestOperation(request: URLRequest(url: URL(fileURLWithPath: "/\(number)")))
            setUp(dependent)
            dependent.addDependency(dependency)
            dependents.append(dependent)
            queue?.addOperation(dependent)
        }
    }

    private func isDependent(_ operation: URLConnectionOperation) -> Bool { dependents.contains { $0 === operation } }

    // MARK: User actions

    private func perform(_ call: EventScenario.Call) {
        tell(call.rawValue)
        guard let source else { return }
        switch call {
        case .add: add()
        case .start:
            guard !isInQueue else { return }
            source.start()
            if source.lifecycle.value.wasStarted { isStartedByHand = true }
        case .pause: source.pause()
        case .resume: source.resume()
        case .close:
            isClosed = true
            source.close()
        case .cancel:
            (isClosed, wasCancelled) = (true, true)
            source.cancel()
        case .restart: source.restart()
        case .listen:
            guard listener == nil else { return }
            listener = source.addListener { [weak self] event in
                guard let self else { return }
                if self.listener == nil { report("a removed listener is not called") }
                heardByListener.append(Int(event.data) ?? -1)
            }
        case .unlisten:
            guard let removed = listener else { return }
            listener = nil
            source.removeListener(removed)
        case .forget: observation = nil
        case .pauseWithin: pausesWithin = true
        }
    }

    private func add() {
        guard let source, !isStartedByHand, !isInQueue else { return }
        isInQueue = true
        queue?.addOperation(source)
    }

    override var isOver: Bool {
        handled.completion > 0 && source?.isFinished != false && dependents.allSatisfy(\.isFinished)
            && queue?.state.withLock { $0.isEmpty } != false
    }

    override var rest: String { "\(source.map { "\($0.lifecycle.value), \($0.readyState)" } ?? ""), \(handled)" }

    override func bringToAnEnd(_ round: Int) {
        guard let source else { return }
        if !isStartedByHand { add() }
        source.resume()
        if isStartedByHand { source.start() }
        // A silent server never ends its response, so close the source.
        if round > 1 {
            (isClosed, wasCancelled) = (true, true)
            source.cancel()
        }
    }

    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void
    ) {
        if transition.new.state == .finished, transition.old.state != .finished { finishCount += 1 }
        machine.hold(proceed)
    }

    // MARK: Checks

    private func check(_ made: SimulatedConnection) {
        if let connection, !connection.isEnded { report("connections do not overlap") }
        connection = made
        let last = made.originalRequest.value(forHTTPHeaderField: "Last-Event-ID").flatMap { Int($0) } ?? 0
        if last < heard.last ?? 0 { report("events come once", "it requested those after \(last), and received \(heard)") }
        guard let source else { return }
        if source.isFinished { report("nothing after the end") }
        // Calls in progress may not have arrived here yet.
        guard !machine.isAnyHeld else { return }
        if source.isCancelled { report("nothing after a cancel") }
        if isClosed { report("nothing after a close") }
        if source.isPaused { report("a pause holds", "it connects") }
    }

    private func didHear(_ event: ServerSentEvent, of source: EventSource) {
        let number = Int(event.data) ?? -1
        if number != (heard.last ?? 0) + 1 { report("events come once", "\(number) after \(heard)") }
        if isClosed { report("nothing after a close", "event \(number)") }
        if source.isPaused { report("a pause holds", "event \(number)") }
        heard.append(number)
        guard pausesWithin else { return }
        pausesWithin = false
        source.pause()
    }

    private func didChange(_ change: OperationChange<EventSourceState>) {
        if change.oldValue != states.last ?? .connecting { report("changes in order", "\(change) after \(states)") }
        states.append(change.newValue)
    }

    private func didComplete() {
        handled.completion += 1
        guard let source else { return }
        if !source.isFinished { report("completion comes last", "it has not finished") }
        if source.readyState != .closed { report("it is closed at the end", "\(source.readyState)") }
        if handled.success + handled.failure != 1 { report("completion comes last", "\(handled)") }
        if (source.error != nil) != (handled.failure == 1) { report("the right handler", "\(handled)") }
    }

    override func checkStep() {
        guard let source else { return }
        if source.isFinished, source.readyState != .closed, !scenario.isLate {
            report("it is closed at the end", "\(source.readyState)")
        }
        if !scenario.isLate, source.isPaused || source.isFinished, machine.clock.hasTimers { report("timers are cancelled") }
        if handled.completion > 1 { report("handlers run once", "\(handled)") }
        if finishCount > 1 { report("it ends once") }
    }

    override func checkTheEnd() {
        guard let source else { return }
        if handled.completion != 1 || handled.success + handled.failure != 1 { report("handlers run once", "\(handled)") }
        if observation != nil, states.last != .closed { report("every change is seen", "\(states)") }
        if !source.opening.isFinished { report("it ends", "its opening does not finish") }
        if wasCancelled, source.isCancelled, (source.error as? URLError)?.code != .cancelled {
            report("an outcome", "\(String(describing: source.error))")
        }
        let fails: [EventScenario.Reply] = [.failure, .otherType]
        if !wasCancelled, let error = source.error, !scenario.replies.contains(where: fails.contains), !isClosed {
            report("an outcome", "\(error)")
        }
        // No user has ended the source, so it must have received all events that were sent.
        if !isClosed, source.error == nil, let last = source.lastEvent, Int(last.data) != heard.last {
            report("events come once", "the last one is \(last.data), and \(heard) were received")
        }
        if let text = recorder?.difference(of: source) { report("metrics follow from events", text) }
        if queue?.queuedOperationCount != 0 { report("the queue is empty") }
        if token != nil { report("closures are released") }
    }

    override func checkThatNobodyHolds() {
        struct Weak { weak var object: AnyObject? }
        let (weakSource, weakQueue) = (Weak(object: source), Weak(object: queue))
        observation = nil
        connection = nil
        dependents = []
        source = nil
        queue = nil
        if weakSource.object != nil { report("nothing retains it") }
        if weakQueue.object != nil { report("nothing retains it", "the queue") }
    }
}
