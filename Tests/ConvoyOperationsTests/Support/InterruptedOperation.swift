import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

@testable import ConvoyOperations

/// An operation in which a test can intervene after each change, before its action is carried out.
final class InterruptedOperation: HTTPRequestOperation, @unchecked Sendable {
    typealias Interruption =
        @Sendable (_ transition: AtomicLifecycle.Transition, _ proceed: @escaping @Sendable () -> Void) -> Void

    /// A closure stored directly in a generic type would be wrapped again each time it is read.
    private struct Stored { let call: Interruption }
    private let interruption = Locked<Stored?>(nil)

    /// Called in place of each action. It calls `proceed` once, on any thread and as late as it likes.
    func interrupt(_ interruption: Interruption?) {
        let stored = interruption.map(Stored.init(call:))
        self.interruption.withLock { $0 = stored }
    }

    /// It leaves the response alone: so that is not processed on another queue, and a test decides what comes when.
    override var serializesPlainly: Bool { true }

    override func proceed(after transition: AtomicLifecycle.Transition) {
        guard let interruption = interruption.withLock({ $0 }) else { return super.proceed(after: transition) }
        interruption.call(transition) { self.reallyProceed(after: transition) }
    }

    private func reallyProceed(after transition: AtomicLifecycle.Transition) { super.proceed(after: transition) }
}

/// Applies events to an operation on separate threads, and holds back the action of the first change that each of them
/// makes until it is released.
final class HeldEvents: Sendable {
    private final class Held: Sendable {
        let hasMadeItsChange = Atomic<Bool>(false)
        /// Signalled when the change waits, or when the event is over without one.
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

    /// Returns when the event's change waits to be followed up, or when the event is over.
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

    /// Lets the action of an event be carried out.
    func release(_ index: Int) { all.withLock { $0[index] }.released.signal() }

    /// Waits until an event is over. False if it hangs.
    func wait(for index: Int, within seconds: Double = patience) -> Bool {
        let event = all.withLock { $0[index] }
        guard event.over.wait(timeout: .now() + seconds) == .success else { return false }
        event.over.signal()
        return true
    }
}
