import ConvoySupport
import ConvoyTransport
import Dispatch
import Foundation

/// A monitor that receives the events of operations: their waits, their requests, the decisions about redirects and
/// retries, and their outcomes.
///
/// ```swift
/// let monitor = EventMonitor { events in
///     for event in events { print(event) }
/// }
/// manager.eventMonitors = [monitor]
/// ```
///
/// Any number of managers and operations may share a monitor. For operations without monitors, the cost is a single
/// check.
public final class EventMonitor: Sendable {
    private struct State {
        var intake = Intake()
        /// The number of events in the last delivery.
        var latestCount = 0
        /// Whether a delivery is scheduled or running.
        var isScheduled = false
        /// Whether the handler is running.
        var isRunning = false
        /// The blocks to call when all events have been delivered.
        var waiters: [@Sendable () -> Void] = []
    }

    private let state = Locked(State())
    private let queue: DispatchQueue
    private let handler: @Sendable ([OperationEvent]) -> Void
    private let capacity: Int
    private let interval: TimeInterval

    /// Creates a monitor.
    ///
    /// - Parameters:
    ///   - capacity: The maximum number of events that wait for a slow queue. Further events are lost, and a
    ///     ``OperationEvent/Kind/lost(_:)`` event reports their number.
    ///   - interval: The time for which events are gathered before they are delivered, in seconds. Gathering saves
    ///     time, because waking a thread takes longer than processing an event. Use 0 for a monitor that needs each
    ///     event immediately.
    ///   - queue: The queue on which the handler runs; nil for the monitor's own serial queue. Calls never overlap,
    ///     even on a concurrent queue.
    ///   - handler: The handler that receives the events. Events that occur together are delivered together. The
    ///     handler may block; operations do not wait for it.
    public init(
        capacity: Int = 100_000, interval: TimeInterval = 0.005, on queue: DispatchQueue? = nil,
        handler: @escaping @Sendable ([OperationEvent]) -> Void
    ) {
        self.capacity = max(1, capacity)
        self.interval = interval > 0 ? min(interval, 3600) : 0
        self.queue = queue ?? DispatchQueue(label: "Convoy.EventMonitor")
        self.handler = handler
    }

    /// Calls a block on the monitor's queue after the handler has processed all events so far. Gathered events are
    /// delivered immediately.
    public func whenCaughtUp(_ block: @escaping @Sendable () -> Void) {
        state.withLock { state in
            state.isScheduled = true
            state.waiters.append(block)
        }
        queue.submit { self.deliver() }
    }

    /// Adds the events that the closure appends to the intake. The closure is called with the monitor's lock held.
    ///
    /// An event that is immediately followed by another event does not wake the queue.
    func gather(_ tell: (inout Intake) -> Void) {
        let isFirst = state.withLock { state in
            if state.intake.events.isEmpty { state.intake.prepare(capacity: capacity, likely: state.latestCount) }
            tell(&state.intake)
            guard state.intake.isUrgent, !state.isScheduled else { return false }
            state.isScheduled = true
            return true
        }
        if isFirst { schedule() }
    }

    private func schedule() {
        guard interval > 0 else { return queue.submit { self.deliver() } }
        queue.submit(after: interval) { self.deliver() }
    }

    /// Delivers the waiting events. If a delivery is already running, it delivers these events as well.
    private func deliver() {
        let batch = state.withLock { state -> Intake? in
            guard !state.isRunning else { return nil }
            state.isRunning = true
            state.latestCount = state.intake.events.count
            defer { state.intake = Intake() }
            return state.intake
        }
        guard let events = batch?.allEvents else { return }
        if !events.isEmpty { handler(events) }
        let (waiters, next) = state.withLock { state -> ([@Sendable () -> Void], Next) in
            state.isRunning = false
            guard !state.intake.isUrgent else { return ([], state.waiters.isEmpty ? .later : .atOnce) }
            state.isScheduled = false
            defer { state.waiters = [] }
            return (state.waiters, .none)
        }
        switch next {
        case .none: break
        // Let other work on the queue run in between.
        case .atOnce: queue.submit { self.deliver() }
        case .later: schedule()
        }
        for waiter in waiters { waiter() }
    }

