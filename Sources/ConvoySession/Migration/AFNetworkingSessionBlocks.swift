import Foundation
import FoundationNetworking

// What the block setters of AFNetworking's session manager have become.

extension URLSessionManager {
    // MARK: The session

    /// Sets what hears of the session's end.
    @available(*, unavailable, renamed: "setter:sessionDidBecomeInvalidHandler(_:)")
    public final func setSessionDidBecomeInvalidBlock(_ block: ((URLSession, NSError?) -> Void)?) {}

    /// Sets what answers who the client is.
    @available(*, unavailable, message: "Set sessionDidReceiveAuthenticationChallengeHandler, which answers by a closure.")
    public final func setSessionDidReceiveAuthenticationChallengeBlock(_ block: Any?) {}

    /// Sets what hears that a background session has done its work.
    @available(*, unavailable, message: "There are no background sessions on Linux. DownloadQueue outlives the process.")
    public final func setDidFinishEventsForBackgroundURLSessionBlock(_ block: ((URLSession) -> Void)?) {}

    // MARK: All tasks

    /// Sets what makes the stream of a body that must be sent again.
    @available(*, unavailable, renamed: "setter:taskNeedNewBodyStreamHandler(_:)", message: "It gets the task only.")
    public final func setTaskNeedNewBodyStreamBlock(_ block: ((URLSession, SessionTask) -> InputStream)?) {}

    /// Sets what decides about redirects.
    @available(*, unavailable, renamed: "setter:taskWillPerformHTTPRedirectionHandler(_:)")
    public final func setTaskWillPerformHTTPRedirectionBlock(
        _ block: ((URLSession, SessionTask, URLResponse, URLRequest) -> URLRequest?)?
    ) {}

    /// Sets what answers who the client is.
    @available(*, unavailable, message: "Set taskDidReceiveAuthenticationChallengeHandler, which answers by a closure.")
    public final func setTaskDidReceiveAuthenticationChallengeBlock(_ block: Any?) {}

    /// Sets what answers who the client is.
    @available(*, unavailable, message: "Set taskDidReceiveAuthenticationChallengeHandler, which answers by a closure.")
    public final func setAuthenticationChallengeHandler(_ handler: Any?) {}

    /// Sets what hears of the bytes that are sent.
    @available(*, unavailable, renamed: "setter:taskDidSendBodyDataHandler(_:)", message: "It gets no session.")
    public final func setTaskDidSendBodyDataBlock(_ block: ((URLSession, SessionTask, Int64, Int64, Int64) -> Void)?) {}

    /// Sets what hears of the end of tasks.
    @available(*, unavailable, renamed: "setter:taskDidCompleteHandler(_:)", message: "It gets the task and the error.")
    public final func setTaskDidCompleteBlock(_ block: ((URLSession, SessionTask, NSError?) -> Void)?) {}

    /// Sets what hears of the metrics of tasks.
    @available(*, unavailable, renamed: "setter:taskDidFinishCollectingMetricsHandler(_:)")
    public final func setTaskDidFinishCollectingMetricsBlock(_ block: Any?) {}

    // MARK: Data tasks

    /// Sets what decides what becomes of a task whose response has come.
    @available(*, unavailable, renamed: "setter:dataTaskDidReceiveResponseHandler(_:)")
    public final func setDataTaskDidReceiveResponseBlock(_ block: Any?) {}

    /// Sets what hears that a data task has become a download task.
    @available(*, unavailable, renamed: "setter:dataTaskDidBecomeDownloadTaskHandler(_:)", message: "It gets both tasks.")
    public final func setDataTaskDidBecomeDownloadTaskBlock(
        _ block: ((URLSession, SessionDataTask, SessionDownloadTask) -> Void)?
    ) {}

    /// Sets what gets the bytes of responses.
    @available(*, unavailable, renamed: "setter:dataTaskDidReceiveDataHandler(_:)")
    public final func setDataTaskDidReceiveDataBlock(_ block: ((URLSession, SessionDataTask, Data) -> Void)?) {}

    /// Sets what decides about caching.
    @available(*, unavailable, renamed: "setter:dataTaskWillCacheResponseHandler(_:)", message: "It gets a CacheCandidate.")
    public final func setDataTaskWillCacheResponseBlock(
        _ block: ((URLSession, SessionDataTask, CachedURLResponse) -> CachedURLResponse)?
    ) {}

    // MARK: Download tasks

    /// Sets what says where files are to be.
    @available(*, unavailable, renamed: "setter:downloadTaskDidFinishDownloadingHandler(_:)")
    public final func setDownloadTaskDidFinishDownloadingBlock(
        _ block: ((URLSession, SessionDownloadTask, URL) -> URL?)?
    ) {}

    /// Sets what hears of the bytes of files.
    @available(*, unavailable, renamed: "setter:downloadTaskDidWriteDataHandler(_:)", message: "It gets no session.")
    public final func setDownloadTaskDidWriteDataBlock(
        _ block: ((URLSession, SessionDownloadTask, Int64, Int64, Int64) -> Void)?
    ) {}

    /// Sets what hears that a download goes on.
    @available(*, unavailable, renamed: "setter:downloadTaskDidResumeHandler(_:)", message: "It gets no session.")
    public final func setDownloadTaskDidResumeBlock(
        _ block: ((URLSession, SessionDownloadTask, Int64, Int64) -> Void)?
    ) {}
}
