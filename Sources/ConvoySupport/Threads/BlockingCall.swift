import Synchronization

/// A call of code that may never return, which can be given up.
///
/// Exactly one of ``finish()`` and ``giveUp()`` returns true, so whoever goes on, goes on alone.
package final class BlockingCall: Sendable {
    enum State: UInt8, AtomicRepresentable {
        /// No thread has taken it yet.
        case waiting
        case running
        /// The code has returned, and whoever made the call takes its result.
        case finished
        /// Given up before a thread had taken it: the code will not be called.
        case withdrawn
        /// Given up while the code was running. The thread is lost until the code returns.
        case abandoned
    }

    private let state = Atomic<State>(.waiting)

    package init() {}

    /// Notes that a thread calls the code now. False if the call was given up.
    func begin() -> Bool {
        state.compareExchange(expected: .waiting, desired: .running, ordering: .acquiringAndReleasing).exchanged
    }

    /// The code has returned. To be called on its thread. False if the call was given up: its result is not wanted.
    package func finish() -> Bool {
        state.compareExchange(expected: .running, desired: .finished, ordering: .acquiringAndReleasing).exchanged
    }

    /// Gives the call up. False if its code has returned before, or it was given up before. Takes no lock. Tell
    /// ``BlockingWorkers/replaceThread(of:)`` about it afterwards.
    package func giveUp() -> Bool {
        if state.compareExchange(expected: .waiting, desired: .withdrawn, ordering: .acquiringAndReleasing).exchanged {
            return true
        }
        return state.compareExchange(expected: .running, desired: .abandoned, ordering: .acquiringAndReleasing).exchanged
    }

    /// Whether it was given up before its code was called, so that the code will not be called.
    package var isWithdrawn: Bool { state.load(ordering: .acquiring) == .withdrawn }
    /// Whether it was given up while its code was running.
    package var isAbandoned: Bool { state.load(ordering: .acquiring) == .abandoned }
}
