import Foundation

@testable import ConvoyOperations
@testable import ConvoySharedQueue
@testable import ConvoyTransport

/// The code's own state machines as tables for Promela: each reachable state, and the effect of each event on it.
struct ModelTable {
    /// The named numbers used by the model.
    private(set) var constants: [(name: String, value: Int)] = []
    /// Arrays of numbers in C.
    private(set) var arrays: [(name: String, type: String, text: String)] = []
    private(set) var stateCount = 0

    /// The Promela file that a model includes.
    var definitions: String { constants.map { "#define \($0.name) \($0.value)\n" }.joined() }
    /// The C declarations of the arrays.
    var tables: String { arrays.map { "static const \($0.type) \($0.name) = \($0.text);\n" }.joined() }

    mutating func define(_ name: String, _ value: Int) { constants.append((name, value)) }

    mutating func add(_ name: String, _ values: [Int], type: String = "unsigned char") {
        arrays.append(("\(name)[\(max(1, values.count))]", type, "{\(values.map(String.init).joined(separator: ","))}"))
    }

    mutating func add(_ name: String, _ rows: [[Int]], type: String) {
        let width = rows.first?.count ?? 1
        let text = rows.map { "{\($0.map(String.init).joined(separator: ","))}" }.joined(separator: ",\n")
        arrays.append(("\(name)[\(rows.count)][\(width)]", type, "{\(text)}"))
    }

    /// Explores all states reachable from a state, and the table of transitions; nil for an event that leaves the scope
    /// of the model.
    private mutating func explore<State: Hashable, Action: Hashable>(
        from initial: State, events: Int, nothing: Action, _ step: (State, Int) -> (State, Action)?
    ) -> (states: [State], next: [[Int]], actions: [[Int]], kinds: [Action]) {
        var numbers = [initial: 0], states = [initial]
        var kinds = [nothing], kindNumbers = [nothing: 0]
        var next: [[Int]] = [], actions: [[Int]] = []
        var index = 0
        while index < states.count {
            var nextRow: [Int] = [], actionRow: [Int] = []
            for event in 0..<events {
                guard let (state, action) = step(states[index], event) else {
                    nextRow.append(-1)
                    actionRow.append(0)
                    continue
                }
                if numbers[state] == nil {
                    numbers[state] = states.count
                    states.append(state)
                }
                if kindNumbers[action] == nil {
                    kindNumbers[action] = kinds.count
                    kinds.append(action)
                }
                nextRow.append(numbers[state] ?? -1)
                actionRow.append(kindNumbers[action] ?? 0)
            }
            next.append(nextRow)
            actions.append(actionRow)
            index += 1
        }
        stateCount = states.count
        return (states, next, actions, kinds)
    }
}

// MARK: - The lifecycle of an operation

extension ModelTable {
    /// A function that changes the result of the code's function, to break a promise on purpose.
    typealias LifecycleBreak =
        @Sendable (_ old: Lifecycle, _ event: Lifecycle.Event, inout Lifecycle, inout Lifecycle.Action) -> Void

    private static let plainEvents: [(String, Lifecycle.Event)] = [
        ("START", .start), ("PAUSE", .pause), ("HOLD", .hold), ("RESUME", .resume), ("CANCEL", .cancel),
        ("EXPIRE", .expire),
    ]
    private static let numberedEvents: [(String, @Sendable (Lifecycle.AttemptNumber) -> Lifecycle.Event)] = [
        ("WORK_STOPPED", { .workStopped($0) }), ("WORK_CAN_COMMIT", { .workCanCommit($0) }),
        ("WORK_COMPLETED", { .workCompleted($0) }), ("COMMIT_TAKES_TOO_LONG", { .commitTakesTooLong($0) }),
        ("WORK_WILL_RETRY", { .workWillRetry($0) }), ("RETRY_DUE", { .retryDue($0) }),
    ]

