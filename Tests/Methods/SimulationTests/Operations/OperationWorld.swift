import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations

/// The simulated operations of a scenario, with checks at each step.
final class OperationWorld: World, TransitionInterceptor, @unchecked Sendable {
    let scenario: OperationScenario
    let handlers = DispatchQueue(label: "handlers")
    let observers = DispatchQueue(label: "observers")
    private(set) var group: DispatchGroup?
    private(set) var queue: RequestOperationQueue?
    private(set) var witnesses: [Witness] = []
    private(set) var batch: BatchWitness?
    /// The numbers of blocks and barriers added and run.
    private var blocks = (added: 0, run: 0)
    private var hasCancelledAll = false
    private var hasChangedLimit = false

    init(_ scenario: OperationScenario, tells: Bool) {
        self.scenario = scenario
        if scenario.isWatched { group = DispatchGroup() }
        super.init(Machine(concurrent: [OperationQueues.processing]), tells: tells)
    }

    override func setUp() {
        let queue = RequestOperationQueue(clock: machine.clock)
        if scenario.limit > 0 { queue.maxConcurrentOperationCount = scenario.limit }
        if scenario.hostLimit > 0 { queue.maxConcurrentOperationCountPerHost = scenario.hostLimit }
        self.queue = queue
        network.willConnect = { [unowned self] connection in
            guard let witness = connection.operation.flatMap(witness) else { return { _ in [] } }
            check(connection, of: witness)
            let answer = witness.answers.isEmpty ? .whole : witness.answers.removeFirst()
            return answer.events
        }
        network.didArrive = { [unowned self] in $0.operation.flatMap(witness)?.arrivals += 1 }
        for request in scenario.requests { witnesses.append(Witness(request, number: witnesses.count, in: self)) }
        if scenario.hasBatch { batch = BatchWitness(of: witnesses, in: self) }
        for (index, calls) in scenario.users.enumerated() {
            machine.add(User(machine.makeThread("user \(index + 1)"), calls) { [unowned self] in perform($0) })
        }
    }

    private func witness(of operation: URLConnectionOperation) -> Witness? { witnesses.first { $0.operation === operation } }

    /// Adds a copy of an operation, made by a user.
    fileprivate func addCopy(of witness: Witness) {
        guard witnesses.count < 8, let copy = witness.operation?.makeCopy() else { return }
        witnesses.append(Witness(witness.request, copy: copy, of: witness, number: witnesses.count, in: self))
        add(witnesses[witnesses.count - 1])
    }

    private func add(_ witness: Witness) {
        guard let operation = witness.operation, !witness.isStartedByHand else { return }
        witness.isInQueue = true
        queue?.addOperation(operation)
    }

    // MARK: User actions

