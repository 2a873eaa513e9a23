import ConvoySupport

/// A simulation on a machine, which runs until nothing is left to do or a promise was broken.
class World: @unchecked Sendable {
    let machine: Machine
    let network: SimulatedNetwork
    private let tells: Bool
    private(set) var fault: Fault?
    private var stepCount = 0
    private var steps: [String] = []
    private let closer: Machine.Thread

    /// A number of steps that no terminating scenario reaches.
    private static let mostSteps = 3000
    /// The maximum number of rounds needed to end the simulation.
    private static let mostRounds = 6

    /// - Parameter tells: Whether to record the steps.
    init(_ machine: Machine, tells: Bool) {
        (self.machine, self.tells) = (machine, tells)
        network = SimulatedNetwork(machine)
        closer = machine.makeThread("the end")
    }

    // MARK: For subclasses

    /// Starts the simulation.
    func setUp() {}
    /// Checks the invariants that must hold at each step.
    func checkStep() {}
    /// Whether all objects of the simulation have ended.
    var isOver: Bool { true }
    /// Performs the calls of a user who ends all operations.
    func bringToAnEnd(_ round: Int) {}
    /// A description of the objects that have not ended.
    var rest: String { "" }
    /// Checks the invariants that must hold at the end.
    func checkTheEnd() {}

    final func report(_ promise: String, _ text: @autoclosure () -> String = "") {
        if fault == nil { fault = Fault(promise, text()) }
    }

    final func tell(_ text: @autoclosure () -> String) {
        if tells { steps.append("  \(text())") }
    }

    // MARK: Playing

    final func play(_ pick: (Int) -> Int) -> Play {
        machine.run {
            setUp()
            run(pick)
            var round = 0
            while fault == nil, !isOver {
                guard round < Self.mostRounds else {
                    report("it ends", "never: \(rest)")
                    break
                }
                tell("the end, round \(round + 1)")
                machine.take(closer) { bringToAnEnd(round) }
                checkStep()
                round += 1
                run(pick)
            }
            if fault == nil { checkTheEnd() }
            if fault == nil { checkThatNothingGoesOn() }
        }
        return Play(fault: fault, stepCount: stepCount, steps: steps)
    }

    private func run(_ pick: (Int) -> Int) {
        let tell: ((String) -> Void)? = tells ? { self.steps.append($0) } : nil
        while fault == nil, stepCount < Self.mostSteps {
            guard machine.step(pick, tell) else { return }
            stepCount += 1
            checkStep()
        }
        if fault == nil { report("it ends", "the steps never end") }
    }

    private func checkThatNothingGoesOn() {
        let pending = machine.pending
        if !pending.isEmpty { report("nothing is left to do", "\(pending)") }
        for connection in network.connections where connection.isUnderWay { report("connections end", connection.name) }
        network.forget()
        checkThatNobodyHolds()
    }

    /// Releases all objects of the simulation, and checks that nothing else retains them.
    func checkThatNobodyHolds() {}
}

/// A user that makes calls, one after another.
final class User<Call>: StepSource {
    let name: String
    let thread: Machine.Thread
    private var calls: [Call]
    private let perform: (Call) -> Void

    init(_ thread: Machine.Thread, _ calls: [Call], _ perform: @escaping (Call) -> Void) {
        (name, self.thread, self.calls, self.perform) = (thread.name, thread, calls.reversed(), perform)
    }

    var canStep: Bool { !calls.isEmpty }
    var isOver: Bool { calls.isEmpty }

    func step() {
        guard let call = calls.popLast() else { return }
        perform(call)
    }
}

/// An object retained by closures.
final class Token: Sendable {}
