import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Dispatch

/// A monitor that checks its events.
public final class StoryListener: Sendable {
    private let checker = Locked(StoryChecker())
    private let heard: HeardMonitor

    /// The monitor is made after what it reports to.
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

    /// Waits until everything has been heard, and returns what was wrong. To be called when all operations have finished.
    ///
    /// The end may be reported a moment later: after a thread has reported an earlier change.
    public func faults() -> [String] {
        try? eventually("the end of each story") {
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

    /// What was heard of an operation.
    public func events(of number: UInt64) -> [OperationEvent] { checker.withLock { $0.events(of: number) } }
    /// What was heard, if it was of one operation only.
    public var events: [OperationEvent] { checker.withLock { $0.allEvents } }
    public var operationCount: Int { checker.withLock { $0.operationCount } }
}

private final class WeakListener: Sendable {
    private struct Reference: @unchecked Sendable { weak var listener: StoryListener? }
    private let reference = Locked(Reference())
    var listener: StoryListener? { reference.withLock { $0.listener } }
    func set(_ listener: StoryListener) { reference.withLock { $0.listener = listener } }
}