    /// - Parameter maximumAttempts: A limit that the callers of the model cannot reach.
    static func lifecycle(maximumAttempts: Int = 8, breaking: LifecycleBreak? = nil) -> ModelTable {
        var table = ModelTable()
        var events = plainEvents.map(\.1)
        for (index, event) in plainEvents.enumerated() { table.define("EVENT_\(event.0)", index) }
        for (name, make) in numberedEvents {
            // The model adds the number of the attempt, starting at 1.
            table.define("EVENT_\(name)", events.count - 1)
            events += (1...maximumAttempts).map { make(Lifecycle.AttemptNumber($0)) }
        }
        let (states, next, actions, kinds) = table.explore(
            from: Lifecycle(), events: events.count, nothing: Lifecycle.Action.nothing
        ) { old, index in
            var new = old
            var action = new.handle(events[index])
            breaking?(old, events[index], &new, &action)
            return new.attemptNumber > maximumAttempts ? nil : (new, action)
        }
        for (index, state) in OperationState.allCases.enumerated() {
            table.define("STATE_\("\(state)".uppercased())", index)
        }
        for work in Lifecycle.Work.allCases { table.define("WORK_\("\(work)".uppercased())", Int(work.rawValue)) }
        let names = [
            "NOTHING", "BEGIN", "STOP", "FINISH", "READINESS", "RESTART", "SLOT_FREED", "STOP_AND_FREE_SLOT", "AWAIT_RETRY",
            "COMMIT", "AWAIT_COMMIT", "HOLD_AND_FREE_SLOT", "RELEASE",
        ]
        for (index, name) in names.enumerated() { table.define("KIND_\(name)", index) }
        table.define("ACTION_NOTHING", 0)
        table.define("ACTION_COUNT", kinds.count)
        table.define("LIFE_INITIAL", 0)
        table.add("life_next", next, type: "short")
        table.add("life_action", actions, type: "unsigned char")
        table.add("life_state", states.map { Int($0.state.rawValue) })
        table.add("life_ending", states.map { $0.isEnding ? 1 : 0 })
        table.add("life_outcome", states.map { $0.hasOutcome ? 1 : 0 })
        table.add("life_attempt", states.map { Int($0.attemptNumber) })
        table.add("life_work", states.map { Int($0.work.rawValue) })
        table.add("life_startable", states.map { $0.isStartable ? 1 : 0 })
        table.add("life_backing_off", states.map { $0.isBackingOff ? 1 : 0 })
        // The bits mark an operation that was cancelled or expired before its end, even if it commits.
        table.add("life_wants_end", states.map { ($0.bits & (1 << 5 | 1 << 7)) != 0 ? 1 : 0 })
        table.add("action_kind", kinds.map { parts(of: $0).kind })
        table.add("action_attempt", kinds.map { parts(of: $0).attempt })
        return table
    }

    private static func parts(of action: Lifecycle.Action) -> (kind: Int, attempt: Int) {
        switch action {
        case .nothing: (0, 0)
        case .begin(let number): (1, Int(number))
        case .stop(let number): (2, Int(number))
        case .finish: (3, 0)
        case .readinessChanged: (4, 0)
        case .restart: (5, 0)
        case .slotFreed: (6, 0)
        case .stopAndFreeSlot(let number): (7, Int(number))
        case .awaitRetry(let number): (8, Int(number))
        case .commit(let number): (9, Int(number))
        case .awaitCommit(let number): (10, Int(number))
        case .holdAndFreeSlot(let number): (11, Int(number))
        case .release(let number): (12, Int(number))
        }
    }
}

// MARK: - The state of a transfer

extension ModelTable {
    typealias TransferBreak =
        @Sendable (_ old: TransferState, _ event: TransferState.Event, inout TransferState, inout TransferState.Action) ->
        Void

    private static let transferEvents: [(String, TransferState.Event)] = [
        ("HOLD_SINK", .hold(.sink)), ("HOLD_READER", .hold(.reader)), ("HOLD_DECISION", .hold(.decision)),
        ("HOLD_PAUSE", .hold(.pause)),
        ("LIFT_SINK", .lift(.sink)), ("LIFT_READER", .lift(.reader)), ("LIFT_DECISION", .lift(.decision)),
        ("LIFT_PAUSE", .lift(.pause)),
        ("REFUSED", .refused), ("KEPT", .kept), ("DRAINED", .drained), ("STARVED", .starved), ("FED", .fed), ("END", .end),
        ("STOP", .stop),
    ]

    static func transfer(breaking: TransferBreak? = nil) -> ModelTable {
        var table = ModelTable()
        for (index, event) in transferEvents.enumerated() { table.define("EVENT_\(event.0)", index) }
        let (states, next, actions, kinds) = table.explore(
            from: TransferState(), events: transferEvents.count, nothing: TransferState.Action.nothing
        ) { old, index in
            var new = old
            var action = new.handle(transferEvents[index].1)
            breaking?(old, transferEvents[index].1, &new, &action)
            return (new, action)
        }
        for (index, name) in ["NOTHING", "DRAIN", "RUN", "END", "STOPPED"].enumerated() {
            table.define("KIND_\(name)", index)
        }
        table.define("ACTION_COUNT", kinds.count)
        table.add("transfer_next", next, type: "short")
        table.add("transfer_action", actions, type: "unsigned char")
        table.add("transfer_free", states.map { $0.isFree ? 1 : 0 })
        table.add("transfer_kept", states.map { $0.hasKept ? 1 : 0 })
        table.add("transfer_over", states.map { $0.isOver ? 1 : 0 })
        table.add("transfer_paused", states.map { $0.isPaused ? 1 : 0 })
        table.add("action_kind", kinds.map { kind(of: $0) })
        table.add("action_receives", kinds.map { if case .run(let receiving, _) = $0 { receiving ? 1 : 0 } else { 0 } })
        table.add("action_sends", kinds.map { if case .run(_, let sending) = $0 { sending ? 1 : 0 } else { 0 } })
        return table
    }

