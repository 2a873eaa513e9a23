import ConvoyDownloads
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

/// The state machine of an entry, without a database.
@Suite struct WorkStandingTests {
    /// A standing that an expectation may change.
    @dynamicMemberLookup final class Subject {
        var standing = WorkStanding()

        func apply(_ change: WorkStanding.Change, now: Int64) -> Bool { standing.apply(change, now: now) }

        subscript<Value>(dynamicMember path: WritableKeyPath<WorkStanding, Value>) -> Value {
            get { standing[keyPath: path] }
            set { standing[keyPath: path] = newValue }
        }
    }

    private func leased(_ change: (Subject) -> Void = { _ in }) -> (standing: Subject, worker: UUID) {
        let standing = Subject()
        standing.maximumAttempts = 3
        change(standing)
        let worker = UUID()
        #expect(standing.apply(.claim(worker: worker), now: 1))
        return (standing, worker)
    }

    private func report(_ standing: Subject, _ end: WorkReport.End) -> WorkStanding.Change {
        .report(WorkReport(id: UUID(), worker: standing.worker ?? UUID(), lease: standing.lease, end: end))
    }

    @Test("only the holder of the last lease can report")
    func fencing() {
        let (standing, worker) = leased()
        let old = report(standing, .succeeded)
        #expect(standing.apply(.expire, now: 2))
        #expect(standing.state == .ready)
        #expect(!standing.apply(old, now: 3))
        #expect(standing.apply(.claim(worker: worker), now: 4))
        #expect(!standing.apply(old, now: 5), "the same worker, an earlier lease")
        #expect(standing.apply(report(standing, .succeeded), now: 6))
        #expect(standing.state == .done)
    }

    @Test("a failed attempt is repeated until no attempt is left")
    func attempts() {
        let standing = Subject()
        standing.maximumAttempts = 2
        for attempt in 1...2 {
            #expect(standing.apply(.claim(worker: UUID()), now: 10))
            #expect(standing.attempts == attempt)
            #expect(standing.apply(report(standing, .failedForNow(delay: 5)), now: 20))
            if attempt == 1 {
                #expect(standing.state == .retrying)
                #expect(!standing.apply(.becomeDue, now: 24))
                #expect(standing.apply(.becomeDue, now: 25))
            }
        }
        #expect(standing.state == .failed)
    }

    @Test("an entry that must not be sent twice fails when its worker has ended")
    func unknownOutcome() {
        let (standing, _) = leased { $0.sendsAgain = false }
        #expect(!standing.apply(.begin(lease: 7), now: 2))
        let unsent = standing.standing
        #expect(standing.apply(.expire, now: 2))
        #expect(standing.state == .ready, "nothing of it was sent")
        standing.standing = unsent
        #expect(standing.apply(.begin(lease: 1), now: 2))
        #expect(!standing.apply(.pause, now: 2))
        #expect(standing.apply(.expire, now: 2))
        #expect(standing.state == .failed)
        #expect(standing.error == WorkStanding.unknownOutcome)
        #expect(standing.apply(.retry, now: 3))
        #expect(standing.state == .ready)
    }

    @Test("the time of a claim does not change when the request is sent")
    func claimTime() {
        let (standing, _) = leased()
        #expect(standing.changed == 1)
        #expect(standing.apply(.begin(lease: standing.lease), now: 5))
        #expect(standing.changed == 1 && standing.hasBegun)
        #expect(standing.apply(report(standing, .succeeded), now: 9))
        #expect(standing.changed == 9)
    }

    @Test("an operation begins in any state, and counts attempts only if told to")
    func start() {
        for state in [WorkState.waiting, .held, .ready, .paused] {
            let standing = Subject()
            (standing.state, standing.openDependencies, standing.due) = (state, 1, 100)
            let worker = UUID()
            #expect(standing.apply(.start(worker: worker, attempts: 1), now: 2))
            #expect(standing.state == .leased && standing.attempts == 1 && standing.hasBegun && standing.due == 0)
            #expect(standing.apply(.pause, now: 3) && standing.apply(.start(worker: worker, attempts: 0), now: 4))
            #expect(standing.state == .leased && standing.attempts == 1)
            #expect(standing.apply(report(standing, .succeeded), now: 5))
        }
    }

