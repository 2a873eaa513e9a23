import ConvoyCache
import ConvoyOperations
import Foundation
import FoundationNetworking

/// What is decided about tasks, and told of them: the counterparts of `AFURLSessionManager`'s block setters. nil, as all are by
/// default, stands for the default that each names. They run on ``handlerQueue``.
extension URLSessionManager {
    /// Called when the session has become invalid, with nil: nothing but ``invalidate(cancellingTasks:resetting:)`` does that.
    public final var sessionDidBecomeInvalidHandler: (@Sendable (_ error: (any Error)?) -> Void)? {
        get { handlers.get(\.didBecomeInvalid) }
        set { handlers.set(\.didBecomeInvalid, newValue) }
    }

    /// Answers who the client is, where that is asked for a whole connection (NTLM, Negotiate), and all other challenges if
    /// there is no ``taskDidReceiveAuthenticationChallengeHandler``. By default the known credential is sent, once.
    ///
    /// The answer may be given later, from any thread: `.useCredential`, `.performDefaultHandling`, `.cancel`, which fails
    /// with `URLError.userCancelledAuthentication`, or `.rejectProtectionSpace`, after which the next method that the server
    /// offers is asked for. Which server is trusted is not a challenge here: ``URLSessionManager/securityPolicy`` says it.
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

    /// Answers who the client is, for a task. By default ``sessionDidReceiveAuthenticationChallengeHandler`` does.
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

    /// Returns a new stream for a body that must be sent again, after a redirect, a challenge or a retry; with nil the
    /// default, a stream that can be replayed: that of a file, data, or a form with parts. Without one, the task fails with
    /// `URLError.requestBodyStreamExhausted`.
    public final var taskNeedNewBodyStreamHandler: (@Sendable (_ task: SessionTask) -> InputStream?)? {
        get { handlers.get(\.newBodyStream) }
        set { handlers.set(\.newBodyStream, newValue) }
    }

    /// Decides about a redirect: returns the request to follow with, or nil to keep the redirecting response. By default
    /// redirects are followed. The request that it gets has none of the secrets that belong to the origin before.
    public final var taskWillPerformHTTPRedirectionHandler:
        (
            @Sendable (_ task: SessionTask, _ response: HTTPURLResponse?, _ request: URLRequest) -> URLRequest?
        )?
    {
        get { handlers.get(\.redirection) }
        set { handlers.set(\.redirection, newValue) }
    }

    /// Called with the bytes of the body that have gone out since the last call, all of them, and how many there are (-1 if
    /// that is not known).
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

    /// Called when a task has ended and its own handlers have run, with its error.
    public final var taskDidCompleteHandler: (@Sendable (_ task: SessionTask, _ error: (any Error)?) -> Void)? {
        get { handlers.get(\.didComplete) }
        set { handlers.set(\.didComplete, newValue) }
    }

    /// Called with the metrics of a task that has ended, before ``taskDidCompleteHandler``. Setting it makes the tasks that
    /// are made afterwards collect them (`collectsMetrics`).
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

    /// Decides what becomes of a data task whose response has come; `.allow` by default. The transfer waits.
    ///
    /// A response that asks who the client is, is not asked about.
    public final var dataTaskDidReceiveResponseHandler:
        (
            @Sendable (_ task: SessionDataTask, _ response: HTTPURLResponse) -> SessionResponseDisposition
        )?
    {
        get { handlers.get(\.didReceiveResponse) }
        set { handlers.set(\.didReceiveResponse, newValue) }
    }

    /// Called when a data task has become a download task, by `.becomeDownload`. Both have the same operation; from now on
    /// the handlers get the download task, whose file goes where ``downloadTaskDidFinishDownloadingHandler`` says.
    public final var dataTaskDidBecomeDownloadTaskHandler:
        (
            @Sendable (_ task: SessionDataTask, _ downloadTask: SessionDownloadTask) -> Void
        )?
    {
        get { handlers.get(\.didBecomeDownload) }
        set { handlers.set(\.didBecomeDownload, newValue) }
    }

    /// Called with the bytes of a data task's response as they come. The transfer waits while more than 1 MiB of them wait
    /// for the handler. The body is collected all the same.
    ///
    /// When a response that broke off has to be fetched from its start again, its first bytes come once more.
    public final var dataTaskDidReceiveDataHandler: (@Sendable (_ task: SessionDataTask, _ data: Data) -> Void)? {
        get { handlers.get(\.didReceiveData) }
        set { handlers.set(\.didReceiveData, newValue) }
    }

    /// Sees a response that is about to be stored in the cache. Returns it, or a changed one, or nil to store nothing. By
    /// default it is stored if it may be.
    public final var dataTaskWillCacheResponseHandler:
        (
            @Sendable (_ task: SessionTask, _ candidate: CacheCandidate) -> CacheCandidate?
        )?
    {
        get { handlers.get(\.willCacheResponse) }
        set { handlers.set(\.willCacheResponse, newValue) }
    }

    /// Returns the place for a file that is whole. It is moved there, unless something has that name, which fails the task.
    /// With nil, the default, the task's own `destination` is asked; if there is none, the file stays where it is, and is
    /// yours to move or to remove.
    public final var downloadTaskDidFinishDownloadingHandler:
        (
            @Sendable (_ task: SessionDownloadTask, _ location: URL) -> URL?
        )?
    {
        get { handlers.get(\.didFinishDownloading) }
        set { handlers.set(\.didFinishDownloading, newValue) }
    }

    /// Called with the bytes of a file that have come since the last call, all of them, and how many there will be (-1 if that
    /// is not known).
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

    /// Called when a download goes on behind bytes that were there, with how many those are, and how many there will be.
    public final var downloadTaskDidResumeHandler:
        (
            @Sendable (_ task: SessionDownloadTask, _ fileOffset: Int64, _ expectedTotalBytes: Int64) -> Void
        )?
    {
        get { handlers.get(\.didResume) }
        set { handlers.set(\.didResume, newValue) }
    }
}
