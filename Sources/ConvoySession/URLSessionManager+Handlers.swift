import ConvoyCache
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// Handlers that make decisions about tasks and observe them. The counterparts of `AFURLSessionManager`'s block
/// setters. All are nil by default; each documents the default behaviour. They run on ``handlerQueue``.
extension URLSessionManager {
    /// Called when the session has become invalid. The error is always nil, because only
    /// ``invalidate(cancellingTasks:resetting:)`` ends a session.
    public final var sessionDidBecomeInvalidHandler: (@Sendable (_ error: (any Error)?) -> Void)? {
        get { handlers.get(\.didBecomeInvalid) }
        set { handlers.set(\.didBecomeInvalid, newValue) }
    }

    /// Answers authentication challenges for a connection (NTLM, Negotiate), and all other challenges if
    /// ``taskDidReceiveAuthenticationChallengeHandler`` is not set. By default, a known credential is sent once.
    ///
    /// The answer can be given later and from any thread: `.useCredential`; `.performDefaultHandling`; `.cancel`, which
    /// fails with `URLError.userCancelledAuthentication`; or `.rejectProtectionSpace`, after which the server's next
    /// method is tried. Server trust is not handled here, but by `securityPolicy`.
    public final var sessionDidReceiveAuthenticationChallengeHandler:
        (
            @Sendable (
                _ challenge: AuthenticationChallenge, _ answer: @escaping @Sendable (AuthenticationDisposition) -> Void
            ) -> Void
        )?
    {
        get { handlers.get(\.authentication) }
        set { handlers.set(\.authentication, newValue) }
    }

    /// Answers authentication challenges for a task. By default, ``sessionDidReceiveAuthenticationChallengeHandler``
    /// answers them.
    public final var taskDidReceiveAuthenticationChallengeHandler:
        (
            @Sendable (
                _ task: SessionTask, _ challenge: AuthenticationChallenge,
                _ answer: @escaping @Sendable (AuthenticationDisposition) -> Void
            ) -> Void
        )?
    {
        get { handlers.get(\.taskAuthentication) }
        set { handlers.set(\.taskAuthentication, newValue) }
    }

    /// Returns a new stream for a body that must be sent again after a redirect, a challenge or a retry. Without a
    /// handler, streams of files, data and multipart forms are replayed. Without a stream, the task fails with
    /// `URLError.requestBodyStreamExhausted`.
    public final var taskNeedNewBodyStreamHandler: (@Sendable (_ task: SessionTask) -> InputStream?)? {
        get { handlers.get(\.newBodyStream) }
        set { handlers.set(\.newBodyStream, newValue) }
    }

    /// Decides about a redirect. Returns the request to send next, or nil to deliver the redirect response. By default,
    /// redirects are followed. The proposed request contains no secrets of the previous origin.
    public final var taskWillPerformHTTPRedirectionHandler:
        (
            @Sendable (_ task: SessionTask, _ response: HTTPURLResponse?, _ request: URLRequest) -> URLRequest?
        )?
    {
        get { handlers.get(\.redirection) }
        set { handlers.set(\.redirection, newValue) }
    }

    /// Called with the number of body bytes sent since the last call, the number sent in total, and the expected total
    /// (-1 if unknown).
    public final var taskDidSendBodyDataHandler:
        (
            @Sendable (
                _ task: SessionTask, _ bytesSent: Int64, _ totalBytesSent: Int64, _ totalBytesExpectedToSend: Int64
            ) -> Void
        )?
    {
        get { handlers.get(\.didSendBodyData) }
        set { handlers.set(\.didSendBodyData, newValue) }
    }

    /// Called with a task's error when the task has ended and its own handlers have run.
    public final var taskDidCompleteHandler: (@Sendable (_ task: SessionTask, _ error: (any Error)?) -> Void)? {
        get { handlers.get(\.didComplete) }
        set { handlers.set(\.didComplete, newValue) }
    }

    /// Called with the metrics of a task that has ended, before ``taskDidCompleteHandler``. Setting the handler makes
    /// subsequent tasks collect metrics (`collectsMetrics`).
    public final var taskDidFinishCollectingMetricsHandler:
        (
            @Sendable (_ task: SessionTask, _ metrics: OperationMetrics) -> Void
        )?
    {
        get { handlers.get(\.didCollectMetrics) }
        set {
            handlers.set(\.didCollectMetrics, newValue)
            if newValue != nil { collectsMetrics = true }
        }
    }

    /// Decides how to continue a data task after its response head has been received. The default is `.allow`. The
    /// transfer waits for the decision.
    ///
    /// The handler is not called for authentication challenges.
    public final var dataTaskDidReceiveResponseHandler:
        (
            @Sendable (_ task: SessionDataTask, _ response: HTTPURLResponse) -> SessionResponseDisposition
        )?
    {
        get { handlers.get(\.didReceiveResponse) }
        set { handlers.set(\.didReceiveResponse, newValue) }
    }

