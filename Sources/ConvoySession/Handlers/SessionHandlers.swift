import ConvoyCache
import ConvoyOperations
import Foundation
import FoundationNetworking

/// The handlers of a session: the counterparts of `AFURLSessionManager`'s block setters.
struct SessionHandlers: Sendable {
    typealias AuthenticationHandler =
        @Sendable (AuthenticationChallenge, @escaping @Sendable (AuthenticationDisposition) -> Void) -> Void
    typealias TaskAuthenticationHandler =
        @Sendable (SessionTask, AuthenticationChallenge, @escaping @Sendable (AuthenticationDisposition) -> Void) -> Void

    var didBecomeInvalid: (@Sendable ((any Error)?) -> Void)?
    var authentication: AuthenticationHandler?
    var taskAuthentication: TaskAuthenticationHandler?
    var newBodyStream: (@Sendable (SessionTask) -> InputStream?)?
    var redirection: (@Sendable (SessionTask, HTTPURLResponse?, URLRequest) -> URLRequest?)?
    var didSendBodyData: (@Sendable (SessionTask, Int64, Int64, Int64) -> Void)?
    var didComplete: (@Sendable (SessionTask, (any Error)?) -> Void)?
    var didCollectMetrics: (@Sendable (SessionTask, OperationMetrics) -> Void)?
    var didReceiveResponse: (@Sendable (SessionDataTask, HTTPURLResponse) -> SessionResponseDisposition)?
    var didBecomeDownload: (@Sendable (SessionDataTask, SessionDownloadTask) -> Void)?
    var didReceiveData: (@Sendable (SessionDataTask, Data) -> Void)?
    var willCacheResponse: (@Sendable (SessionTask, CacheCandidate) -> CacheCandidate?)?
    var didFinishDownloading: (@Sendable (SessionDownloadTask, URL) -> URL?)?
    var didWriteData: (@Sendable (SessionDownloadTask, Int64, Int64, Int64) -> Void)?
    var didResume: (@Sendable (SessionDownloadTask, Int64, Int64) -> Void)?

    /// What they make a session be asked about its tasks.
    func interests(in kind: HTTPRequestKind) -> OperationInterests {
        var interests: OperationInterests = []
        if redirection != nil { interests.insert(.redirects) }
        if authentication != nil || taskAuthentication != nil { interests.insert(.challenges) }
        if newBodyStream != nil { interests.insert(.bodyStreams) }
        if willCacheResponse != nil { interests.insert(.caching) }
        if didSendBodyData != nil { interests.insert(.progress) }
        if kind == .download {
            if didWriteData != nil || didResume != nil { interests.insert(.progress) }
        } else {
            if didReceiveResponse != nil { interests.insert(.responses) }
            if didReceiveData != nil { interests.insert(.data) }
        }
        return interests
    }
}