    private static func kind(of action: TransferState.Action) -> Int {
        switch action {
        case .nothing: 0
        case .drain: 1
        case .run: 2
        case .end: 3
        case .stopped: 4
        }
    }
}

// MARK: - An entry of a shared queue

extension ModelTable {
    typealias EntryBreak =
        @Sendable (_ old: WorkStanding, _ change: WorkStanding.Change, inout WorkStanding, inout Bool) -> Void

    /// - Parameters:
    ///   - sendsAgain: Whether the entry may be sent again if it is unknown whether it has arrived.
    ///   - maximumLease: The number of claims that the model makes.
    static func entry(sendsAgain: Bool, maximumLease: Int64 = 5, breaking: EntryBreak? = nil) -> ModelTable {
        var table = ModelTable()
        let workers = [
            UUID(uuid: (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
            UUID(uuid: (2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
        ]
        var changes: [WorkStanding.Change] = []
        func add(_ name: String, _ more: [WorkStanding.Change], base: Int = 0) {
            table.define("EVENT_\(name)", changes.count - base)
            changes += more
        }
        add("BECOME_DUE", [.becomeDue])
        add("EXPIRE", [.expire])
        add("CANCEL", [.cancel])
        add("RETRY", [.retry])
        add("PAUSE", [.pause])
        add("RESUME", [.resume])
        add("DEPENDENCY_DONE", [.dependencies(open: -1, failed: 0)])
        // The model adds the number of the worker.
        add("CLAIM", workers.map { .claim(worker: $0) })
        // The model adds the number of the lease, starting at 1. For the following events it adds both numbers: (lease
        // - 1) * 2 + worker.
        add("BEGIN", (1...maximumLease).map { .begin(lease: $0) }, base: 1)
        func both(_ change: (UUID, Int64) -> WorkStanding.Change) -> [WorkStanding.Change] {
            (1...maximumLease).flatMap { lease in workers.map { change($0, lease) } }
        }
        func report(_ worker: UUID, _ lease: Int64, _ end: WorkReport.End) -> WorkStanding.Change {
            .report(WorkReport(id: workers[0], worker: worker, lease: lease, end: end))
        }
        add("RELEASE", both { .release(worker: $0, lease: $1) }, base: 2)
        add("SUCCEED", both { report($0, $1, .succeeded) }, base: 2)
        add("FAIL_FOR_NOW", both { report($0, $1, .failedForNow(delay: 0)) }, base: 2)
        add("FAIL_FOR_GOOD", both { report($0, $1, .failed) }, base: 2)

        var initial = WorkStanding()
        initial.openDependencies = 1
        initial.maximumAttempts = 2
        initial.sendsAgain = sendsAgain
        initial.apply(.enqueue, now: 0)
        let (states, next, actions, _) = table.explore(from: initial, events: changes.count, nothing: false) { old, index in
            var new = old
            var isAccepted = new.apply(changes[index], now: 0)
            breaking?(old, changes[index], &new, &isAccepted)
            return new.lease > maximumLease || new.openDependencies < 0 || new.attempts < 0 ? nil : (new, isAccepted)
        }
        for state in WorkState.allCases { table.define("STATE_\(state.rawValue.uppercased())", Int(state.code)) }
        table.define("SENDS_AGAIN", sendsAgain ? 1 : 0)
        table.define("MAXIMUM_LEASE", Int(maximumLease))
        table.add("entry_next", next, type: "short")
        table.add("entry_accepted", actions, type: "unsigned char")
        table.add("entry_state", states.map { Int($0.state.code) })
        table.add("entry_lease", states.map { Int($0.lease) })
        table.add("entry_over", states.map { $0.state.isOver ? 1 : 0 })
        table.add("entry_due", states.map { $0.state == .retrying || $0.state == .waiting ? 1 : 0 })
        return table
    }
}
