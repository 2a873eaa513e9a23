import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// A model of the lifecycle and the phase of its attempt with arbitrarily delayed actions. It explores all reachable
/// states, and thereby all orders.
@Suite struct LateActionModelTests {
    private final class NoConnection: Connection {
        let originalRequest = URLRequest(url: URL(fileURLWithPath: "/"))
        func start() {}
        func cancel() {}
        func suspendReceiving() {}
        func resumeReceiving() {}
    }
    private static let connection = NoConnection()

    /// The progress of the attempt in the slot.
    private enum Work: Hashable {
        case none, preparing, calling, connected, held, cancelled, processing, committing
    }

    private struct World: Hashable {
        var life = Lifecycle()
        var slot = Slot()
        var work = Work.none
        var number: Lifecycle.AttemptNumber = 0
        /// Whether the attempt's request must not be sent twice, so that a pause holds the attempt.
        var isHeldByPauses = false
        /// Whether the request of the attempt was sent.
        var isSent = false
        /// The number of times the request was sent, if it must not be sent twice.
        var sendings = 0
        /// Actions that have not been performed.
        var pending: [Lifecycle.Action] = []
        var finishes = 0
    }

    /// The phase of an attempt, as a comparable value.
    private struct Slot: Hashable {
        var phase = AttemptPhase.ended

        private var key: Int {
            switch phase {
            case .ended: 0
            case .preparing(let call): call == nil ? 1 : 5
            case .connected: 2
            case .working: 3
            case .processing: 4
            }
        }

        static func == (one: Self, other: Self) -> Bool { one.key == other.key }
        func hash(into hasher: inout Hasher) { hasher.combine(key) }
    }

    private func handle(_ event: Lifecycle.Event, _ world: inout World) {
        let action = world.life.handle(event)
        guard action != .nothing else { return }
        // The actions are sorted, because worlds do not differ by their order.
        let key = Self.key(of: action)
        world.pending.insert(action, at: world.pending.firstIndex { Self.key(of: $0) > key } ?? world.pending.endIndex)
    }

    /// Returns a number that differs between actions.
    private static func key(of action: Lifecycle.Action) -> Int {
        let (kind, number): (Int, Lifecycle.AttemptNumber) =
            switch action {
            case .nothing: (0, 0)
            case .begin(let number): (1, number)
            case .stop(let number): (2, number)
            case .stopAndFreeSlot(let number): (3, number)
            case .holdAndFreeSlot(let number): (4, number)
            case .release(let number): (5, number)
            case .restart: (6, 0)
            case .finish: (7, 0)
            case .commit(let number): (8, number)
            case .awaitCommit(let number): (9, number)
            case .readinessChanged: (10, 0)
            case .slotFreed: (11, 0)
            case .awaitRetry(let number): (12, number)
            }
        return kind << 32 | Int(number)
    }

    private func carryOut(_ action: Lifecycle.Action, _ world: inout World) {
        switch action {
        case .begin(let number):
            #expect(world.work == .none, "an attempt began before the previous one had ended: \(world)")
            world.slot.phase = .preparing(nil)
            world.number = number
            world.work = .preparing
        case .stop(let number), .stopAndFreeSlot(let number):
            // Each world has its own call, because abandoning it changes it.
            if world.work == .calling { world.slot.phase = .preparing(BlockingCall()) }
            // A stop affects only its own attempt, if that has begun.
            guard number == world.number else { return }
            let stop = world.slot.phase.stop(isFinal: world.life.isEnding)
            if case .nothing = stop { return }
            #expect(world.work != .none, "a stop hit an attempt that had ended: \(world)")
            switch stop {
            case .nothing: break
            case .call: world.work = .cancelled
            case .ended:
                #expect(world.work == .calling || world.work == .processing)
                world.work = .none
                handle(.workStopped(number), &world)
            }
        case .holdAndFreeSlot(let number), .release(let number):
            guard number == world.number, case .connected = world.slot.phase, [.connected, .held].contains(world.work),
                world.life.isUnderWay(number), world.life.work == .running
            else { return }
            guard world.life.state != .executing else { return world.work = .connected }
            world.work = .held
            guard !world.isSent, world.slot.phase.finish() != nil else { return }
            world.work = .none
            handle(.workStopped(number), &world)
        case .restart: handle(.start, &world)
        case .finish: world.finishes += 1
        case .commit(let number):
            #expect(number == world.number && world.work == .none, "another attempt commits: \(world)")
            if world.life.isUnderWay(number) { world.work = .committing }
        case .awaitCommit(let number): handle(.commitTakesTooLong(number), &world)
        case .nothing, .readinessChanged, .slotFreed, .awaitRetry: break
        }
    }

