import ConvoySerialization
import Foundation
import FoundationNetworking

// What the members of AFNetworking's session managers have become; for the block setters there is a file of their own.

extension URLSessionManager {
    /// A manager with a session's settings.
    @available(*, unavailable, renamed: "init(configuration:)")
    public convenience init(sessionConfiguration configuration: URLSessionConfiguration?) { self.init() }

    /// Ends the session.
    @available(*, unavailable, renamed: "invalidate(cancellingTasks:)")
    public final func invalidateSessionCancelingTasks(_ cancelPendingTasks: Bool) {}

    /// Ends the session, or replaces it.
    @available(*, unavailable, renamed: "invalidate(cancellingTasks:resetting:)")
    public final func invalidateSessionCancelingTasks(_ cancelPendingTasks: Bool, resetSession: Bool) {}

    /// Whether an upload of a background session is made again.
    @available(*, unavailable, message: "There are no background sessions on Linux. DownloadQueue outlives the process.")
    public final var attemptsToRecreateUploadTasksForBackgroundSessions: Bool {
        get { false }
        set {}
    }

    // MARK: Tasks

    /// A task for a request.
    @available(*, unavailable, renamed: "dataTask(with:completionHandler:)")
    public final func dataTaskWithRequest(
        _ request: URLRequest, completionHandler: ((URLResponse, Any?, NSError?) -> Void)?
    ) -> SessionDataTask { dataTask(with: request) }

    /// A task that sends a file.
    @available(*, unavailable, renamed: "uploadTask(with:fromFile:progress:completionHandler:)")
    public final func uploadTaskWithRequest(
        _ request: URLRequest, fromFile fileURL: URL, progress: ((Progress) -> Void)?,
        completionHandler: ((URLResponse, Any?, NSError?) -> Void)?
    ) -> SessionUploadTask { uploadTask(with: request, fromFile: fileURL) }

    /// A task that sends data.
    @available(*, unavailable, renamed: "uploadTask(with:from:progress:completionHandler:)")
    public final func uploadTaskWithRequest(
        _ request: URLRequest, fromData bodyData: Data?, progress: ((Progress) -> Void)?,
        completionHandler: ((URLResponse, Any?, NSError?) -> Void)?
    ) -> SessionUploadTask { uploadTask(with: request, from: bodyData ?? Data()) }

    /// A task that sends a stream.
    @available(*, unavailable, renamed: "uploadTask(withStreamedRequest:progress:completionHandler:)")
    public final func uploadTaskWithStreamedRequest(
        _ request: URLRequest, progress: ((Progress) -> Void)?,
        completionHandler: ((URLResponse, Any?, NSError?) -> Void)?
    ) -> SessionUploadTask { uploadTask(withStreamedRequest: request) }

    /// A task that downloads.
    @available(*, unavailable, renamed: "downloadTask(with:progress:destination:completionHandler:)")
    public final func downloadTaskWithRequest(
        _ request: URLRequest, progress: ((Progress) -> Void)?, destination: ((URL, URLResponse) -> URL)?,
        completionHandler: ((URLResponse, URL?, NSError?) -> Void)?
    ) -> SessionDownloadTask { downloadTask(with: request) }

    /// A task that goes on with a download.
    @available(*, unavailable, renamed: "downloadTask(withResumeData:progress:destination:completionHandler:)")
    public final func downloadTaskWithResumeData(
        _ resumeData: Data, progress: ((Progress) -> Void)?, destination: ((URL, URLResponse) -> URL)?,
        completionHandler: ((URLResponse, URL?, NSError?) -> Void)?
    ) -> SessionDownloadTask { downloadTask(with: URLRequest(url: URL(fileURLWithPath: "/"))) }

    // MARK: Progress

    /// How much of a task's body has gone out.
    @available(*, unavailable, message: "task.transferProgress, which has both directions")
    public final func uploadProgressForTask(_ task: SessionTask) -> Progress? { nil }

    /// How much of a task's response has come.
    @available(*, unavailable, message: "task.progress, or task.transferProgress")
    public final func downloadProgressForTask(_ task: SessionTask) -> Progress? { nil }

    /// How much of a task's body has gone out.
    @available(*, unavailable, message: "task.transferProgress, which has both directions")
    public final func uploadProgress(for task: SessionTask) -> Progress? { nil }

    /// How much of a task's response has come.
    @available(*, unavailable, message: "task.progress, or task.transferProgress")
    public final func downloadProgress(for task: SessionTask) -> Progress? { nil }
}

extension HTTPSessionManager {
    /// A manager without a base URL.
    @available(*, unavailable, renamed: "init()")
    public static func manager() -> HTTPSessionManager { HTTPSessionManager() }

    /// A manager with a session's settings.
    @available(*, unavailable, renamed: "init(configuration:)")
    public convenience init(sessionConfiguration configuration: URLSessionConfiguration?) { self.init(baseURL: nil) }

    /// A manager with a base URL and a session's settings.
    @available(*, unavailable, renamed: "init(baseURL:configuration:)")
    public convenience init(baseURL url: URL?, sessionConfiguration configuration: URLSessionConfiguration?) {
        self.init(baseURL: url)
    }

    /// A task for a method.
    @available(*, unavailable, renamed: "dataTask(_:_:parameters:headers:success:failure:)")
    public final func dataTask(
        withHTTPMethod method: String, urlString URLString: String, parameters: Any?, headers: [String: String]?,
        uploadProgress: ((Progress) -> Void)?, downloadProgress: ((Progress) -> Void)?,
        success: ((SessionDataTask, Any?) -> Void)?, failure: ((SessionDataTask?, NSError) -> Void)?
    ) -> SessionDataTask? { nil }

    // MARK: Verbs

    /// A GET.
    @available(*, unavailable, renamed: "get(_:parameters:success:failure:)")
    @discardableResult
    public final func GET(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// A HEAD.
    @available(*, unavailable, renamed: "head(_:parameters:success:failure:)")
    @discardableResult
    public final func HEAD(
        _ URLString: String, parameters: Any?, success: ((SessionTask) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// A POST.
    @available(*, unavailable, renamed: "post(_:parameters:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// A POST of a form.
    @available(*, unavailable, renamed: "post(_:parameters:constructingBody:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, constructingBodyWithBlock block: ((MultipartFormData) -> Void)?,
        success: ((SessionTask, Any?) -> Void)?, failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// A PUT.
    @available(*, unavailable, renamed: "put(_:parameters:success:failure:)")
    @discardableResult
    public final func PUT(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// A PATCH.
    @available(*, unavailable, renamed: "patch(_:parameters:success:failure:)")
    @discardableResult
    public final func PATCH(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// A DELETE.
    @available(*, unavailable, renamed: "delete(_:parameters:success:failure:)")
    @discardableResult
    public final func DELETE(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }
}
