import Testing

@testable import ConvoyOperations

/// The state machine under every sequence of its events, up to a certain length.
///
/// The possible next events depend only on the lifecycle and the running work, so sequences that lead to the same state
/// of both are continued only once.
@Suite struct LifecycleTests {
    /// The state that determines how a sequence can continue, and how far the promises were kept.
    private struct Point: Hashable {
        var life = Lifecycle()
        var works = 0
        var finishes = 0

        /// Every event, for the current attempt and the previous one.
        var events: [Lifecycle.Event] {
            let numbers = [life.attemptNumber, life.attemptNumber &- 1]
            return [.start, .pause, .hold, .resume, .cancel, .expire]
                + numbers.flatMap { number -> [Lifecycle.Event] in
                    [
                        .workStopped(number), .workCompleted(number), .workWillRetry(number), .retryDue(number),
                        .workCanCommit(number), .commitTakesTooLong(number),
                    ]
                }
        }
    }

    private static let allowed: [OperationState: Set<OperationState>] = [
        .ready: [.executing, .paused, .finished],
        .executing: [.ready, .paused, .finished],
        .paused: [.ready, .finished],
        .finished: [],
    ]

    /// Returns the attempt named by an event of the work.
    private func number(of event: Lifecycle.Event) -> Lifecycle.AttemptNumber? {
        switch event {
        case .start, .pause, .hold, .resume, .cancel, .expire: nil
        case .workStopped(let number), .workCompleted(let number), .workWillRetry(let number), .retryDue(let number),
            .workCanCommit(let number), .commitTakesTooLong(let number):
            number
        }
    }

    private func step(_ point: Point, _ event: Lifecycle.Event) -> Point {
        var next = point
        let action = next.life.handle(event)
        let (old, new) = (point.life, next.life)
        if let number = number(of: event), number != old.attemptNumber {
            #expect(new == old && action == .nothing, "an older attempt changed something: \(old) \(event)")
        }
        if old.state != new.state {
            // Within one event, a started operation may pass through executing when a stored outcome is delivered.
            let isAllowed =
                Self.allowed[old.state, default: []].contains(new.state)
                || (old.state == .ready && new.state == .finished)
            #expect(isAllowed, "\(old) \(event) \(new)")
            let isRetry = if case .workWillRetry = event { true } else { false }
            #expect(old.state != .executing || new.state != .ready || isRetry)
        }
        #expect((action == .finish) == (old.state != .finished && new.state == .finished), "\(old) \(event)")
        if action == .finish { next.finishes += 1 }
        if case .begin(let number) = action {
            #expect(new.state == .executing && new.work == .running && !new.isEnding, "\(old) \(event)")
            #expect(number == new.attemptNumber && number == old.attemptNumber + 1)
            // The previous attempt has ended with this event, or long before.
            next.works = 1
        } else {
            #expect(new.attemptNumber == old.attemptNumber)
            if old.isUnderWay(old.attemptNumber), !new.isUnderWay(old.attemptNumber) { next.works -= 1 }
        }
        switch action {
        case .stop(let number), .stopAndFreeSlot(let number), .awaitRetry(let number), .awaitCommit(let number):
            #expect(number == old.attemptNumber, "\(old) \(event)")
        case .holdAndFreeSlot(let number):
            #expect(number == old.attemptNumber && event == .hold && new.work == .running, "\(old) \(event)")
        case .release(let number):
            #expect(number == old.attemptNumber && new.state == .executing && new.work == .running, "\(old) \(event)")
        case .commit(let number):
            #expect(number == old.attemptNumber && old.work != .committing && !old.isEnding, "\(old) \(event)")
        default: break
        }
        #expect((old.work != .committing && new.work == .committing) == (action == .commit(old.attemptNumber)))
        if old.work == .committing, new.state == .finished {
            // The report is correct: it is the outcome of the commit, unless the commit was abandoned.
            let isAbandoned = event == .commitTakesTooLong(old.attemptNumber)
            #expect(new.hasOutcome != isAbandoned && new.isEnding == isAbandoned, "\(old) \(event)")
        }
        #expect(new.work != .committing || !new.isEnding, "it was reported as ended, and commits: \(old) \(event)")
        if new.work == .running, new.state != .executing, old.state == .executing {
            #expect(action == .holdAndFreeSlot(old.attemptNumber), "running work is not held: \(old) \(event)")
        }
        #expect(next.works >= 0 && next.works <= 1, "two attempts work at once: \(old) \(event)")
        #expect(next.finishes <= 1)
        #expect(new.state != .finished || new.wasStarted, "finished before it was started: \(old) \(event)")
        #expect(!old.isCancelled || new.isCancelled)
        #expect(!new.isCancelled || !new.isExpired)
        #expect(Lifecycle(bits: new.bits) == new)
        return next
    }

