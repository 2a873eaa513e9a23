import ConvoyTestSupport
import Testing

@testable import ConvoyTransport

/// The state of a transfer with holds, in every order of events of its source, receiver and hold owners, with actions
/// that are executed late.
@Suite struct TransferStateTests {
    typealias State = TransferState

    /// A source with blocks of bytes, a receiver, and the pending actions.
    private struct World: Hashable {
        var state = State()
        /// The blocks that the source still has.
        var blocks: Int
        /// Whether the source waits until it may continue.
        var isPaused = false
        /// Whether the source has reported its end.
        var hasEnded = false
        /// The blocks that were taken but not passed on.
        var kept = 0
        var delivered = 0
        var ends = 0
        var isStopped = false
        /// The holds that their owners have added and not removed.
        var owned: TransferHolds = []
        var pending: [State.Action] = []

        init(blocks: Int) { self.blocks = blocks }

        mutating func handle(_ event: State.Event) {
            let action = state.handle(event)
            if action != .nothing { pending.append(action) }
        }

        /// Executes an action, possibly long after it was decided.
        mutating func carryOut(_ action: State.Action) {
            switch action {
            case .nothing: break
            case .run(let receiving, _):
                if receiving { isPaused = false }
                // Kept bytes are delivered before those of the source.
                if state.hasKept { handle(.kept) }
            case .drain:
                // If a new hold has been added in the meantime, the bytes are kept.
                guard state.isFree, kept > 0 else { return }
                delivered += kept
                kept = 0
                handle(.drained)
            case .end: ends += 1
            case .stopped: ends += 1
            }
        }

        /// Delivers a block of the source, or keeps it.
        mutating func deliver(keeping: Bool) {
            guard !isPaused, blocks > 0, !hasEnded, !state.isOver else { return }
            guard state.isFree, !state.hasKept else {
                isPaused = true
                return handle(.refused)
            }
            blocks -= 1
            if keeping {
                kept += 1
                handle(.kept)
            } else {
                delivered += 1
            }
        }

        mutating func endSource() {
            guard !isPaused, blocks == 0, !hasEnded, !state.isOver else { return }
            hasEnded = true
            handle(.end)
        }

        mutating func put(_ hold: TransferHolds) {
            guard owned.isDisjoint(with: hold), !state.isOver else { return }
            owned.formUnion(hold)
            if hold == .pause { isPaused = !hasEnded }
            handle(.hold(hold))
        }

        mutating func lift(_ hold: TransferHolds) {
            guard !owned.isDisjoint(with: hold) else { return }
            owned.subtract(hold)
            handle(.lift(hold))
        }
    }

    private static let holders: [TransferHolds] = [
        .sink, .reader, .delegate, .decision, .cookies, .rate, .pause, .turn,
    ]

    private func expectPromises(_ world: World, _ total: Int) {
        #expect(world.state.holds == world.owned, "a hold was lifted by someone other than its owner: \(world)")
        #expect(world.ends + world.pending.filter { $0 == .end || $0 == .stopped }.count <= 1, "it ended twice: \(world)")
        #expect(world.blocks + world.kept + world.delivered == total, "a block was lost: \(world)")
        if world.ends == 1, !world.isStopped {
            #expect(world.delivered == total && world.hasEnded, "it ended before its last byte: \(world)")
        }
        // Every wait ends, either by a pending action or when a hold is removed.
        if !world.state.isOver, world.state.isFree, world.isPaused || world.kept > 0 || world.hasEnded {
            #expect(!world.pending.isEmpty, "the source is not resumed: \(world)")
        }
    }

