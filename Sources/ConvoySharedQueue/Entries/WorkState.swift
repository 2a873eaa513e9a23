/// Where an entry of a ``SharedQueue`` is.
///
/// The states, the events and the transitions between them are one table. Both stores and the tests use it.
public enum WorkState: String, Sendable, Hashable, CaseIterable {
    /// Its time has not come yet.
    case waiting
    /// A dependency has not ended, or has failed under `FailedDependencyPolicy.hold`.
    case held
    /// A worker can claim it.
    case ready
    /// A worker has claimed it, and holds a lease on it.
    case leased
    /// An attempt has failed. The next one has a time.
    case retrying
    /// It has succeeded.
    case done
    /// It has failed for good: no attempt is left, or none can help.
    case failed
    case cancelled
    /// It was paused, and waits for ``SharedQueue/resume(_:)``.
    case paused
}

extension WorkState {
    /// What can happen to an entry.
    package enum Event: String, Sendable, CaseIterable {
        /// It was enqueued.
        case enqueue
        /// Its time has come.
        case becomeDue
        /// A dependency has ended, or runs again.
        case dependencyChange
        case claim
        /// Its request is about to be sent.
        case begin
        /// A worker reports the end of an attempt.
        case succeed, failForNow, failForGood
        /// A worker gives it back without an attempt.
        case release
        /// Its worker has not renewed its lease.
        case expire
        /// Its deadline has passed.
        case passDeadline
        case cancel, retry, pause, resume
    }

    /// A change of state by an event.
    package struct Transition: Sendable, Hashable {
        package let event: Event
        /// Nil for an entry that is being enqueued.
        package let from: WorkState?
        package let to: WorkState
    }

    /// All changes of state that there are.
    package static let transitions: Set<Transition> = {
        /// Where an entry is put that no attempt is under way for.
        let places: [WorkState] = [.waiting, .held, .ready, .failed]
        var all: Set<Transition> = []
        func add(_ event: Event, _ sources: [WorkState?], _ targets: [WorkState]) {
            for source in sources {
                for target in targets { all.insert(Transition(event: event, from: source, to: target)) }
            }
        }
        add(.enqueue, [nil], places)
        add(.becomeDue, [.waiting, .retrying], [.ready])
        add(.dependencyChange, [.held], places)
        add(.claim, [.ready], [.leased])
        add(.begin, [.leased], [.leased])
        add(.succeed, [.leased], [.done])
        add(.failForNow, [.leased], [.retrying, .failed])
        add(.failForGood, [.leased], [.failed])
        add(.release, [.leased], [.ready])
        add(.expire, [.leased], [.ready, .failed])
        add(.passDeadline, [.waiting, .held, .ready, .retrying, .paused], [.failed])
        add(.cancel, [.waiting, .held, .ready, .leased, .retrying, .paused, .failed], [.cancelled])
        add(.retry, [.waiting, .held, .retrying, .failed, .cancelled, .paused], [.held, .ready])
        add(.pause, [.waiting, .held, .ready, .leased, .retrying], [.paused])
        add(.resume, [.paused], places)
        return all
    }()

    /// The states in which an event can happen.
    package static func sources(of event: Event) -> Set<WorkState> {
        Set(transitions.lazy.filter { $0.event == event }.compactMap(\.from))
    }

    /// The number by which stores know the state. Never changes.
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

    /// Whether the entry has ended: nothing happens to it any more by itself.
    public var isOver: Bool { self == .done || self == .failed || self == .cancelled }
}