    @Test func `every sequence of up to eight events upholds the guarantees`() {
        var frontier: [Point: Int] = [Point(): 1]
        var sequences = 0
        for _ in 1...8 {
            var next: [Point: Int] = [:]
            for (point, count) in frontier {
                for event in point.events {
                    next[step(point, event), default: 0] += count
                    sequences += count
                }
            }
            for point in next.keys { expectItCanArrive(from: point) }
            frontier = next
        }
        let events = Point().events.count
        #expect(sequences == (1...8).reduce(0) { sum, length in sum + (0..<length).reduce(1) { n, _ in n * events } })
    }

    /// Checks that the operation finishes from any point if its work ends, pauses end, and the queue starts ready
    /// operations.
    private func expectItCanArrive(from start: Point) {
        var point = start
        for _ in 0..<6 where point.life.state != .finished {
            let number = point.life.attemptNumber
            switch (point.life.work, point.life.state) {
            case (.stopping, _): point = step(point, .workStopped(number))
            case (.running, _), (.committing, _): point = step(point, .workCompleted(number))
            case (_, .paused): point = step(point, .resume)
            case (_, .ready) where point.life.isBackingOff: point = step(point, .retryDue(number))
            default: point = step(point, .start)
            }
        }
        #expect(point.life.state == .finished, "stuck: \(start.life)")
    }

    @Test(
        arguments: [
            (OperationState.ready, []),
            (.executing, [.start]),
            (.paused, [.start, .pause]),
            (.paused, [.pause]),
            (.paused, [.start, .hold]),
            (.paused, [.hold]),
        ] as [(OperationState, [Lifecycle.Event])], [Lifecycle.Event.cancel, .expire])
    func `cancel and expire lead to finished from every state`(
        point: (state: OperationState, before: [Lifecycle.Event]), event: Lifecycle.Event
    ) {
        var life = Lifecycle()
        for event in point.before { _ = life.handle(event) }
        #expect(life.state == point.state)
        var actions = [life.handle(event)]
        if life.work == .stopping { actions.append(life.handle(.workStopped(1))) }
        if life.state != .finished { actions.append(life.handle(.start)) }
        #expect(life.state == .finished)
        #expect(!life.hasOutcome)
        #expect(life.isCancelled == (event == .cancel) && life.isExpired == (event == .expire))
        #expect(actions.last == .finish)
    }

    @Test func `an unstarted operation that is cancelled is marked and finishes in start`() {
        for before in [[], [Lifecycle.Event.pause]] {
            var life = Lifecycle()
            for event in before { _ = life.handle(event) }
            #expect(life.handle(.cancel) == .readinessChanged)
            #expect(life.isCancelled && life.isStartable && life.state == .ready)
            #expect(life.handle(.cancel) == .nothing)
            #expect(life.handle(.start) == .finish)
        }
    }

    @Test func `an expired operation can still be cancelled`() {
        var life = Lifecycle()
        _ = life.handle(.start)
        #expect(life.handle(.expire) == .stop(1))
        #expect(life.handle(.cancel) == .stop(1))
        #expect(life.handle(.expire) == .nothing)
        #expect(life.handle(.workStopped(1)) == .finish)
        #expect(life.isCancelled && !life.isExpired)
    }

    @Test func `an attempt stopped for a pause is stopped again when the operation must end`() {
        for event in [Lifecycle.Event.cancel, .expire] {
            for before in [[], [Lifecycle.Event.resume], [.resume, .start]] {
                var life = Lifecycle()
                _ = life.handle(.start)
                #expect(life.handle(.pause) == .stopAndFreeSlot(1))
                for event in before { _ = life.handle(event) }
                #expect(life.handle(event) == .stop(1))
                #expect(life.handle(.workStopped(1)) == .finish)
            }
        }
    }

    @Test func `held work resumes when the operation is started again`() {
        var life = Lifecycle()
        _ = life.handle(.start)
        for _ in 0..<2 {
            #expect(life.handle(.hold) == .holdAndFreeSlot(1))
            #expect(life.handle(.resume) == .restart)
            #expect(life.handle(.start) == .release(1))
            #expect(life.state == .executing && life.work == .running && life.attemptNumber == 1)
        }
        #expect(life.handle(.workCompleted(1)) == .finish)
    }

    @Test(arguments: [Lifecycle.Event.cancel, .expire])
    func `held work is stopped when the operation ends`(event: Lifecycle.Event) {
        for before in [[], [Lifecycle.Event.resume], [.resume, .hold], [.resume, .start]] {
            var life = Lifecycle()
            for event in [Lifecycle.Event.start, .hold] + before { _ = life.handle(event) }
            #expect(life.handle(event) == .stop(1))
            #expect(life.handle(.workStopped(1)) == .finish)
        }
    }

