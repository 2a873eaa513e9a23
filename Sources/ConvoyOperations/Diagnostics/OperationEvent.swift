import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Something that has happened to an operation, as an ``EventMonitor`` hears it.
///
/// The events of one operation come in the order in which they happened, beginning with ``Kind/made``. None comes after
/// ``Kind/finished(_:)``, and before it whatever was started has ended.
public struct OperationEvent: Sendable {
    /// What has happened.
    public enum Kind: Sendable {
        /// The operation was made, or its monitoring has begun.
        case made
        /// It came into a queue.
        case enqueued
        /// It waits: for a slot, for its dependencies, to be retried. Told again when the reason changes.
        case waiting(WaitReason)
        /// It begins to work: the first attempt is 1, and each retry and each resumption after a pause is another.
        case attemptStarted(Int)
        /// A request is sent, or will be as soon as there is a connection. Each redirect is another, and so is each part of
        /// a download; they are numbered from 1.
        indirect case requestStarted(request: Int, RequestHead)
        /// A phase of a request has ended. Told with what comes next, at the time at which it ended; not for phases that
        /// there were not, as of a connection that was there already.
        case phaseEnded(TransactionPhase, request: Int)
        /// The head of the response has come.
        case responded(request: Int, ResponseHead)
        /// A request has ended, with a whole response or not. The head is nil if none came; the metrics are nil if libcurl
        /// never had it.
        indirect case requestEnded(request: Int, ResponseHead?, TransactionMetrics?)
        /// The response came out of a cache, for which no request was sent.
        indirect case servedFromCache(ResponseHead?, TransactionMetrics)
        /// It is decided what becomes of a redirect, and why.
        indirect case redirected(RedirectEvent)
        /// It is decided whether a failed attempt is repeated, and why; or the operation waits because another one's request
        /// has failed.
        indirect case retryDecided(RetryEvent)
        /// An attempt has ended.
        case attemptEnded(Int)
        /// The operation was paused. Its attempt ends after that.
        case paused
        /// It was resumed.
        case resumed
        /// It was cancelled, or the time limit of the whole operation has passed. It finishes after that.
        case stopped
        /// It has finished.
        case finished(OperationOutcome)
        /// The monitor's queue did not keep up, and so many events of this and other operations were not kept.
        case lost(Int)
    }

    /// What has happened.
    public let kind: Kind
    /// When, on the monotonic clock.
    let moment: MonotonicTime
    /// When the story began. Neither this nor the number is taken from the story: events outlive it on other threads, and
    /// a reference in each would be counted there.
    let origin: StartMoment
    /// What is secret in a response for which no request was sent; nil for all other events.
    let secrets: ResponseSecrets?
    /// The number of the operation, which no other one of the process has: its `operationNumber`.
    public let operationNumber: UInt64

    /// When, in seconds since ``Kind/made``.
    public var time: TimeInterval { origin.seconds(until: moment) }
    /// When, by the date of the system at ``Kind/made`` and a clock that never goes back.
    public var date: Date { origin.date.addingTimeInterval(time) }

    /// Another event of the same operation at the same time.
    func with(_ kind: Kind) -> OperationEvent {
        OperationEvent(
            kind: kind, moment: moment, origin: origin, secrets: nil, operationNumber: operationNumber)
    }
}

extension OperationEvent.Kind {
    var isOfCache: Bool { if case .servedFromCache = self { true } else { false } }

    /// Whether another event follows within moments, with which it is delivered.
    var isFollowedAtOnce: Bool {
        switch self {
        case .made, .enqueued, .phaseEnded, .requestEnded, .redirected, .attemptEnded: true
        default: false
        }
    }
}

/// What is secret in a response out of a cache, by the settings of the operation.
final class ResponseSecrets: Sendable {
    let classifier: SecretClassifier

    init(_ classifier: SecretClassifier) { self.classifier = classifier }
}

/// How an operation has finished.
public enum OperationOutcome: Sendable {
    /// With a response that is acceptable.
    case succeeded
    /// With an error.
    case failed(any Error)
    /// It was cancelled.
    case cancelled
}

extension OperationEvent: CustomStringConvertible {
    /// A line without secrets: the number of the operation, the seconds since it was made, and what has happened.
    public var description: String { String(format: "#%llu %.3f s ", operationNumber, time) + kind.description }
}

extension OperationEvent.Kind: CustomStringConvertible {
    /// What has happened, without secrets.
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
        case .retryDecided(let event): return "failed (\(event.reason)): \(event.decision)"
        case .attemptEnded(let number): return "attempt \(number) ended"
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

/// The text of an error for a line, without secrets.
enum ErrorText {
    static func shown(_ error: any Error) -> String { Redaction.text((error as NSError).localizedDescription) }
}

extension OperationEvent: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension OperationEvent.Kind: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