    private func perform(_ call: OperationScenario.Call) {
        tell(call.text)
        guard let queue, witnesses.indices.contains(call.on) else { return }
        let witness = witnesses[call.on]
        let operation = witness.operation
        switch call.verb {
        case .add: add(witness)
        case .start:
            // Users leave the start of an enqueued operation to the queue.
            guard !witness.isInQueue else { return }
            operation?.start()
            // Otherwise the operation waits for dependencies, and was not started.
            if operation?.lifecycle.value.wasStarted == true { witness.isStartedByHand = true }
        case .pause: operation?.pause()
        case .resume: operation?.resume()
        case .cancel:
            witness.wasCancelled = true
            operation?.cancel()
        case .depend:
            guard call.on != call.other, witnesses.indices.contains(call.other) else { return }
            let other = witnesses[call.other]
            guard let operation, let dependency = other.operation else { return }
            // Waiting for an operation that is never started is the user's own mistake.
            let isBefore = !operation.lifecycle.value.hasBegun && !operation.isFinished
            operation.addDependency(dependency)
            if isBefore { witness.dependencies.append(other) }
        case .free:
            guard witnesses.indices.contains(call.other), let dependency = witnesses[call.other].operation else { return }
            witness.dependencies.removeAll { $0 === witnesses[call.other] }
            operation?.removeDependency(dependency)
        case .priority: operation?.queuePriority = Operation.QueuePriority(rawValue: call.other) ?? .normal
        case .suspend: queue.isSuspended = true
        case .unsuspend: queue.isSuspended = false
        case .limit:
            // Running operations continue when the limit is lowered.
            hasChangedLimit = true
            queue.maxConcurrentOperationCount = max(1, call.other)
        case .cancelAll:
            hasCancelledAll = true
            for witness in witnesses where witness.isInQueue { witness.wasCancelled = true }
            if batch?.isInQueue == true { batch?.wasCancelled = true }
            queue.cancelAllOperations()
        case .pauseAll: queue.pauseAll()
        case .resumeAll: queue.resumeAll()
        case .addBatch: batch?.add(to: queue)
        case .cancelBatch: batch?.cancel()
        case .repeats: addCopy(of: witness)
        case .handle: witness.addLateHandler()
        case .addBlock:
            blocks.added += 1
            queue.addOperation { [weak self] in self?.blocks.run += 1 }
        case .addBarrier:
            // Operations behind a barrier must not be dependencies of those before it.
            guard witnesses.allSatisfy({ $0.isInQueue || $0.isStartedByHand }), batch?.isInQueue != false else { return }
            blocks.added += 1
            let earlier = witnesses
            queue.addBarrierBlock { [weak self] in
                self?.blocks.run += 1
                self?.barrierDidRun(after: earlier)
            }
        case .observe: witness.observe()
        }
    }

    override var isOver: Bool {
        guard let queue else { return true }
        return witnesses.allSatisfy(\.isOver) && batch?.isOver != false && queue.state.withLock { $0.isEmpty }
            && (blocks.run == blocks.added || hasCancelledAll)
    }

    override var rest: String {
        "\(witnesses.filter { !$0.isOver }.map(\.text)), \(queue?.queuedOperationCount ?? 0) in the queue"
    }

    override func bringToAnEnd(_ round: Int) {
        guard let queue else { return }
        if queue.isSuspended { queue.isSuspended = false }
        batch?.add(to: queue)
        for witness in witnesses where !witness.isOver {
            if !witness.isInQueue, !witness.isStartedByHand { add(witness) }
            if witness.operation?.state == .paused { witness.operation?.resume() }
            // The operation was paused when it was started, and waited for dependencies when it was resumed.
            if witness.isStartedByHand { witness.operation?.start() }
        }
        // The remaining operations wait for a silent server.
        guard round > 0 else { return }
        for witness in witnesses where !witness.isOver && witness.request.answers.contains(.silent) {
            witness.wasCancelled = true
            witness.operation?.cancel()
        }
    }

