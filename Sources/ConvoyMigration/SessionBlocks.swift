import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySession
import Foundation
import FoundationNetworking

// Replacements for the block setters of AFNetworking's session manager.

extension URLSessionManager {
    // MARK: The session

    /// Sets the handler for the end of the session.
    @available(*, unavailable, renamed: "setter:sessionDidBecomeInvalidHandler(_:)")
    public final func setSessionDidBecomeInvalidBlock(_ block: ((URLSession, NSError?) -> Void)?) {}

    /// Sets the handler for authentication challenges.
    @available(*, unavailable, message: "Set sessionDidReceiveAuthenticationChallengeHandler, which replies with a closure.")
    public final func setSessionDidReceiveAuthenticationChallengeBlock(_ block: Any?) {}

    /// Sets the handler for the end of a background session's events.
    @available(
        *, unavailable, message: "Linux does not support background sessions. Use DownloadQueue, which outlives the process."
    )
    public final func setDidFinishEventsForBackgroundURLSessionBlock(_ block: ((URLSession) -> Void)?) {}

    // MARK: All tasks

    /// Sets the handler that provides a new body stream.
    @available(
        *, unavailable, renamed: "setter:taskNeedNewBodyStreamHandler(_:)",
        message: "The handler receives only the task."
    )
    public final func setTaskNeedNewBodyStreamBlock(_ block: ((URLSession, SessionTask) -> InputStream)?) {}

    /// Sets the handler for redirects.
    @available(*, unavailable, renamed: "setter:taskWillPerformHTTPRedirectionHandler(_:)")
    public final func setTaskWillPerformHTTPRedirectionBlock(
        _ block: ((URLSession, SessionTask, URLResponse, URLRequest) -> URLRequest?)?
    ) {}

    /// Sets the handler for authentication challenges.
    @available(*, unavailable, message: "Set taskDidReceiveAuthenticationChallengeHandler, which replies with a closure.")
    public final func setTaskDidReceiveAuthenticationChallengeBlock(_ block: Any?) {}

    /// Sets the handler for authentication challenges.
    @available(*, unavailable, message: "Set taskDidReceiveAuthenticationChallengeHandler, which replies with a closure.")
    public final func setAuthenticationChallengeHandler(_ handler: Any?) {}

    /// Sets the handler for sent bytes.
    @available(
        *, unavailable, renamed: "setter:taskDidSendBodyDataHandler(_:)",
        message: "The handler does not receive the session."
    )
    public final func setTaskDidSendBodyDataBlock(_ block: ((URLSession, SessionTask, Int64, Int64, Int64) -> Void)?) {}

    /// Sets the handler for the end of tasks.
    @available(
        *, unavailable, renamed: "setter:taskDidCompleteHandler(_:)",
        message: "The handler receives the task and the error."
    )
    public final func setTaskDidCompleteBlock(_ block: ((URLSession, SessionTask, NSError?) -> Void)?) {}

    /// Sets the handler for the metrics of tasks.
    @available(*, unavailable, renamed: "setter:taskDidFinishCollectingMetricsHandler(_:)")
    public final func setTaskDidFinishCollectingMetricsBlock(_ block: Any?) {}

    // MARK: Data tasks

    /// Sets the handler for responses.
    @available(*, unavailable, renamed: "setter:dataTaskDidReceiveResponseHandler(_:)")
    public final func setDataTaskDidReceiveResponseBlock(_ block: Any?) {}

    /// Sets the handler for data tasks that become download tasks.
    @available(
        *, unavailable, renamed: "setter:dataTaskDidBecomeDownloadTaskHandler(_:)",
        message: "The handler receives both tasks."
    )
    public final func setDataTaskDidBecomeDownloadTaskBlock(
        _ block: ((URLSession, SessionDataTask, SessionDownloadTask) -> Void)?
    ) {}

    /// Sets the handler for received bytes.
    @available(*, unavailable, renamed: "setter:dataTaskDidReceiveDataHandler(_:)")
    public final func setDataTaskDidReceiveDataBlock(_ block: ((URLSession, SessionDataTask, Data) -> Void)?) {}

    /// Sets the handler for responses to be cached.
    @available(
        *, unavailable, renamed: "setter:dataTaskWillCacheResponseHandler(_:)",
        message: "The handler receives a CacheCandidate."
    )
    public final func setDataTaskWillCacheResponseBlock(
        _ block: ((URLSession, SessionDataTask, CachedURLResponse) -> CachedURLResponse)?
    ) {}

    // MARK: Download tasks

    /// Sets the handler that returns the destinations of files.
    @available(*, unavailable, renamed: "setter:downloadTaskDidFinishDownloadingHandler(_:)")
    public final func setDownloadTaskDidFinishDownloadingBlock(
        _ block: ((URLSession, SessionDownloadTask, URL) -> URL?)?
    ) {}

    /// Sets the handler for written bytes.
    @available(
        *, unavailable, renamed: "setter:downloadTaskDidWriteDataHandler(_:)",
        message: "The handler does not receive the session."
    )
    public final func setDownloadTaskDidWriteDataBlock(
        _ block: ((URLSession, SessionDownloadTask, Int64, Int64, Int64) -> Void)?
    ) {}

    /// Sets the handler for resumed downloads.
    @available(
        *, unavailable, renamed: "setter:downloadTaskDidResumeHandler(_:)",
        message: "The handler does not receive the session."
    )
    public final func setDownloadTaskDidResumeBlock(
        _ block: ((URLSession, SessionDownloadTask, Int64, Int64) -> Void)?
    ) {}
}

extension SessionDownloadTask {
    /// Ends the task, and produces data with which another task can resume it.
    @available(
        *, unavailable, renamed: "cancel(byProducingResumeData:)",
        message: "The resume data has Convoy's format, not Foundation's."
    )
    public final func cancelByProducingResumeData(_ completionHandler: @escaping (Data?) -> Void) {}
}

extension URLSessionManager {
    /// The tasks that have not finished.
    @available(*, unavailable, message: "Read tasks, dataTasks, uploadTasks or downloadTasks, which do not block.")
    public final func getTasksWithCompletionHandler(
        _ completionHandler: ([SessionTask], [SessionTask], [SessionTask]) -> Void
    ) {}
}
