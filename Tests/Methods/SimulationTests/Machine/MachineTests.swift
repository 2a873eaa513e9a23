import ConvoySupport
import Dispatch
import Testing

/// The order of submitted blocks, which run when picked, and only in orders that are possible with real threads.
@Suite struct MachineTests {
    private final class Story { var words: [String] = [] }

    /// Returns all orders in which the blocks of `hand` can run, each as one text.
    private func orders(_ hand: (Machine, @escaping @Sendable (String) -> Void) -> Void) -> Set<String> {
        var found: Set<String> = []
        var picks: [Int] = []
        while true {
            let machine = Machine(concurrent: [Self.concurrent])
            nonisolated(unsafe) let story = Story()
            machine.run { hand(machine) { story.words.append($0) } }
            var made: [(picked: Int, of: Int)] = []
            let pick: (Int) -> Int = { count in
                made.append((made.count < picks.count ? picks[made.count] : 0, count))
                return made[made.count - 1].picked
            }
            machine.run { while machine.step(pick, nil) {} }
            found.insert(story.words.joined(separator: " "))
            guard let place = made.lastIndex(where: { $0.picked < $0.of - 1 }) else { return found }
            picks = made[..<place].map(\.picked) + [made[place].picked + 1]
        }
    }

    private static let concurrent = DispatchQueue(label: "concurrent", attributes: .concurrent)

    @Test func `a serial queue preserves the order, and a concurrent one does not`() {
        let serial = DispatchQueue(label: "serial")
        let first = orders { _, tell in
            serial.submit { tell("a") }
            serial.submit { tell("b") }
        }
        #expect(first == ["a b"])
        let second = orders { _, tell in
            Self.concurrent.submit { tell("a") }
            BlockingWorkers.shared.perform { tell("b") }
            FileWorkers.shared.perform { tell("c") }
        }
        #expect(second == ["a b c", "a c b", "b a c", "b c a", "c a b", "c b a"])
    }

    @Test func `a call is abandoned before it begins, while it runs, or not at all`() {
        let found = orders { _, tell in
            let call = BlockingCall()
            BlockingWorkers.shared.perform(call) { tell(call.finish() ? "is wanted" : "is not wanted") }
            BlockingWorkers.shared.perform { if call.giveUp() { tell("given up") } }
        }
        #expect(found == ["is wanted", "given up", "given up is not wanted"])
    }

    @Test func `blocks that a thread holds back run before its next ones`() {
        let serial = DispatchQueue(label: "serial")
        let other = DispatchQueue(label: "other")
        let found = orders { machine, tell in
            serial.submit {
                tell("a")
                machine.hold {
                    tell("b")
                    machine.hold { tell("c") }
                }
                machine.hold { tell("d") }
            }
            serial.submit { tell("e") }
            other.submit { tell("-") }
        }
        #expect(found.count == 6)
        #expect(found.allSatisfy { $0.split(separator: " ").filter { $0 != "-" } == ["a", "b", "c", "d", "e"] })
    }

    @Test func `timers fire when they are due unless they are cancelled`() {
        let found = orders { machine, tell in
            machine.clock.schedule(at: 3_000_000_000) { tell("later") }
            machine.clock.schedule(at: 2_000_000_000) { tell("sooner") }
            let cancelled = machine.clock.schedule(at: 2_500_000_000) { tell("never") }
            cancelled.cancel()
        }
        // A due timer waits for a thread to fire, so both orders are possible.
        #expect(found == ["sooner later", "later sooner"])
    }
}
