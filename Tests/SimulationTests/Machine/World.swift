import ConvoySupport

/// What happens on a machine: it goes on until nothing is left to do, or a promise was broken.
class World: @unchecked Sendable {
    let machine: Machine
    let network: SimulatedNetwork
    private let tells: Bool
    private(set) var fault: Fault?
    private var stepCount = 0
    private var steps: [String] = []
    private let closer: Machine.Thread

    /// More than any scenario takes that ends.
    private static let mostSteps = 3000
    /// How often everything may have to be brought to its end.
    private static let mostRounds = 6

    /// - Parameter tells: whether the steps are told.
    init(_ machine: Machine, tells: Bool) {
        (self.machine, self.tells) = (machine, tells)
        network = SimulatedNetwork(machine)
        closer = machine.makeThread("the end")
    }

    // MARK: For what happens in it

    /// Begins what happens.
    func setUp() {}
    /// Checks what must hold at each moment.
    func checkStep() {}
    /// Whether everything has come to its end.
    var isOver: Bool { true }
    /// Does what a user does who wants everything to arrive.
    func bringToAnEnd(_ round: Int) {}
    /// What has not come to its end.
    var rest: String { "" }
    /// Checks what must hold in the end.
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
        if fault == nil { report("it comes to an end", "there are steps without an end") }
    }

    private func checkThatNothingGoesOn() {
        let pending = machine.pending
        if !pending.isEmpty { report("nothing is left to do", "\(pending)") }
        for connection in network.connections where connection.isUnderWay { report("connections end", connection.name) }
        network.forget()
        checkThatNobodyHolds()
    }

    /// Releases everything, and checks that nobody else holds it.
    func checkThatNobodyHolds() {}
}

/// Does its calls, one after the other.
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

/// An object that closures hold.
final class Token: Sendable {}
