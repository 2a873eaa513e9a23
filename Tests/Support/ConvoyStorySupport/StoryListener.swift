import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Dispatch

/// Checks the events reported to its monitor.
public final class StoryListener: Sendable {
    private let checker = Locked(StoryChecker())
    private let heard: HeardMonitor

    /// Holds the monitor, whose closure refers to the listener.
    private final class HeardMonitor: Sendable {
        let monitor: EventMonitor
        init(_ monitor: EventMonitor) { self.monitor = monitor }
    }

    public init() {
        let box = WeakListener()
        heard = HeardMonitor(EventMonitor { events in box.listener?.take(events) })
        box.set(self)
    }

    public var monitor: EventMonitor { heard.monitor }

    private func take(_ events: [OperationEvent]) { checker.withLock { $0.take(events) } }

    /// Waits for the final events, and returns the violations. Call this when all operations have finished.
    ///
    /// The final event may arrive slightly later, after a thread has reported an earlier change.
    public func faults() -> [String] {
        try? eventually("the final event of each operation") {
            catchUp()
            return checker.withLock { $0.isComplete }
        }
        return checker.withLock { checker in
            checker.end()
            return checker.faults
        }
    }

    private func catchUp() {
        let done = DispatchSemaphore(value: 0)
        monitor.whenCaughtUp { done.signal() }
        done.wait()
    }

    /// Returns the events of an operation.
    public func events(of number: UInt64) -> [OperationEvent] { checker.withLock { $0.events(of: number) } }
    /// The events of all operations; in order only if there is one operation.
    public var events: [OperationEvent] { checker.withLock { $0.allEvents } }
    public var operationCount: Int { checker.withLock { $0.operationCount } }
}

private final class WeakListener: Sendable {
    private struct Reference: @unchecked Sendable { weak var listener: StoryListener? }
    private let reference = Locked(Reference())
    var listener: StoryListener? { reference.withLock { $0.listener } }
    func set(_ listener: StoryListener) { reference.withLock { $0.listener = listener } }
}
