import ConvoySupport
import Foundation
import Synchronization

/// A listener that is called when any operation of the process becomes active or inactive.
package protocol ActivityListener: AnyObject, Sendable {
    /// Called when an operation has begun, stopped, resumed or ended. The operation's state shows the current activity,
    /// and may be newer than this change. Called on any thread; must return quickly.
    func activityDidChange(of operation: URLConnectionOperation)
}

/// The listeners of all operations. Without listeners, each change to an operation costs one atomic read.
package enum ActivityListeners {
    private struct Listener {
        weak var object: (any ActivityListener)?
    }

    private static let areListening = Atomic<Bool>(false)
    private static let all = Locked<[ObjectIdentifier: Listener]>([:])

    /// Adds a listener for all later changes, without retaining it.
    package static func add(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = Listener(object: listener)
            areListening.store(true, ordering: .sequentiallyConsistent)
        }
    }

    /// Removes a listener. Call this before the listener is released.
    package static func remove(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = nil
            areListening.store(!all.isEmpty, ordering: .sequentiallyConsistent)
        }
    }

    /// Reports a change to an operation's activity to the listeners, if any.
    static func note(_ transition: AtomicLifecycle.Transition, of operation: URLConnectionOperation) {
        guard areListening.load(ordering: .relaxed) else { return }
        guard (transition.old.state == .executing) != (transition.new.state == .executing) else { return }
        // The activity of a part is that of its parent operation, and an operation without a slot is idle most of the
        // time.
        guard operation.takesSlot, !operation.settings.values.holder.isPart else { return }
        let listeners = all.withLock { all in all.values.compactMap(\.object) }
        for listener in listeners { listener.activityDidChange(of: operation) }
    }
}