    @Test("the deadline applies to the first and to the next attempt")
    func deadline() {
        let standing = Subject()
        (standing.deadline, standing.maximumAttempts) = (100, 5)
        #expect(!standing.apply(.passDeadline, now: 99))
        #expect(standing.apply(.claim(worker: UUID()), now: 99))
        #expect(!standing.apply(.passDeadline, now: 101))
        #expect(standing.apply(report(standing, .failedForNow(delay: 1)), now: 101))
        #expect(standing.state == .failed)
    }

    @Test("a changed start time applies to entries that are not running")
    func rescheduling() {
        let standing = Subject()
        standing.maximumAttempts = 3
        #expect(standing.apply(.reschedule(delay: 10), now: 5))
        #expect(standing.state == .waiting && standing.due == 15)
        #expect(standing.apply(.reschedule(delay: 0), now: 6))
        #expect(standing.state == .ready && standing.due == 6)
        #expect(standing.apply(.claim(worker: UUID()), now: 7))
        #expect(!standing.apply(.reschedule(delay: 0), now: 7))
        #expect(standing.apply(report(standing, .failedForNow(delay: 100)), now: 8))
        #expect(standing.apply(.reschedule(delay: 0), now: 9))
        #expect(standing.state == .ready && standing.attempts == 1)
        #expect(standing.apply(.pause, now: 10))
        #expect(standing.apply(.reschedule(delay: 10), now: 10))
        #expect(standing.state == .paused)
        #expect(standing.apply(.resume, now: 11))
        #expect(standing.state == .waiting && standing.due == 20)
        #expect(standing.apply(.cancel, now: 12) && !standing.apply(.reschedule(delay: 0), now: 13))
    }

    @Test("entries that have succeeded or were cancelled expire, and failed ones are kept")
    func lifetime() {
        for (end, expires) in [(WorkReport.End.succeeded, 107), (.failed, nil)] as [(WorkReport.End, Int64?)] {
            let (standing, _) = leased { $0.kept = 100 }
            #expect(standing.apply(report(standing, end), now: 7))
            #expect(standing.expires == expires)
            #expect(standing.apply(.cancel, now: 9) == (end == .failed))
            #expect(standing.expires == (end == .failed ? 109 : 107))
        }
    }

    @Test("extreme times and delays do not trap")
    func edges() {
        let standing = Subject()
        (standing.maximumAttempts, standing.kept) = (.max, .max)
        #expect(standing.apply(.claim(worker: UUID()), now: .max))
        #expect(standing.apply(report(standing, .failedForNow(delay: .max)), now: .max))
        #expect(standing.due == .max)
        #expect(standing.apply(.cancel, now: .max))
        #expect(standing.expires == .max)
    }

    @Test(
        "a failed dependency holds, fails or releases its dependents according to the policy, and a manual retry releases them",
        arguments: FailedDependencyPolicy.allCases)
    func dependencies(policy: FailedDependencyPolicy) {
        let standing = Subject()
        (standing.policy, standing.openDependencies) = (policy, 2)
        #expect(standing.apply(.enqueue, now: 1))
        #expect(standing.state == .held)
        #expect(standing.apply(.dependencies(open: -1, failed: 1), now: 2))
        #expect(standing.state == .held)
        #expect(standing.apply(.dependencies(open: -1, failed: 0), now: 3))
        switch policy {
        case .hold: #expect(standing.state == .held)
        case .run: #expect(standing.state == .ready)
        case .fail: #expect(standing.state == .failed)
        }
        if policy != .run {
            #expect(standing.apply(.retry, now: 4))
            #expect(standing.state == .ready)
        }
    }

