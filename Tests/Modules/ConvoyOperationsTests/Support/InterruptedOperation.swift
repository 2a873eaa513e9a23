import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

@testable import ConvoyOperations

/// An operation in which a test can intervene after each change, before its action is performed.
final class InterruptedOperation: HTTPRequestOperation, @unchecked Sendable {
    typealias Interruption =
        @Sendable (_ transition: AtomicLifecycle.Transition, _ proceed: @escaping @Sendable () -> Void) -> Void

    /// A wrapper for the closure, because a closure stored directly in a generic type would be wrapped again each time
    /// it is read.
    private struct Stored { let call: Interruption }
    private let interruption = Locked<Stored?>(nil)

    /// Sets a closure that is called instead of each action. It calls `proceed` once, on any thread and at any later
    /// time.
    func interrupt(_ interruption: Interruption?) {
        let stored = interruption.map(Stored.init(call:))
        self.interruption.withLock { $0 = stored }
    }

    /// Whether the response is not parsed, so that it is not processed on another queue and the test controls the order
    /// of events.
    override var serializesPlainly: Bool { true }

    override func proceed(after transition: AtomicLifecycle.Transition) {
        guard let interruption = interruption.withLock({ $0 }) else { return super.proceed(after: transition) }
        interruption.call(transition) { self.reallyProceed(after: transition) }
    }

    private func reallyProceed(after transition: AtomicLifecycle.Transition) { super.proceed(after: transition) }
}

/// A set of events that are applied to an operation on separate threads. The action of the first change made by each
/// event is held back until it is released.
final class HeldEvents: Sendable {
    private final class Held: Sendable {
        let hasMadeItsChange = Atomic<Bool>(false)
        /// A semaphore that is signalled when the change waits, or when the event has ended without a change.
        let reached = DispatchSemaphore(value: 0)
        let released = DispatchSemaphore(value: 0)
        let over = DispatchSemaphore(value: 0)
    }

    private let held = Locked<[(thread: pthread_t, event: Held)]>([])

    init(of operation: InterruptedOperation) {
        operation.interrupt { [self] _, proceed in
            let here = pthread_self()
            let mine = held.withLock { $0.last { pthread_equal($0.thread, here) != 0 }?.event }
            if let mine, !mine.hasMadeItsChange.exchange(true, ordering: .relaxed) {
                mine.reached.signal()
                _ = mine.released.wait(timeout: .now() + patience)
            }
            proceed()
        }
    }

    /// Returns when the action of the event's change is held back, or when the event has ended.
    func begin(_ event: @escaping @Sendable () -> Void) {
        let mine = Held()
        Thread { [self] in
            held.withLock { $0.append((pthread_self(), mine)) }
            event()
            mine.over.signal()
            mine.reached.signal()
        }.start()
        mine.reached.wait()
        all.withLock { $0.append(mine) }
    }

    private let all = Locked<[Held]>([])

    /// Lets the action of an event be performed.
    func release(_ index: Int) { all.withLock { $0[index] }.released.signal() }

    /// Waits until an event has ended. Returns false if it hangs.
    func wait(for index: Int, within seconds: Double = patience) -> Bool {
        let event = all.withLock { $0[index] }
        guard event.over.wait(timeout: .now() + seconds) == .success else { return false }
        event.over.signal()
        return true
    }
}
