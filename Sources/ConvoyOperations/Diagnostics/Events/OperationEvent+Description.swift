import ConvoySupport
import ConvoyTransport
import Foundation

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
