import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The lifecycle and its work slot, with actions delayed arbitrarily: all orders, by exploring all reachable states.
@Suite struct LateActionModelTests {
    private final class NoConnection: Connection {
        let originalRequest = URLRequest(url: URL(fileURLWithPath: "/"))
        func start() {}
        func cancel() {}
        func suspendReceiving() {}
        func resumeReceiving() {}
    }
    private static let connection = NoConnection()

    /// The events that may happen to the try in the slot.
    private enum Work: Hashable {
        case none, preparing, calling, connected, cancelled, processing, committing
    }

    private struct World: Hashable {
        var life = Lifecycle()
        var slot = Slot()
        var work = Work.none
        var number: Lifecycle.TryNumber = 0
        /// Actions that have not been carried out.
        var pending: [Lifecycle.Action] = []
        var finishes = 0
    }

    /// The slot, as a value to compare.
    private struct Slot: Hashable {
        var value = WorkSlot()

        private var key: [Int] {
            let phase =
                switch value.phase {
                case .idle: 0
                case .preparing(let call): call == nil ? 1 : 5
                case .connected: 2
                case .concluding: 3
                case .processing: 4
                }
            return [phase, Int(value.number), Int(value.stopped)]
        }

        static func == (one: Self, other: Self) -> Bool { one.key == other.key }
        func hash(into hasher: inout Hasher) { hasher.combine(key) }
    }

    private func handle(_ event: Lifecycle.Event, _ world: inout World) {
        let action = world.life.handle(event)
        if action != .nothing { world.pending.append(action) }
        // Their order does not matter.
        world.pending.sort { "\($0)" < "\($1)" }
    }

    private func carryOut(_ action: Lifecycle.Action, _ world: inout World) {
        switch action {
        case .begin(let number):
            #expect(world.work == .none, "a try began before the one before had ended: \(world)")
            world.slot.value.begin(number)
            world.number = number
            world.work = .preparing
            if world.slot.value.endIfStopped(number) {
                world.work = .none
                handle(.workStopped(number), &world)
            }
        case .stop(let number), .stopAndFreeSlot(let number):
            // A call of its own in each world: giving it up changes it.
            if world.work == .calling { world.slot.value.phase = .preparing(BlockingCall()) }
            let stop = world.slot.value.stop(number, isFinal: world.life.isEnding)
            if case .nothing = stop { return }
            #expect(number == world.number && world.work != .none, "a stop hit another try: \(world)")
            switch stop {
            case .nothing: break
            case .cancel: world.work = .cancelled
            case .ended:
                #expect(world.work == .calling || world.work == .processing)
                world.work = .none
                handle(.workStopped(number), &world)
            }
        case .restart: handle(.start, &world)
        case .finish: world.finishes += 1
        case .commit(let number):
            #expect(number == world.number && world.work == .none, "another try commits: \(world)")
            if world.life.isUnderWay(number) { world.work = .committing }
        case .awaitCommit(let number): handle(.commitTakesTooLong(number), &world)
        case .nothing, .readinessChanged, .slotFreed, .awaitRetry: break
        }
    }

    /// All that can happen next.
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
                if next.slot.value.connect(number, Self.connection) {
                    next.work = .connected
                } else {
                    next.work = .none
                    if next.slot.value.end(number) { handle(.workStopped(number), &next) }
                }
            }
            add { next in
                if next.slot.value.prepare(number, by: BlockingCall()) {
                    next.work = .calling
                } else {
                    next.work = .none
                    handle(.workStopped(number), &next)
                }
            }
        // The code of somebody returns, or does not: nobody who ends waits for it.
        case .calling:
            if mayBother || !world.life.isEnding {
                add { next in
                    next.work = .preparing
                    next.slot.value.phase = .preparing(nil)
                }
            }
        case .processing:
            if mayBother || !world.life.isEnding {
                add { next in
                    next.work = .none
                    if next.slot.value.didProcess(number) { handle(.workCompleted(number), &next) }
                }
            }
        case .connected:
            add { next in
                guard next.slot.value.conclude(number), next.slot.value.process(number) else { return }
                next.work = .processing
            }
            for event in [Lifecycle.Event.workCompleted(number), .workWillRetry(number), .workCanCommit(number)] {
                add { next in
                    next.work = .none
                    if next.slot.value.conclude(number) { handle(event, &next) }
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
                if next.slot.value.end(number) { handle(.workStopped(number), &next) }
            }
        }
        if world.life.isBackingOff { add { handle(.retryDue(world.life.tryNumber), &$0) } }
        guard mayBother else { return all }
        for event in [Lifecycle.Event.start, .pause, .resume, .cancel, .expire] { add { handle(event, &$0) } }
        return all
    }

    @Test func `no stop is lost and none hits another try however late its action`() {
        var seen: Set<World> = []
        var frontier: [World] = [World()]
        for _ in 0..<12 {
            var next: [World] = []
            for world in frontier {
                for successor in successors(of: world, mayBother: true) where seen.insert(successor).inserted {
                    next.append(successor)
                }
            }
            frontier = next
            // From each of them the operation finishes, if it is resumed and started.
            for world in frontier { expectItArrives(world) }
        }
        #expect(seen.count > 10_000)
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