    /// Called when a data task has become a download task because of `.becomeDownload`. Both have the same operation.
    /// Subsequent handlers receive the download task, whose file is moved to the result of
    /// ``downloadTaskDidFinishDownloadingHandler``.
    public final var dataTaskDidBecomeDownloadTaskHandler:
        (
            @Sendable (_ task: SessionDataTask, _ downloadTask: SessionDownloadTask) -> Void
        )?
    {
        get { handlers.get(\.didBecomeDownload) }
        set { handlers.set(\.didBecomeDownload, newValue) }
    }

    /// Called with the bytes of a data task's response as they arrive. The transfer pauses while the handler has a
    /// backlog of more than 1 MiB. The body is collected as well.
    ///
    /// If an interrupted response has to be requested from its start again, the first bytes are repeated.
    public final var dataTaskDidReceiveDataHandler: (@Sendable (_ task: SessionDataTask, _ data: Data) -> Void)? {
        get { handlers.get(\.didReceiveData) }
        set { handlers.set(\.didReceiveData, newValue) }
    }

    /// Called with a response that is about to be stored in the cache. Returns the response, which may be modified, or
    /// nil to store nothing. By default, the response is stored if HTTP allows it.
    public final var dataTaskWillCacheResponseHandler:
        (
            @Sendable (_ task: SessionTask, _ candidate: CacheCandidate) -> CacheCandidate?
        )?
    {
        get { handlers.get(\.willCacheResponse) }
        set { handlers.set(\.willCacheResponse, newValue) }
    }

    /// Returns the destination of a complete file, which is moved there. If a file exists at the destination, the task
    /// fails. Without a handler, the task's own `destination` is used. Without either, the file is not moved, and you
    /// must move or remove it.
    public final var downloadTaskDidFinishDownloadingHandler:
        (
            @Sendable (_ task: SessionDownloadTask, _ location: URL) -> URL?
        )?
    {
        get { handlers.get(\.didFinishDownloading) }
        set { handlers.set(\.didFinishDownloading, newValue) }
    }

    /// Called with the number of bytes written since the last call, the number written in total, and the expected total
    /// (-1 if unknown).
    public final var downloadTaskDidWriteDataHandler:
        (
            @Sendable (
                _ task: SessionDownloadTask, _ bytesWritten: Int64, _ totalBytesWritten: Int64,
                _ totalBytesExpectedToWrite: Int64
            ) -> Void
        )?
    {
        get { handlers.get(\.didWriteData) }
        set { handlers.set(\.didWriteData, newValue) }
    }

    /// Called when a download resumes after existing bytes, with their number and the expected total.
    public final var downloadTaskDidResumeHandler:
        (
            @Sendable (_ task: SessionDownloadTask, _ fileOffset: Int64, _ expectedTotalBytes: Int64) -> Void
        )?
    {
        get { handlers.get(\.didResume) }
        set { handlers.set(\.didResume, newValue) }
    }
}

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

    /// Returns the operation callbacks that the handlers require.
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

/// The way in which a data task continues after its response head. The counterpart of `URLSession.ResponseDisposition`.
public enum SessionResponseDisposition: Sendable, Hashable {
    /// The task continues.
    case allow
    /// The task fails with `URLError.cancelled`.
    case cancel
    /// The body is written to a file, and the task becomes a download task.
    case becomeDownload
}

/// The handlers of a manager, which its sessions share, and the callbacks that they require.
final class HandlerTable: Sendable {
    private let handlers = Locked(SessionHandlers())
    /// Flags for the handlers that data tasks and download tasks call. They are atomic, so that the network thread
    /// takes no lock.
    private let ofData = Atomic<UInt8>(0)
    private let ofDownloads = Atomic<UInt8>(0)

    var all: SessionHandlers { handlers.withLock { $0 } }

    @inline(__always)
    func get<Handler: Sendable>(_ member: KeyPath<SessionHandlers, Handler?> & Sendable) -> Handler? {
        handlers.withLock { $0[keyPath: member] }
    }

    func set<Handler: Sendable>(
        _ member: WritableKeyPath<SessionHandlers, Handler?> & Sendable, _ handler: Handler?
    ) {
        change { $0[keyPath: member] = handler }
    }

    /// Releases all handlers.
    func removeAll() { change { $0 = SessionHandlers() } }

    private func change(_ body: (inout SessionHandlers) -> Void) {
        let old = handlers.withLock { handlers in
            let old = handlers
            body(&handlers)
            ofData.store(handlers.interests(in: .data).rawValue, ordering: .releasing)
            ofDownloads.store(handlers.interests(in: .download).rawValue, ordering: .releasing)
            return old
        }
        // The old handlers may own user objects, which must not be released under the lock.
        withExtendedLifetime(old) {}
    }

    func interests(in kind: HTTPRequestKind) -> OperationInterests {
        OperationInterests(
            rawValue: kind == .download ? ofDownloads.load(ordering: .acquiring) : ofData.load(ordering: .acquiring))
    }
}