    @Test func `held work that must be repeated waits for the resume`() {
        for event in [Lifecycle.Event.workStopped(1), .workWillRetry(1)] {
            var life = Lifecycle()
            for event in [Lifecycle.Event.start, .hold] { _ = life.handle(event) }
            #expect(life.handle(event) == .nothing)
            #expect(life.handle(.resume) == .restart)
            #expect(life.handle(.start) == .begin(2))
        }
    }

    @Test func `an outcome that arrives during a pause waits for the resume`() {
        var life = Lifecycle()
        _ = life.handle(.start)
        #expect(life.handle(.pause) == .stopAndFreeSlot(1))
        #expect(life.handle(.workCompleted(1)) == .nothing)
        #expect(life.state == .paused)
        #expect(life.handle(.resume) == .restart)
        #expect(life.handle(.start) == .finish)
        #expect(life.hasOutcome)
    }

    @Test(arguments: [Lifecycle.Event.cancel, .expire])
    func `a cancellation or expiration during a commit counts only if the commit is abandoned`(event: Lifecycle.Event) {
        for isPaused in [false, true] {
            for isGivenUp in [false, true] {
                var life = Lifecycle()
                _ = life.handle(.start)
                #expect(life.handle(.workCanCommit(1)) == .commit(1))
                if isPaused { #expect(life.handle(.pause) == .stopAndFreeSlot(1)) }
                #expect(life.handle(.commitTakesTooLong(1)) == .nothing)
                #expect(life.handle(event) == .awaitCommit(1))
                #expect(life.handle(event) == .nothing && life.handle(.resume) == .nothing)
                #expect(life.handle(.workStopped(1)) == .nothing && life.handle(.workWillRetry(1)) == .nothing)
                #expect(!life.isCancelled && !life.isExpired && life.state != .finished)
                #expect(life.handle(isGivenUp ? .commitTakesTooLong(1) : .workCompleted(1)) == .finish)
                #expect(life.hasOutcome == !isGivenUp)
                #expect(life.isCancelled == (isGivenUp && event == .cancel))
                #expect(life.isExpired == (isGivenUp && event == .expire))
                #expect(life.handle(.workCompleted(1)) == .nothing)
            }
        }
    }

    @Test(arguments: [Lifecycle.Event.cancel, .expire])
    func `an operation cancelled or expired before it can commit has nothing to commit`(event: Lifecycle.Event) {
        var life = Lifecycle()
        _ = life.handle(.start)
        #expect(life.handle(event) == .stop(1))
        #expect(life.handle(.workCanCommit(1)) == .finish)
        #expect(!life.hasOutcome)
    }

    @Test func `a resume during a stop starts the next attempt only after the stop`() {
        var life = Lifecycle()
        _ = life.handle(.start)
        _ = life.handle(.pause)
        _ = life.handle(.resume)
        #expect(life.handle(.start) == .nothing)
        #expect(life.state == .executing)
        #expect(life.handle(.workStopped(1)) == .begin(2))
    }

    @Test func `a retry timer from before a pause does not end a later wait`() {
        var life = Lifecycle()
        for event in [Lifecycle.Event.start, .workWillRetry(1), .pause, .resume, .start, .workWillRetry(2)] {
            _ = life.handle(event)
        }
        #expect(life.isBackingOff)
        #expect(life.handle(.retryDue(1)) == .nothing)
        #expect(life.handle(.retryDue(2)) == .restart)
    }

    @Test func `the attempt number wraps around after its maximum`() {
        var life = Lifecycle()
        var last = life.attemptNumber
        for _ in 0..<70_000 {
            guard case .begin(let number) = life.handle(life.work == .none ? .start : .workStopped(life.attemptNumber))
            else {
                Issue.record("no attempt began")
                return
            }
            guard number == last &+ 1 else {
                Issue.record("attempt \(number) came after \(last)")
                return
            }
            last = number
        }
        #expect(life.handle(.pause) == .stopAndFreeSlot(last))
        #expect(life.handle(.workStopped(last &- 1)) == .nothing && life.handle(.workStopped(last)) == .nothing)
        #expect(life.work == .none)
    }

    @Test func `transitions from many threads are numbered without gaps`() async {
        let life = Shared()
        let numbers = await withTaskGroup(of: [UInt32].self) { group in
            for _ in 0..<4 {
                group.addTask {
                    (0..<5_000).compactMap { index in
                        life.value.handle(index % 2 == 0 ? .pause : .resume).flatMap(\.number)
                    }
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
        #expect(numbers.sorted() == Array(1...UInt32(numbers.count)))
        #expect(life.value.current.number == UInt32(numbers.count))
    }

    @Test func `an event that changes nothing has no transition number`() {
        let life = AtomicLifecycle()
        _ = life.handle(.pause)
        #expect(life.handle(.start)?.number == 2)  // The start is recorded.
        let again = life.handle(.start)
        #expect(again?.action == .slotFreed && again?.number == nil)
    }

    private final class Shared: Sendable { let value = AtomicLifecycle() }
}
