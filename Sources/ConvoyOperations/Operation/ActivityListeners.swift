import ConvoySupport
import Synchronization

/// Hears of all operations of the process that begin or cease to be under way.
protocol ActivityListener: AnyObject, Sendable {
    /// The operation has begun, stopped, gone on or ended; its state says which, and may be newer than what is told here.
    /// Called on any thread, and must be short.
    func activityDidChange(of operation: URLConnectionOperation)
}

/// Those who hear of all operations. Where there are none, an operation pays for one atomic read per change.
enum ActivityListeners {
    private struct Listener {
        weak var object: (any ActivityListener)?
    }

    private static let areListening = Atomic<Bool>(false)
    private static let all = Locked<[ObjectIdentifier: Listener]>([:])

    /// Lets an object hear of all changes from now on. It is not retained.
    static func add(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = Listener(object: listener)
            areListening.store(true, ordering: .sequentiallyConsistent)
        }
    }

    /// To be called by whoever was added, at its end at the latest.
    static func remove(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = nil
            areListening.store(!all.isEmpty, ordering: .sequentiallyConsistent)
        }
    }

    /// Tells of a change of an operation, if anybody wants to know and it has to do with being under way.
    static func note(_ transition: AtomicLifecycle.Transition, of operation: URLConnectionOperation) {
        guard areListening.load(ordering: .relaxed) else { return }
        guard (transition.old.state == .executing) != (transition.new.state == .executing) else { return }
        // What does a part of another's work is that one's activity, and what takes no slot mostly waits.
        guard !operation.core.withLock({ $0.common.values.holder.isPart || $0.worker?.takesSlot == false }) else { return }
        let listeners = all.withLock { all in all.values.compactMap(\.object) }
        for listener in listeners { listener.activityDidChange(of: operation) }
    }
}
