import Synchronization

/// A `Lifecycle` shared by many threads: read without a lock, and changed by compare-and-exchange, so that no
/// transition overwrites another.
///
/// Changes are numbered, so that observers can put them back in order.
package struct AtomicLifecycle: ~Copyable, Sendable {
    /// The lifecycle in the lower half, the number of its last change in the upper half.
    private let word = Atomic<UInt64>(UInt64(Lifecycle().bits))

    package init() {}

    package struct Transition: Sendable {
        package let old: Lifecycle
        package let new: Lifecycle
        package let action: Lifecycle.Action
        /// The number of the change: one more than the previous one. Nil if nothing has changed and there is only an
        /// action.
        package let number: UInt32?
    }

    package var value: Lifecycle { Lifecycle(bits: UInt32(truncatingIfNeeded: word.load(ordering: .acquiring))) }

    /// The lifecycle, and the number of its last change.
    package var current: (life: Lifecycle, number: UInt32) {
        let word = word.load(ordering: .sequentiallyConsistent)
        return (Lifecycle(bits: UInt32(truncatingIfNeeded: word)), UInt32(truncatingIfNeeded: word >> 32))
    }

    /// Applies an event; nil if it changes nothing and requires no action.
    package borrowing func handle(_ event: Lifecycle.Event) -> Transition? {
        var current = word.load(ordering: .acquiring)
        while true {
            let old = Lifecycle(bits: UInt32(truncatingIfNeeded: current))
            var new = old
            let action = new.handle(event)
            if new == old {
                guard action != .nothing else { return nil }
                return Transition(old: old, new: new, action: action, number: nil)
            }
            let number = UInt32(truncatingIfNeeded: current >> 32) &+ 1
            let (exchanged, original) = word.compareExchange(
                expected: current, desired: UInt64(number) << 32 | UInt64(new.bits),
                ordering: .sequentiallyConsistent)
            if exchanged { return Transition(old: old, new: new, action: action, number: number) }
            current = original
        }
    }
}