    @Test("each event is allowed exactly in the states of the table, and leads to one of its states")
    func table() {
        for state in WorkState.allCases {
            for event in WorkState.Trigger.allCases where event != .enqueue {
                var standing = WorkStanding()
                (standing.state, standing.maximumAttempts, standing.deadline) = (state, 9, 5)
                let worker = UUID()
                if state == .leased { (standing.worker, standing.lease) = (worker, 1) }
                if state == .held { standing.openDependencies = 1 }
                if event == .dependencyRemoval { standing.failedDependencies = 1 }
                let old = standing
                let change: WorkStanding.Change =
                    switch event {
                    case .enqueue: .enqueue
                    case .becomeDue: .becomeDue
                    case .dependencyChange: .dependencies(open: -1, failed: 0)
                    case .dependencyRemoval: .dependencyRemoval
                    case .claim: .claim(worker: worker)
                    case .begin: .begin(lease: 1)
                    case .start: .start(worker: worker, attempts: 1)
                    case .succeed: .report(WorkReport(id: UUID(), worker: worker, lease: 1, end: .succeeded))
                    case .failForNow: .report(WorkReport(id: UUID(), worker: worker, lease: 1, end: .failedForNow(delay: 0)))
                    case .failForGood: .report(WorkReport(id: UUID(), worker: worker, lease: 1, end: .failed))
                    case .release: .release(worker: worker, lease: 1)
                    case .expire: .expire
                    case .passDeadline: .passDeadline
                    case .reschedule: .reschedule(delay: 0)
                    case .cancel: .cancel
                    case .retry: .retry
                    case .pause: .pause
                    case .resume: .resume
                    }
                let isPossible = WorkState.sources(of: event).contains(state)
                let done = standing.apply(change, now: 4 + (event == .passDeadline ? 1 : 0))
                if case .dependencyChange = event {
                    #expect(done, "counts are kept in every state")
                    #expect(isPossible || standing.state == old.state)
                } else {
                    #expect(done == isPossible, "\(event) in \(state)")
                    if !done { #expect(standing == old) }
                }
            }
        }
        // An entry that has ended does not change automatically, and every other one can end.
        for state in WorkState.allCases {
            let events = WorkState.transitions.filter { $0.from == state }.map(\.event)
            let byHand: Set<WorkState.Trigger> = [.cancel, .retry]
            #expect(Set(events).subtracting(byHand).isEmpty == state.isOver, "\(state)")
        }
    }

    /// Ten workers, and entries that depend on each other, with random kills, pauses, cancels and times.
    @Test("in random histories of ten workers every entry ends once, and never has two leases", arguments: 0..<40)
    func histories(number: Int) throws {
        let seed = UInt64(ProcessInfo.processInfo.environment["CONVOY_SEED"] ?? "") ?? 0x5EED
        var model = WorkModel(SplitMix64(seed: seed &+ UInt64(number)))
        try model.run(entries: 60, steps: 4000)
    }
}

/// The expected queue: standings in memory.
private struct WorkModel {
    var random: SplitMix64
    var now: Int64 = 0
    var entries: [Int: WorkStanding] = [:]
    var needs: [Int: Set<Int>] = [:]
    var workers: [UUID]
    /// The entries that each worker assumes to have leased.
    var believed: [UUID: [Int: Int64]] = [:]
    /// How often each entry has ended, and how often it was revived manually.
    var ends: [Int: Int] = [:], revivals: [Int: Int] = [:]

    init(_ random: SplitMix64) {
        self.random = random
        workers = (0..<10).map { _ in UUID() }
    }

    mutating func apply(_ change: WorkStanding.Change, to id: Int) -> Bool {
        guard var standing = entries[id] else { return false }
        let old = standing
        guard standing.apply(change, now: now) else {
            #expect(standing == old)
            return false
        }
        entries[id] = standing
        if old.outcome == nil, standing.outcome != nil { ends[id, default: 0] += 1 }
        if old.outcome != nil, standing.outcome == nil { revivals[id, default: 0] += 1 }
        let counts = WorkStanding.counts(from: old.outcome, to: standing.outcome)
        if counts != (0, 0) {
            for (dependent, needed) in needs where needed.contains(id) {
                _ = apply(.dependencies(open: counts.open, failed: counts.failed), to: dependent)
            }
        }
        return true
    }

