import ConvoySupport
import ConvoyTransport
import Dispatch
import Foundation

/// How much a message of a log matters; the levels of swift-log.
public enum EventLogLevel: Int, Sendable, Comparable, CaseIterable {
    case trace, debug, info, notice, warning, error

    /// Whether one matters less than the other.
    public static func < (one: EventLogLevel, other: EventLogLevel) -> Bool { one.rawValue < other.rawValue }
}

extension EventMonitor {
    /// Takes a message: how much it matters, what it says, and what it is about.
    public typealias Log = @Sendable (_ level: EventLogLevel, _ message: String, _ metadata: [String: String]) -> Void

    /// A monitor that writes a log, with whatever writes logs. Without secrets.
    ///
    /// ```swift
    /// let monitor = EventMonitor.logging(at: .debug) { level, message, metadata in
    ///     logger.log(level: .init(level), "\(message)", metadata: metadata.mapValues { .string($0) })
    /// }
    /// ```
    ///
    /// An operation that fails is an error, what it waits for that others have caused and what it gives up is a warning, a
    /// retry is a notice, its end and its redirects are information; what its attempts and requests do is for debugging.
    ///
    /// - Parameters:
    ///   - level: what matters less is not logged.
    ///   - queue: where `log` is called; nil for a serial queue of the monitor's own.
    ///   - log: takes the messages.
    public static func logging(
        at level: EventLogLevel = .info, on queue: DispatchQueue? = nil, _ log: @escaping Log
    ) -> EventMonitor {
        EventMonitor(on: queue) { events in
            for event in events where event.logLevel >= level { log(event.logLevel, "\(event.kind)", event.metadata) }
        }
    }
}

extension OperationEvent {
    /// How much it matters.
    public var logLevel: EventLogLevel {
        switch kind {
        case .finished(.failed): .error
        case .lost, .waiting(.closedGate), .waiting(.connectivity): .warning
        case .retryDecided(let event):
            if case .giveUp = event.decision { .warning } else { .notice }
        case .finished, .redirected: .info
        case .made, .phaseEnded, .enqueued: .trace
        case .waiting, .attemptStarted, .attemptEnded, .requestStarted, .responded, .requestEnded, .servedFromCache, .paused,
            .resumed, .stopped:
            .debug
        }
    }

    /// What it is about, by names, without secrets.
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
        case .made, .enqueued, .paused, .resumed, .stopped, .finished: break
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
