/// The state of an entry of a ``SharedQueue``.
///
/// The states, the events and the transitions form one table, used by both stores and the tests.
public enum WorkState: String, Sendable, Hashable, CaseIterable {
    /// The entry is waiting for its start time.
    case waiting
    /// The entry is waiting for a dependency that has not ended, or that has failed under
    /// `FailedDependencyPolicy.hold`.
    case held
    /// The entry is ready to be claimed by a worker.
    case ready
    /// The entry is claimed by a worker, which holds a lease.
    case leased
    /// The entry is waiting for its next attempt, after a failed one, or after a worker that could not make one.
    case retrying
    /// The entry has succeeded.
    case done
    /// The entry has failed permanently: no attempt is left, or a further attempt would not help.
    case failed
    case cancelled
    /// The entry is paused until ``SharedQueue/resume(_:)``.
    case paused
}

extension WorkState {
    /// An event in the life of an entry.
    package enum Trigger: String, Sendable, CaseIterable {
        /// The entry was enqueued.
        case enqueue
        /// The start time of the entry has been reached.
        case becomeDue
        /// A dependency has ended, or runs again.
        case dependencyChange
        /// A dependency that had failed will be removed.
        case dependencyRemoval
        case claim
        /// The request of the entry is about to be sent.
        case begin
        /// An operation begins or continues, in the process that alone uses the queue.
        case start
        /// A worker reports the end of an attempt.
        case succeed, failForNow, failForGood
        /// A worker returns the entry without having sent its request.
        case release
        /// The worker of the entry has not renewed the lease.
        case expire
        /// The deadline of the entry has passed.
        case passDeadline
        /// The start time of the entry is changed.
        case reschedule
        case cancel, retry, pause, resume
    }

    /// A change of state by an event.
    package struct Transition: Sendable, Hashable {
        package let event: Trigger
        /// The state before; nil for an entry that is being enqueued.
        package let from: WorkState?
        package let to: WorkState
    }

    /// All allowed changes of state.
    package static let transitions: Set<Transition> = {
        /// The states of an entry that is not in progress.
        let places: [WorkState] = [.waiting, .held, .ready, .failed]
        var all: Set<Transition> = []
        func add(_ event: Trigger, _ sources: [WorkState?], _ targets: [WorkState]) {
            for source in sources {
                for target in targets { all.insert(Transition(event: event, from: source, to: target)) }
            }
        }
        add(.enqueue, [nil], places)
        add(.becomeDue, [.waiting, .retrying], [.held, .ready, .failed])
        add(.dependencyChange, [.held], places)
        add(.dependencyChange, [.waiting, .ready, .retrying], [.held])
        add(.dependencyRemoval, [.held, .paused], [.failed])
        // An entry that must not be sent any more is not leased.
        add(.claim, [.ready], [.leased, .held, .failed])
        add(.begin, [.leased], [.leased])
        add(.start, [.waiting, .held, .ready, .leased, .retrying, .paused], [.leased])
        add(.succeed, [.leased], [.done])
        add(.failForNow, [.leased], [.retrying, .held, .failed])
        add(.failForGood, [.leased], [.failed])
        add(.release, [.leased], places + [.retrying])
        add(.expire, [.leased], places)
        add(.passDeadline, [.waiting, .held, .ready, .retrying, .paused], [.failed])
        add(.reschedule, [.waiting, .held, .ready, .retrying], places)
        add(.reschedule, [.paused], [.paused])
        add(.cancel, [.waiting, .held, .ready, .leased, .retrying, .paused, .failed], [.cancelled])
        add(.retry, [.waiting, .held, .retrying, .failed, .cancelled, .paused], [.held, .ready])
        add(.pause, [.waiting, .held, .ready, .leased, .retrying], [.paused])
        add(.resume, [.paused], places)
        return all
    }()

    /// Returns the states in which an event is allowed.
    package static func sources(of event: Trigger) -> Set<WorkState> {
        Set(transitions.lazy.filter { $0.event == event }.compactMap(\.from))
    }

    /// The number that represents the state in stores. It must never change.
    package var code: Int64 {
        switch self {
        case .waiting: 0
        case .held: 1
        case .ready: 2
        case .leased: 3
        case .retrying: 4
        case .done: 5
        case .failed: 6
        case .cancelled: 7
        case .paused: 8
        }
    }

    package init?(code: Int64) {
        guard let state = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = state
    }

    /// Whether the entry has ended, so that nothing more happens to it automatically.
    public var isOver: Bool { self == .done || self == .failed || self == .cancelled }
}
