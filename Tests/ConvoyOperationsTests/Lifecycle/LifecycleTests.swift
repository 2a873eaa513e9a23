import Testing

@testable import ConvoyOperations

/// The state machine under every sequence of its events, up to a length.
///
/// What can follow depends on the lifecycle and on what the environment knows (whether a queue holds the operation,
/// how much work is under way), so sequences that lead to the same of both are walked on from once.
@Suite struct LifecycleTests {
    /// All that decides how a sequence can go on, and all that a promise has been kept so far.
    private struct Point: Hashable {
        var life = Lifecycle()
        var works = 0
        var finishes = 0
    }

    private static let allowed: [OperationState: Set<OperationState>] = [
        .ready: [.executing, .paused, .finished],
        .executing: [.ready, .paused, .finished],
        .paused: [.ready, .finished],
        .finished: [],
    ]

    private func step(_ point: Point, _ event: Lifecycle.Event) -> Point {
        var next = point
        let action = next.life.handle(event)
        let (old, new) = (point.life, next.life)
        if old.state != new.state {
            // Within one event a started operation may run through executing: a stored outcome is delivered.
            let isAllowed =
                Self.allowed[old.state, default: []].contains(new.state)
                || (old.state == .ready && new.state == .finished)
            #expect(isAllowed, "\(old) \(event) \(new)")
            #expect(old.state != .executing || new.state != .ready || event == .workWillRetry)
        }
        #expect((action == .finish) == (old.state != .finished && new.state == .finished), "\(old) \(event)")
        if action == .finish { next.finishes += 1 }
        if action == .begin {
            #expect(new.state == .executing && new.work == .running && !new.isCancelled, "\(old) \(event)")
            // A repeated work is the same one over again.
            if event != .workMustRepeat || old.work != .running { next.works += 1 }
        }
        let ends = [.running, .stopping].contains(old.work) && new.work != old.work && new.work != .stopping
        if ends { next.works -= 1 }
        #expect(next.works >= 0 && next.works <= 1, "two works at once: \(old) \(event)")
        #expect(next.finishes <= 1)
        if new.state == .finished {
            #expect(new.wasStarted || event == .cancelAlone || old.state == .finished,
                "finished before anybody started it: \(old) \(event)")
            #expect(new.endedByCancel == new.isCancelled || !new.endedByCancel)
        }
        #expect(!old.isCancelled || new.isCancelled)
        #expect(Lifecycle(bits: new.bits) == new)
        return next
    }

    @Test func everySequenceOfEventsUpToLengthEightKeepsThePromises() {
        var frontier: [Point: Int] = [Point(): 1]
        var sequences = 0
        for _ in 1...8 {
            var next: [Point: Int] = [:]
            for (point, count) in frontier {
                for event in Lifecycle.Event.allCases {
                    next[step(point, event), default: 0] += count
                    sequences += count
                }
            }
            for point in next.keys { expectItCanArrive(from: point) }
            frontier = next
        }
        let events = Lifecycle.Event.allCases.count
        #expect(sequences == (1...8).reduce(0) { sum, length in sum + (0..<length).reduce(1) { n, _ in n * events } })
    }

    /// Whatever has happened: if the work ends, whoever paused resumes, and the queue starts what is ready, it finishes.
    private func expectItCanArrive(from start: Point) {
        var point = start
        for _ in 0..<6 where point.life.state != .finished {
            switch (point.life.work, point.life.state) {
            case (.stopping, _): point = step(point, .workStopped)
            case (.running, _): point = step(point, .workCompleted)
            case (_, .paused): point = step(point, .resume)
            case (_, .ready) where point.life.isBackingOff: point = step(point, .retryDue)
            default: point = step(point, .start)
            }
        }
        #expect(point.life.state == .finished, "stuck: \(start.life)")
    }

    @Test(arguments: [
        (OperationState.ready, []),
        (.executing, [.start]),
        (.paused, [.start, .pause]),
        (.paused, [.pause]),
    ] as [(OperationState, [Lifecycle.Event])])
    func cancelLeadsToFinishedFromEveryState(state: OperationState, before: [Lifecycle.Event]) {
        var life = Lifecycle()
        for event in before { _ = life.handle(event) }
        #expect(life.state == state)
        var actions = [life.handle(.cancelInQueue)]
        if life.work == .stopping { actions.append(life.handle(.workStopped)) }
        if life.state != .finished { actions.append(life.handle(.start)) }
        #expect(life.state == .finished)
        #expect(life.endedByCancel)
        #expect(actions.last == .finish)
    }

    @Test func anOutcomeThatComesInAPauseWaitsForTheResume() {
        var life = Lifecycle()
        _ = life.handle(.start)
        #expect(life.handle(.pause) == .stopAndFreeSlot)
        #expect(life.handle(.workCompleted) == .nothing)
        #expect(life.state == .paused)
        #expect(life.handle(.resume) == .restart)
        #expect(life.handle(.start) == .finish)
        #expect(!life.endedByCancel)
    }

    @Test func aResumeBeforeTheStopIsDoneBeginsAnewOnlyAfterIt() {
        var life = Lifecycle()
        _ = life.handle(.start)
        _ = life.handle(.pause)
        _ = life.handle(.resume)
        #expect(life.handle(.start) == .nothing)
        #expect(life.state == .executing)
        #expect(life.handle(.workStopped) == .begin)
    }

    @Test func transitionsOfManyThreadsAreNumberedWithoutGaps() async {
        let life = Shared()
        let numbers = await withTaskGroup(of: [UInt32].self) { group in
            for _ in 0..<4 {
                group.addTask {
                    (0..<5_000).compactMap { index in
                        life.value.handle(index % 2 == 0 ? .pause : .resume).flatMap {
                            $0.old == $0.new ? nil : $0.number
                        }
                    }
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
        #expect(numbers.sorted() == Array(1...UInt32(numbers.count)))
        #expect(life.value.number == UInt32(numbers.count))
    }

    private final class Shared: Sendable { let value = AtomicLifecycle() }
}