    private enum Next { case none, atOnce, later }

    /// The events that have not been delivered yet.
    struct Intake {
        fileprivate private(set) var events: [OperationEvent] = []
        /// The last event that was lost.
        private var lastLost: OperationEvent?
        private var lostCount = 0
        /// Whether the handler's queue must be woken.
        fileprivate private(set) var isUrgent = false
        private var capacity = 0

        fileprivate mutating func prepare(capacity: Int, likely: Int) {
            self.capacity = capacity
            events.reserveCapacity(min(capacity, max(64, likely)))
        }

        mutating func append(_ event: OperationEvent) {
            if !event.kind.isFollowedAtOnce { isUrgent = true }
            guard lostCount == 0, events.count < capacity else {
                lastLost = event
                return lostCount += 1
            }
            events.append(event)
        }

        fileprivate var allEvents: [OperationEvent] {
            guard let lastLost else { return events }
            return events + [lastLost.with(.lost(lostCount))]
        }
    }
}

/// The level of a log message, as in swift-log.
public enum EventLogLevel: Int, Sendable, Comparable, CaseIterable {
    case trace, debug, info, notice, warning, error

    /// Returns whether one level is lower than the other.
    public static func < (one: EventLogLevel, other: EventLogLevel) -> Bool { one.rawValue < other.rawValue }
}

extension EventMonitor {
    /// A closure that receives the level, the message, and the metadata of a log entry.
    public typealias Log = @Sendable (_ level: EventLogLevel, _ message: String, _ metadata: [String: String]) -> Void

    /// Creates a monitor that writes to a log, without secrets.
    ///
    /// ```swift
    /// let monitor = EventMonitor.logging(at: .debug) { level, message, metadata in
    ///     logger.log(level: .init(level), "\(message)", metadata: metadata.mapValues { .string($0) })
    /// }
    /// ```
    ///
    /// When an operation finishes, one line shows the method, the URL, the status code, the size of the body and the
    /// time: `GET https://example.com/users: 200, 1406 bytes, 0.084 s`.
    ///
    /// A failed operation is logged as `error`; waiting for a closed gate or for the network, giving up on retries, and
    /// lost events as `warning`; a retry as `notice`; redirects and other ends of operations as `info`; all other
    /// events as `debug` or `trace`.
    ///
    /// - Parameters:
    ///   - level: The minimum level to log.
    ///   - queue: The queue on which `log` is called; nil for the monitor's own serial queue.
    ///   - log: The closure that receives the messages.
    public static func logging(
        at level: EventLogLevel = .info, on queue: DispatchQueue? = nil, _ log: @escaping Log
    ) -> EventMonitor {
        let requests = Locked<[UInt64: LoggedRequest]>([:])
        return EventMonitor(on: queue) { events in
            for event in events {
                let request = requests.withLock { LoggedRequest.note(event, in: &$0) }
                guard event.logLevel >= level else { continue }
                log(event.logLevel, request?.line(at: event) ?? "\(event.kind)", event.metadata)
            }
        }
    }
}

/// The latest request of an operation, for the line logged at its end.
private struct LoggedRequest {
    /// The method and the URL.
    let name: String
    /// The status code and the body length of the response; nil without a response.
    let result: String?

    private init(_ head: ResponseHead?, _ metrics: TransactionMetrics) {
        name = metrics.requestLine
        let origin = metrics.cacheUse.map { ", from the cache (\($0.rawValue))" } ?? ""
        result = head.map { "\($0.statusCode), \(metrics.countOfResponseBodyBytesReceived) bytes\(origin)" }
    }