    // MARK: The supervisor of operations

    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void
    ) {
        if let witness = witness(of: operation) { checkTransition(transition, of: witness) }
        if scenario.isLate { machine.hold(proceed) } else { proceed() }
    }

    // MARK: Checks

    private func barrierDidRun(after earlier: [Witness]) {
        for witness in earlier where witness.isInQueue && witness.operation?.isFinished == false {
            report("barriers", "one runs before the end of \(witness.text)")
        }
        for witness in witnesses where !earlier.contains(where: { $0 === witness }) && witness.connectionCount > 0 {
            report("barriers", "one runs after \(witness.text), which came later")
        }
    }

    private func checkTransition(_ transition: AtomicLifecycle.Transition, of witness: Witness) {
        let (old, new) = (transition.old, transition.new)
        if new.state == .finished, old.state != .finished { witness.didFinish() }
        guard new.state == .executing, old.state != .executing, witness.isInQueue, let queue else { return }
        let limit = queue.maxConcurrentOperationCount
        let executing = witnesses.filter { $0.isInQueue && $0.operation?.state == .executing }
        if limit > 0, executing.count > limit, !hasChangedLimit {
            report("limit", "\(executing.count) operations run at once")
        }
        let ofHost = executing.filter { $0.host == witness.host && $0.request.answers.allSatisfy { $0 != .moved } }
        if scenario.hostLimit > 0, ofHost.count > scenario.hostLimit {
            report("host's limit", "\(ofHost.count) run at once")
        }
        if queue.isSuspended { report("suspension", "\(witness.text) is started") }
    }

    private func check(_ connection: SimulatedConnection, of witness: Witness) {
        guard let operation = witness.operation else { return }
        if let earlier = witness.connection, !earlier.isEnded { report("attempts do not overlap", witness.text) }
        witness.connection = connection
        witness.connectionCount += 1
        let life = operation.lifecycle.value
        if life.state == .finished { report("nothing after the end", witness.text) }
        if operation.isCancelled { report("nothing after a cancel", witness.text) }
        if life.state != .executing { report("a pause holds", "\(witness.text) connects while \(life.state)") }
        for dependency in witness.dependencies where dependency.operation?.isFinished == false {
            report("dependencies before", "\(witness.text) connects before \(dependency.text)")
        }
    }

    override func checkStep() {
        for witness in witnesses { witness.check() }
        if let queue {
            let (running, limit) = queue.state.withLock { ($0.running, $0.limit) }
            if running < 0 { report("slots", "\(running) are taken") }
            if !hasChangedLimit, running > limit { report("limit", "\(running) slots are taken") }
        }
        if machine.clock.hasTimers, !mayHaveTimers { report("timers are cancelled") }
        guard let group, let waiting = witnesses.first(where: { $0.hasBegun && !$0.isHandled }) else { return }
        if group.wait(timeout: .now()) == .success { report("completion group", "\(waiting.text) was not waited for") }
    }

    /// Whether anything waits for a timer: a retry, a limit, or the gate of a host.
    private var mayHaveTimers: Bool {
        if machine.isAnyHeld { return true }
        return witnesses.contains { witness in
            let gates: [Answer] = [.busy, .refused]
            if witness.request.answers.contains(where: gates.contains) { return true }
            guard let operation = witness.operation, !witness.isOver else { return false }
            return witness.request.expires || witness.request.place == .provisionalSink
                || operation.lifecycle.value.isBackingOff
        }
    }

    override func checkTheEnd() {
        for witness in witnesses { witness.checkTheEnd() }
        batch?.checkTheEnd()
        if blocks.run > blocks.added || blocks.run < blocks.added && !hasCancelledAll { report("blocks", "\(blocks)") }
        if let group, group.wait(timeout: .now()) != .success { report("completion group", "it never ends") }
        guard let queue else { return }
        if queue.queuedOperationCount != 0 { report("the queue is empty", "\(queue.queuedOperations)") }
        let (running, isEmpty) = queue.state.withLock { ($0.running, $0.isEmpty) }
        if running != 0 { report("slots", "\(running) are never released") }
        if !isEmpty { report("the queue is empty", "not for itself") }
    }

    override func checkThatNobodyHolds() {
        for witness in witnesses where witness.token != nil { report("closures are released", witness.text) }
        if batch?.token != nil { report("closures are released", "the batch") }
        struct Weak { weak var object: AnyObject? }
        let texts = witnesses.map(\.text)
        let operations = witnesses.map { Weak(object: $0.operation) }
        let (weakQueue, weakBatch) = (Weak(object: queue), Weak(object: batch?.operation))
        for witness in witnesses { witness.letGo() }
        batch?.operation = nil
        queue = nil
        for (text, operation) in zip(texts, operations) where operation.object != nil { report("nothing retains it", text) }
        if weakBatch.object != nil { report("nothing retains it", "the batch") }
        if weakQueue.object != nil { report("nothing retains it", "the queue") }
    }
}