    mutating func run(entries count: Int, steps: Int) throws {
        for id in 0..<count { enqueue(id) }
        for _ in 0..<steps { step(count) }
        check()
        // From here on, no step fails.
        for id in entries.keys where entries[id]?.state == .paused { _ = apply(.resume, to: id) }
        for id in entries.keys where entries[id]?.state == .leased { _ = apply(.expire, to: id) }
        var rounds = 0
        while let id = entries.first(where: { !$0.value.state.isOver })?.key {
            rounds += 1
            try #require(rounds < count * 200, "entry \(id) does not end: \(String(describing: entries[id]))")
            now += 1000
            for id in entries.keys { finish(id) }
        }
        check()
        for id in entries.keys { #expect(ends[id] == 1 + revivals[id, default: 0], "entry \(id)") }
    }

    private mutating func enqueue(_ id: Int) {
        var standing = WorkStanding()
        standing.policy = FailedDependencyPolicy.allCases.randomElement(using: &random) ?? .hold
        standing.maximumAttempts = Int.random(in: 1...4, using: &random)
        standing.sendsAgain = Bool.random(using: &random) || Bool.random(using: &random)
        standing.due = Int64.random(in: 0...50, using: &random)
        if Int.random(in: 0..<8, using: &random) == 0 { standing.deadline = Int64.random(in: 1...3000, using: &random) }
        var needed: Set<Int> = []
        for _ in 0..<Int.random(in: 0...3, using: &random) where id > 0 {
            needed.insert(Int.random(in: 0..<id, using: &random))
        }
        for other in needed {
            switch entries[other]?.outcome {
            case nil: standing.openDependencies += 1
            case .failed: standing.failedDependencies += 1
            case .succeeded: break
            }
        }
        needs[id] = needed
        let isPlaced = standing.apply(.enqueue, now: now)
        #expect(isPlaced)
        entries[id] = standing
        if standing.outcome != nil { ends[id, default: 0] += 1 }
    }

    private mutating func step(_ count: Int) {
        let id = Int.random(in: 0..<count, using: &random)
        let worker = workers[Int.random(in: 0..<workers.count, using: &random)]
        now += Int64.random(in: 0...3, using: &random)
        switch Int.random(in: 0..<22, using: &random) {
        case 0..<6:
            if apply(.claim(worker: worker), to: id), let entry = entries[id], entry.state == .leased {
                #expect(entry.openDependencies == 0)
                #expect(entry.deadline.map { $0 > now } ?? true)
                let lease = entry.lease
                believed[worker, default: [:]][id] = lease
            }
        case 6..<12:
            // The worker reports an entry that it assumes to have leased, even if it has lost the lease.
            guard let (claimed, lease) = believed[worker]?.randomElement(using: &random) else { return }
            let delay = Int64.random(in: 0...40, using: &random)
            let end: WorkReport.End = [.succeeded, .failed, .failedForNow(delay: delay), .returned(delay: delay)][
                Int.random(in: 0..<4, using: &random)]
            let holds = entries[claimed]?.worker == worker && entries[claimed]?.lease == lease
            let report = WorkReport(id: UUID(), worker: worker, lease: lease, end: end)
            let isAccepted = apply(.report(report), to: claimed)
            #expect(isAccepted == holds)
            believed[worker]?[claimed] = nil
        case 12:
            if let (claimed, lease) = believed[worker]?.randomElement(using: &random) {
                _ = apply(.begin(lease: lease), to: claimed)
            }
        case 13: if entries[id]?.state == .leased { _ = apply(.expire, to: id) }
        case 14: _ = apply(.becomeDue, to: id)
        case 15: _ = apply(.passDeadline, to: id)
        case 16: _ = apply(.pause, to: id)
        case 17: _ = apply(.resume, to: id)
        case 18: _ = apply(.retry, to: id)
        case 20: _ = apply(.reschedule(delay: Int64.random(in: 0...60, using: &random)), to: id)
        case 19:
            if Int.random(in: 0..<4, using: &random) == 0 { _ = apply(.cancel, to: id) }
        default:
            if let (claimed, lease) = believed[worker]?.randomElement(using: &random) {
                _ = apply(.release(worker: worker, lease: lease), to: claimed)
                believed[worker]?[claimed] = nil
            }
        }
    }

    /// Makes one step towards the end of an entry.
    private mutating func finish(_ id: Int) {
        guard let standing = entries[id] else { return }
        switch standing.state {
        case .waiting, .retrying: _ = apply(.becomeDue, to: id)
        case .ready: _ = apply(.claim(worker: workers[0]), to: id)
        case .leased:
            let report = WorkReport(id: UUID(), worker: workers[0], lease: standing.lease, end: .succeeded)
            _ = apply(.report(report), to: id)
        // Only an entry held by a failed dependency does not end automatically.
        case .held where standing.openDependencies == 0: _ = apply(.cancel, to: id)
        default: break
        }
    }

    private func check() {
        for (id, standing) in entries {
            let outcomes = needs[id, default: []].map { entries[$0]?.outcome }
            #expect(standing.openDependencies == outcomes.count { $0 == .some(nil) }, "entry \(id)")
            #expect(standing.failedDependencies == outcomes.count { $0 == .failed }, "entry \(id)")
            #expect((standing.worker != nil) == (standing.state == .leased))
            #expect(standing.attempts >= 0)
            if [.ready, .waiting, .retrying].contains(standing.state) { #expect(standing.openDependencies == 0) }
        }
    }
}