    /// Removes every hold, executes all actions, and lets the source continue until the transfer ends.
    private func expectItEnds(_ start: World, _ total: Int) {
        var world = start
        for hold in Self.holders { world.lift(hold) }
        for _ in 0..<200 where world.ends == 0 {
            if let action = world.pending.first {
                world.pending.removeFirst()
                world.carryOut(action)
            } else if world.blocks > 0 {
                world.deliver(keeping: false)
            } else {
                world.endSource()
            }
        }
        #expect(world.ends == 1, "stuck: \(start)")
        if !start.isStopped { #expect(world.delivered == total, "short: \(start)") }
    }

    @Test func `every order of events with two holds ends once and delivers all bytes`() {
        let total = 3
        for (one, other) in [
            (TransferHolds.sink, TransferHolds.delegate), (.decision, .cookies), (.rate, .reader), (.pause, .delegate),
            (.pause, .sink), (.turn, .delegate), (.turn, .pause),
        ] {
            var seen: Set<World> = []
            var frontier = [World(blocks: total)]
            while !frontier.isEmpty {
                var next: [World] = []
                // Late actions accumulate without limit if none is executed.
                for world in frontier where world.pending.count <= 3 {
                    func add(_ change: (inout World) -> Void) {
                        var changed = world
                        change(&changed)
                        if changed != world, seen.insert(changed).inserted { next.append(changed) }
                    }
                    add { $0.deliver(keeping: false) }
                    add { $0.deliver(keeping: true) }
                    add { $0.endSource() }
                    for hold in [one, other] {
                        add { $0.put(hold) }
                        add { $0.lift(hold) }
                    }
                    add { world in
                        world.isStopped = true
                        world.handle(.stop)
                    }
                    for index in world.pending.indices {
                        add { world in
                            let action = world.pending.remove(at: index)
                            world.carryOut(action)
                        }
                    }
                }
                for world in next {
                    expectPromises(world, total)
                    expectItEnds(world, total)
                }
                frontier = next
            }
            #expect(seen.count > 400, "\(seen.count) states")
        }
    }

    @Test func `a million random events lose no bytes, and each removes only its own hold`() {
        var random = SplitMix64.printingSeed()
        var events = 0
        while events < 1_000_000 {
            let total = Int.random(in: 0...20, using: &random)
            var world = World(blocks: total)
            let stops = Int.random(in: 0..<4, using: &random) == 0
            for _ in 0..<Int.random(in: 5...120, using: &random) {
                events += 1
                let hold = Self.holders.randomElement(using: &random) ?? .sink
                switch Int.random(in: 0..<12, using: &random) {
                case 0, 1, 2: world.deliver(keeping: false)
                case 3: world.deliver(keeping: true)
                case 4: world.put(hold)
                case 5, 6: world.lift(hold)
                case 7: world.endSource()
                case 8: world.handle(.starved)
                case 9: world.handle(.fed)
                case 10 where stops:
                    world.isStopped = true
                    world.handle(.stop)
                default:
                    guard let index = world.pending.indices.randomElement(using: &random) else { continue }
                    let action = world.pending.remove(at: index)
                    world.carryOut(action)
                }
                // A late resumption may encounter a hold, so that bytes are refused. This does not count as a loss.
                guard world.blocks + world.kept + world.delivered == total, world.state.holds == world.owned else {
                    Issue.record("\(world)")
                    return
                }
            }
            expectItEnds(world, total)
        }
    }

    @Test func `a stop does not wait for holds and is the last event`() {
        for bits in 0...UInt8.max {
            var state = State()
            _ = state.handle(.hold(TransferHolds(rawValue: bits)))
            _ = state.handle(.refused)
            _ = state.handle(.kept)
            #expect(state.handle(.end) == .nothing)
            #expect(state.handle(.stop) == .stopped)
            for event in [State.Event.lift(TransferHolds(rawValue: bits)), .drained, .fed, .end, .stop] {
                #expect(state.handle(event) == .nothing)
            }
        }
    }

    @Test func `the end waits for sink, decision and cookies, but not for holds that only delay bytes`() {
        for hold in Self.holders {
            var state = State()
            _ = state.handle(.hold(hold))
            let waits = [TransferHolds.sink, .decision, .cookies].contains(hold)
            #expect(state.handle(.end) == (waits ? .nothing : .end))
            #expect(state.handle(.lift(hold)) == (waits ? .end : .nothing))
        }
    }

    @Test func `sending does not wait for receiving`() {
        var state = State()
        _ = state.handle(.starved)
        _ = state.handle(.hold(.delegate))
        _ = state.handle(.refused)
        #expect(state.handle(.fed) == .run(receiving: false, sending: true))
        _ = state.handle(.starved)
        #expect(state.handle(.lift(.delegate)) == .run(receiving: true, sending: false))
        #expect(state.handle(.fed) == .run(receiving: true, sending: true))
    }

    @Test func `a pause stops both directions, and sending resumes even if receiving is held`() {
        for hold in Self.holders where hold != .pause {
            for isStarved in [false, true] {
                var state = State()
                if isStarved { _ = state.handle(.starved) }
                #expect(state.handle(.hold(.pause)) == .run(receiving: false, sending: false))
                #expect(state.handle(.hold(hold)) == .nothing && state.handle(.kept) == .nothing)
                #expect(state.handle(.lift(.pause)) == .run(receiving: false, sending: !isStarved))
                #expect(state.handle(.kept) == .nothing)
                #expect(state.handle(.lift(hold)) == .drain)
                #expect(state.handle(.drained) == .run(receiving: true, sending: !isStarved))
            }
        }
    }

    @Test func `bytes that become available during a pause are sent after it`() {
        var state = State()
        _ = state.handle(.starved)
        _ = state.handle(.hold(.pause))
        #expect(state.handle(.fed) == .run(receiving: false, sending: false))
        #expect(state.handle(.lift(.pause)) == .run(receiving: true, sending: true))
    }

    @Test func `only the delegate's hold and a pause outlive an exchange`() {
        var state = State()
        for hold in Self.holders { _ = state.handle(.hold(hold)) }
        _ = state.handle(.starved)
        #expect(state.next.holds == [.delegate, .pause] && !state.next.isStarved && !state.next.isHeldBack)
        _ = state.handle(.stop)
        _ = state.handle(.lift([.delegate, .pause]))
        #expect(state.next.holds == [])
    }
}