    /// Takes the next step of the attempt, unless it must stop.
    private func advance(_ world: inout World, to phase: AttemptPhase) -> Bool {
        let life = world.life
        let isHeld = life.work == .running && life.state != .executing && world.slot.phase.isPreparing
        let isStopping = life.work == .stopping || isHeld
        return world.slot.phase.advance(to: phase, unless: life.attemptNumber == world.number && isStopping)
    }

    /// Returns all possible next states.
    private func successors(of world: World, mayBother: Bool) -> [World] {
        var all: [World] = []
        func add(_ change: (inout World) -> Void) {
            var next = world
            change(&next)
            all.append(next)
        }
        for (index, action) in world.pending.enumerated() {
            add { next in
                next.pending.remove(at: index)
                carryOut(action, &next)
            }
        }
        let number = world.number
        switch world.work {
        case .none: break
        case .preparing:
            add { next in
                if advance(&next, to: .connected(Self.connection)) {
                    next.work = .connected
                    next.isSent = false
                } else {
                    next.work = .none
                    if next.slot.phase.finish() != nil { handle(.workStopped(number), &next) }
                }
            }
            add { next in
                if advance(&next, to: .preparing(BlockingCall())) {
                    next.work = .calling
                } else {
                    next.work = .none
                    if next.slot.phase.finish() != nil { handle(.workStopped(number), &next) }
                }
            }
        // The operation ends regardless of whether user code returns.
        case .calling:
            if mayBother || !world.life.isEnding {
                add { next in
                    next.work = .preparing
                    next.slot.phase = .preparing(nil)
                }
            }
        case .processing:
            if mayBother || !world.life.isEnding {
                add { next in
                    next.work = .none
                    if next.slot.phase.didProcess() { handle(.workCompleted(number), &next) }
                }
            }
        case .held: break
        case .connected where world.isHeldByPauses && !world.isSent:
            add { next in
                next.isSent = true
                next.sendings += 1
                #expect(next.sendings == 1, "it is sent twice: \(world)")
            }
        case .connected:
            add { next in
                guard next.slot.phase.finish() != nil else { return }
                guard !next.life.isEnding else {
                    next.work = .none
                    return handle(.workStopped(number), &next)
                }
                next.slot.phase = .processing
                next.work = .processing
            }
            for event in [Lifecycle.Event.workCompleted(number), .workWillRetry(number), .workCanCommit(number)] {
                if world.isHeldByPauses, event == .workWillRetry(number) { continue }
                add { next in
                    next.work = .none
                    if next.slot.phase.finish() != nil { handle(event, &next) }
                }
            }
        case .committing:
            add { next in
                next.work = .none
                handle(.workCompleted(number), &next)
            }
        case .cancelled:
            add { next in
                next.work = .none
                if next.slot.phase.finish() != nil { handle(.workStopped(number), &next) }
            }
        }
        if world.life.isBackingOff { add { handle(.retryDue(world.life.attemptNumber), &$0) } }
        guard mayBother else { return all }
        let pause = world.isHeldByPauses ? Lifecycle.Event.hold : .pause
        for event in [Lifecycle.Event.start, pause, .resume, .cancel, .expire] { add { handle(event, &$0) } }
        return all
    }

    @Test(arguments: [false, true])
    func `a stop whose action runs late is never lost and never affects another attempt`(isHeldByPauses: Bool) {
        var seen: Set<World> = []
        var frontier: [World] = [World(isHeldByPauses: isHeldByPauses)]
        for _ in 0..<(PropertyBudget.factor > 1 ? 12 : 10) {
            var next: [World] = []
            for world in frontier {
                for successor in successors(of: world, mayBother: true) where seen.insert(successor).inserted {
                    next.append(successor)
                }
            }
            frontier = next
            // From each state, the operation finishes if it is resumed and started.
            for world in frontier { expectItArrives(world) }
        }
        #expect(seen.count > 5_000)
    }

    private func expectItArrives(_ start: World) {
        var world = start
        for _ in 0..<40 where world.finishes == 0 {
            if let next = successors(of: world, mayBother: false).first {
                world = next
            } else {
                handle(.resume, &world)
                handle(.start, &world)
            }
        }
        #expect(world.finishes == 1 && world.life.state == .finished, "stuck: \(start)")
    }
}
