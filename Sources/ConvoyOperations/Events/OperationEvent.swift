import ConvoySupport
import ConvoyTransport
import Foundation

/// An event of an operation, as received by an ``EventMonitor``.
///
/// The events of one operation arrive in the order in which they happened, beginning with ``Kind/made``.
/// ``Kind/finished(_:)`` is the last event. All attempts and requests that were started end before it.
public struct OperationEvent: Sendable {
    /// The kind of an event.
    public enum Kind: Sendable {
        /// The operation was created, or its monitoring has begun.
        case made
        /// The operation was added to a queue.
        case enqueued
        /// The operation waits, for example for a slot, its dependencies or a retry. The event is sent again when the
        /// reason changes.
        case waiting(WaitReason)
        /// An attempt begins. Attempts are numbered from 1; each retry and each resumption after a pause is a new
        /// attempt.
        case attemptStarted(Int)
        /// A request is about to be sent, possibly after waiting for a connection. Each redirect and each part of a
        /// download is a separate request. Requests are numbered from 1.
        indirect case requestStarted(request: Int, RequestHead)
        /// A phase of a request has ended. The event is sent together with the next event, but has the time at which
        /// the phase ended. It is not sent for phases that did not occur, such as `connect` if an existing connection
        /// was reused.
        case phaseEnded(TransactionPhase, request: Int)
        /// The head of the response has arrived.
        case responded(request: Int, ResponseHead)
        /// A request has ended, with or without a complete response. The head is nil if no response arrived; the
        /// metrics are nil if the request never reached libcurl.
        indirect case requestEnded(request: Int, ResponseHead?, TransactionMetrics?)
        /// A cached response was served without a request.
        indirect case servedFromCache(ResponseHead?, TransactionMetrics)
        /// A decision about a redirect was made.
        indirect case redirected(RedirectEvent)
        /// A decision about a retry was made, or the operation waits because another operation's request has failed.
        indirect case retryDecided(RetryEvent)
        /// An attempt has ended.
        case attemptEnded(Int)
        /// The operation is executing again after a pause that did not end its attempt, because the attempt's request
        /// must not be sent twice and was only held.
        case continued
        /// The operation was paused. Its attempt ends after this event.
        case paused
        /// The operation was resumed.
        case resumed
        /// The operation was cancelled, or its `totalTimeout` has expired. It finishes after this event.
        case stopped
        /// The operation has finished.
        case finished(OperationOutcome)
        /// The given number of events, of this and other operations, were lost because the monitor's queue was too
        /// slow.
        case lost(Int)
    }

    /// The kind of the event.
    public let kind: Kind
    /// The time of the event on the monotonic clock.
    let moment: MonotonicTime
    /// The time at which the event log began. An event does not refer to the log itself, to avoid reference counting on
    /// the threads that process events.
    package let origin: StartMoment
    /// The rules for secrets in a cached response; nil for all other events.
    package let secrets: ResponseSecrets?
    /// The `operationNumber` of the operation, which is unique in the process.
    public let operationNumber: UInt64

    /// The time since ``Kind/made``, in seconds.
    public var time: TimeInterval { origin.seconds(until: moment) }
    /// The date of the event, computed from the date of ``Kind/made`` and a monotonic clock.
    public var date: Date { origin.date.addingTimeInterval(time) }

    /// Returns an event of the given kind for the same operation, at the same time.
    func with(_ kind: Kind) -> OperationEvent {
        OperationEvent(
            kind: kind, moment: moment, origin: origin, secrets: nil, operationNumber: operationNumber)
    }
}

extension OperationEvent.Kind {
    var isOfCache: Bool { if case .servedFromCache = self { true } else { false } }

    /// Whether another event follows immediately and is delivered together with this one.
    var isFollowedAtOnce: Bool {
        switch self {
        case .made, .enqueued, .phaseEnded, .requestEnded, .redirected, .attemptEnded: true
        default: false
        }
    }
}

/// The rules for secrets in a cached response, according to the settings of the operation.
package final class ResponseSecrets: Sendable {
    package let classifier: SecretClassifier

    init(_ classifier: SecretClassifier) { self.classifier = classifier }
}

/// The way in which an operation has finished.
public enum OperationOutcome: Sendable {
    /// The operation succeeded with an acceptable response.
    case succeeded
    /// The operation failed with an error.
    case failed(any Error)
    /// The operation was cancelled.
    case cancelled
}

extension OperationEvent: CustomStringConvertible {
    /// A line without secrets that contains the number of the operation, the seconds since its creation, and the event.
    public var description: String { String(format: "#%llu %.3f s ", operationNumber, time) + kind.description }
}

extension OperationEvent.Kind: CustomStringConvertible {
    /// A description of the event without secrets.
    public var description: String {
        switch self {
        case .made: return "made"
        case .enqueued: return "enqueued"
        case .waiting(let reason): return "waiting: \(reason.rawValue)"
        case .attemptStarted(let number): return "attempt \(number) started"
        case .requestStarted(let request, let head): return "request \(request): \(head)"
        case .phaseEnded(let phase, let request): return "request \(request): \(phase.rawValue) ended"
        case .responded(let request, let head): return "request \(request): \(head.statusCode) \(head.httpVersion)"
        case .requestEnded(let request, let head, let metrics): return end(of: request, head, metrics)
        case .servedFromCache(let head, let metrics):
            let use = metrics.cacheUse.map { " (\($0.rawValue))" } ?? ""
            return "\(head.map { "\($0.statusCode) " } ?? "")from the cache\(use)"
        case .redirected(let event): return "redirect: \(event)"
        case .retryDecided(let event): return event.sentence
        case .attemptEnded(let number): return "attempt \(number) ended"
        case .continued: return "continued"
        case .paused: return "paused"
        case .resumed: return "resumed"
        case .stopped: return "stopped"
        case .finished(.succeeded): return "finished"
        case .finished(.failed(let error)): return "finished: \(ErrorText.shown(error))"
        case .finished(.cancelled): return "finished: cancelled"
        case .lost(let count): return "\(count) events were lost"
        }
    }

    private func end(of request: Int, _ head: ResponseHead?, _ metrics: TransactionMetrics?) -> String {
        guard let metrics else { return "request \(request) ended before it was sent" }
        let answer = head.map { "\($0.statusCode)" } ?? "no response"
        return "request \(request) ended: \(answer), \(metrics.countOfResponseBodyBytesReceived) bytes, \(metrics.timeline)"
    }
}

extension OperationEvent: OpaqueReflectable {}

extension OperationEvent.Kind: OpaqueReflectable {}