    /// Records the end of a request. At the end of an operation, removes and returns its latest request.
    static func note(_ event: OperationEvent, in requests: inout [UInt64: LoggedRequest]) -> LoggedRequest? {
        switch event.kind {
        case .requestEnded(_, let head, let metrics?): requests[event.operationNumber] = LoggedRequest(head, metrics)
        case .servedFromCache(let head, let metrics): requests[event.operationNumber] = LoggedRequest(head, metrics)
        case .finished: return requests.removeValue(forKey: event.operationNumber)
        // The lost events may include the end of the operation.
        case .lost: requests[event.operationNumber] = nil
        default: break
        }
        return nil
    }

    /// Returns the line to log at the end of the operation.
    func line(at end: OperationEvent) -> String {
        let time = String(format: "%.3f s", end.time)
        switch end.kind {
        case .finished(.failed(let error)): return "\(name): \(ErrorText.shown(error)) (\(time))"
        case .finished(.cancelled): return "\(name): cancelled, \(time)"
        default: return "\(name): \(result ?? "no response"), \(time)"
        }
    }
}

extension OperationEvent {
    /// The level at which the event is logged.
    public var logLevel: EventLogLevel {
        switch kind {
        case .finished(.failed): .error
        case .lost, .waiting(.closedGate), .waiting(.connectivity): .warning
        case .retryDecided(let event):
            if case .giveUp = event.decision { .warning } else { .notice }
        case .finished, .redirected: .info
        case .made, .phaseEnded, .enqueued: .trace
        case .waiting, .attemptStarted, .attemptEnded, .continued, .requestStarted, .responded, .requestEnded,
            .servedFromCache, .paused, .resumed, .stopped:
            .debug
        }
    }

    /// The event's properties by name, without secrets.
    public var metadata: [String: String] {
        var metadata = ["operation": "\(operationNumber)", "time": String(format: "%.6f", time)]
        switch kind {
        case .waiting(let reason): metadata["reason"] = reason.rawValue
        case .attemptStarted(let number), .attemptEnded(let number): metadata["attempt"] = "\(number)"
        case .requestStarted(let request, let head):
            metadata["request"] = "\(request)"
            metadata["method"] = head.method
            metadata["url"] = Redaction.url(head.address, head.secrets)
        case .phaseEnded(let phase, let request):
            (metadata["request"], metadata["phase"]) = ("\(request)", phase.rawValue)
        case .responded(let request, let head):
            metadata["request"] = "\(request)"
            metadata["status"] = "\(head.statusCode)"
        case .requestEnded(let request, let head, let metrics):
            metadata["request"] = "\(request)"
            metadata["status"] = head.map { "\($0.statusCode)" }
            add(metrics, to: &metadata)
        case .servedFromCache(let head, let metrics):
            metadata["status"] = head.map { "\($0.statusCode)" }
            metadata["cache"] = metrics.cacheUse?.rawValue
            add(metrics, to: &metadata)
        case .retryDecided(let event): metadata["retries"] = "\(event.retryCount)"
        case .redirected(let event): metadata["status"] = "\(event.statusCode)"
        case .finished(.failed(let error)): metadata["error"] = ErrorText.shown(error)
        case .lost(let count): metadata["count"] = "\(count)"
        case .made, .enqueued, .continued, .paused, .resumed, .stopped, .finished: break
        }
        return metadata
    }

    private func add(_ metrics: TransactionMetrics?, to metadata: inout [String: String]) {
        guard let metrics else { return }
        metadata["address"] = metrics.remoteAddress
        metadata["duration"] = String(format: "%.6f", metrics.duration)
        metadata["sent"] = "\(metrics.countOfRequestHeaderBytesSent + metrics.countOfRequestBodyBytesSent)"
        metadata["received"] = "\(metrics.countOfResponseHeaderBytesReceived + metrics.countOfResponseBodyBytesReceived)"
    }
}
