import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySession
import Foundation
import FoundationNetworking

// These declarations of AFNetworking's types, notifications and keys for sessions let the compiler suggest the
// replacement.

/// A manager that creates the tasks of a session.
@available(*, unavailable, renamed: "URLSessionManager")
public typealias AFURLSessionManager = URLSessionManager

/// A manager that creates the tasks of a session with HTTP verbs.
@available(*, unavailable, renamed: "HTTPSessionManager")
public typealias AFHTTPSessionManager = HTTPSessionManager

// MARK: Notifications

/// Posted when a task has been resumed.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidResume")
public var AFNetworkingTaskDidResumeNotification: Notification.Name { .networkingTaskDidResume }

/// The older name of the notification posted when a task has been resumed.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidResume")
public var AFNetworkingTaskDidStartNotification: Notification.Name { .networkingTaskDidResume }

/// Posted when a task has ended.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidComplete")
public var AFNetworkingTaskDidCompleteNotification: Notification.Name { .networkingTaskDidComplete }

/// The older name of the notification posted when a task has ended.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidComplete")
public var AFNetworkingTaskDidFinishNotification: Notification.Name { .networkingTaskDidComplete }

/// Posted when a task has been suspended.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidSuspend")
public var AFNetworkingTaskDidSuspendNotification: Notification.Name { .networkingTaskDidSuspend }

/// Posted when a session has become invalid.
@available(*, unavailable, renamed: "Notification.Name.networkingSessionDidInvalidate")
public var AFURLSessionDidInvalidateNotification: Notification.Name { .networkingSessionDidInvalidate }

/// Posted when a downloaded file could not be moved.
@available(*, unavailable, renamed: "Notification.Name.networkingDownloadTaskDidFailToMoveFile")
public var AFURLSessionDownloadTaskDidFailToMoveFileNotification: Notification.Name {
    .networkingDownloadTaskDidFailToMoveFile
}

/// Posted when a downloaded file has been moved.
@available(*, unavailable, renamed: "Notification.Name.networkingDownloadTaskDidMoveFile")
public var AFURLSessionDownloadTaskDidMoveFileSuccessfullyNotification: Notification.Name {
    .networkingDownloadTaskDidMoveFile
}

extension Notification.Name {
    /// Posted when a task has been resumed.
    @available(*, unavailable, renamed: "networkingTaskDidResume")
    public static var AFNetworkingTaskDidResume: Notification.Name { networkingTaskDidResume }

    /// Posted when a task has ended.
    @available(*, unavailable, renamed: "networkingTaskDidComplete")
    public static var AFNetworkingTaskDidComplete: Notification.Name { networkingTaskDidComplete }

    /// Posted when a task has been suspended.
    @available(*, unavailable, renamed: "networkingTaskDidSuspend")
    public static var AFNetworkingTaskDidSuspend: Notification.Name { networkingTaskDidSuspend }

    /// Posted when a session has become invalid.
    @available(
        *, unavailable, renamed: "networkingSessionDidInvalidate",
        message: "The notification's object is the manager."
    )
    public static var AFURLSessionDidInvalidate: Notification.Name { networkingSessionDidInvalidate }

    /// Posted when a downloaded file could not be moved.
    @available(
        *, unavailable, renamed: "networkingDownloadTaskDidFailToMoveFile", message: "The task also fails with that error."
    )
    public static var AFURLSessionDownloadTaskDidFailToMoveFile: Notification.Name {
        networkingDownloadTaskDidFailToMoveFile
    }

    /// Posted when a downloaded file has been moved.
    @available(*, unavailable, renamed: "networkingDownloadTaskDidMoveFile")
    public static var AFURLSessionDownloadTaskDidMoveFileSuccessfully: Notification.Name {
        networkingDownloadTaskDidMoveFile
    }
}

// MARK: Keys

/// The key of the object created by the response serializer.
@available(*, unavailable, renamed: "TaskNotificationKey.serializedResponse")
public var AFNetworkingTaskDidCompleteSerializedResponseKey: String { TaskNotificationKey.serializedResponse }

/// The key of the response serializer.
@available(*, unavailable, renamed: "TaskNotificationKey.responseSerializer")
public var AFNetworkingTaskDidCompleteResponseSerializerKey: String { TaskNotificationKey.responseSerializer }

/// The key of the body.
@available(*, unavailable, renamed: "TaskNotificationKey.responseData")
public var AFNetworkingTaskDidCompleteResponseDataKey: String { TaskNotificationKey.responseData }

/// The key of the error.
@available(*, unavailable, renamed: "TaskNotificationKey.error")
public var AFNetworkingTaskDidCompleteErrorKey: String { TaskNotificationKey.error }

/// The key of a download's file.
@available(*, unavailable, renamed: "TaskNotificationKey.assetPath", message: "Its value is a URL.")
public var AFNetworkingTaskDidCompleteAssetPathKey: String { TaskNotificationKey.assetPath }

/// The key of the metrics.
@available(*, unavailable, renamed: "TaskNotificationKey.metrics", message: "Its value is an OperationMetrics.")
public var AFNetworkingTaskDidCompleteSessionTaskMetrics: String { TaskNotificationKey.metrics }

/// The key of the object created by the response serializer, under its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.serializedResponse")
public var AFNetworkingTaskDidFinishSerializedResponseKey: String { TaskNotificationKey.serializedResponse }

/// The key of the response serializer, under its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.responseSerializer")
public var AFNetworkingTaskDidFinishResponseSerializerKey: String { TaskNotificationKey.responseSerializer }

/// The key of the body, under its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.responseData")
public var AFNetworkingTaskDidFinishResponseDataKey: String { TaskNotificationKey.responseData }

/// The key of the error, under its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.error")
public var AFNetworkingTaskDidFinishErrorKey: String { TaskNotificationKey.error }

/// The key of a download's file, under its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.assetPath", message: "Its value is a URL.")
public var AFNetworkingTaskDidFinishAssetPathKey: String { TaskNotificationKey.assetPath }

// Replacements for the members of AFNetworking's session managers.

extension URLSessionManager {
    /// Creates a manager with the settings of a session.
    @available(*, unavailable, renamed: "init(configuration:)")
    public convenience init(sessionConfiguration configuration: URLSessionConfiguration?) { self.init() }

    /// Ends the session.
    @available(*, unavailable, renamed: "invalidate(cancellingTasks:)")
    public final func invalidateSessionCancelingTasks(_ cancelPendingTasks: Bool) {}

    /// Ends the session, or replaces it.
    @available(*, unavailable, renamed: "invalidate(cancellingTasks:resetting:)")
    public final func invalidateSessionCancelingTasks(_ cancelPendingTasks: Bool, resetSession: Bool) {}

    /// Whether the creation of background uploads is retried.
    @available(
        *, unavailable, message: "Linux does not support background sessions. Use DownloadQueue, which outlives the process."
    )
    public final var attemptsToRecreateUploadTasksForBackgroundSessions: Bool {
        get { false }
        set {}
    }

    // MARK: Tasks

    /// Returns a task for a request.
    @available(*, unavailable, renamed: "dataTask(with:completionHandler:)")
    public final func dataTaskWithRequest(
        _ request: URLRequest, completionHandler: ((URLResponse, Any?, NSError?) -> Void)?
    ) -> SessionDataTask { dataTask(with: request) }

    /// Returns a task that sends a file.
    @available(*, unavailable, renamed: "uploadTask(with:fromFile:progress:completionHandler:)")
    public final func uploadTaskWithRequest(
        _ request: URLRequest, fromFile fileURL: URL, progress: ((Progress) -> Void)?,
        completionHandler: ((URLResponse, Any?, NSError?) -> Void)?
    ) -> SessionUploadTask { uploadTask(with: request, fromFile: fileURL) }

    /// Returns a task that sends data.
    @available(*, unavailable, renamed: "uploadTask(with:from:progress:completionHandler:)")
    public final func uploadTaskWithRequest(
        _ request: URLRequest, fromData bodyData: Data?, progress: ((Progress) -> Void)?,
        completionHandler: ((URLResponse, Any?, NSError?) -> Void)?
    ) -> SessionUploadTask { uploadTask(with: request, from: bodyData ?? Data()) }

    /// Returns a task that sends a stream.
    @available(*, unavailable, renamed: "uploadTask(withStreamedRequest:progress:completionHandler:)")
    public final func uploadTaskWithStreamedRequest(
        _ request: URLRequest, progress: ((Progress) -> Void)?,
        completionHandler: ((URLResponse, Any?, NSError?) -> Void)?
    ) -> SessionUploadTask { uploadTask(withStreamedRequest: request) }

    /// Returns a task that downloads a file.
    @available(*, unavailable, renamed: "downloadTask(with:progress:destination:completionHandler:)")
    public final func downloadTaskWithRequest(
        _ request: URLRequest, progress: ((Progress) -> Void)?, destination: ((URL, URLResponse) -> URL)?,
        completionHandler: ((URLResponse, URL?, NSError?) -> Void)?
    ) -> SessionDownloadTask { downloadTask(with: request) }

    /// Returns a task that resumes a download.
    @available(*, unavailable, renamed: "downloadTask(withResumeData:progress:destination:completionHandler:)")
    public final func downloadTaskWithResumeData(
        _ resumeData: Data, progress: ((Progress) -> Void)?, destination: ((URL, URLResponse) -> URL)?,
        completionHandler: ((URLResponse, URL?, NSError?) -> Void)?
    ) -> SessionDownloadTask { downloadTask(with: URLRequest(url: URL(fileURLWithPath: "/"))) }

    // MARK: Progress

    /// Returns the progress of a task's upload.
    @available(*, unavailable, message: "task.transferProgress, which has both directions")
    public final func uploadProgressForTask(_ task: SessionTask) -> Progress? { nil }

    /// Returns the progress of a task's download.
    @available(*, unavailable, message: "task.progress, or task.transferProgress")
    public final func downloadProgressForTask(_ task: SessionTask) -> Progress? { nil }

    /// Returns the progress of a task's upload.
    @available(*, unavailable, message: "task.transferProgress, which has both directions")
    public final func uploadProgress(for task: SessionTask) -> Progress? { nil }

    /// Returns the progress of a task's download.
    @available(*, unavailable, message: "task.progress, or task.transferProgress")
    public final func downloadProgress(for task: SessionTask) -> Progress? { nil }
}

extension HTTPSessionManager {
    /// Returns a manager without a base URL.
    @available(*, unavailable, renamed: "init()")
    public static func manager() -> HTTPSessionManager { HTTPSessionManager() }

    /// Creates a manager with the settings of a session.
    @available(*, unavailable, renamed: "init(configuration:)")
    public convenience init(sessionConfiguration configuration: URLSessionConfiguration?) { self.init(baseURL: nil) }

    /// Creates a manager with a base URL and the settings of a session.
    @available(*, unavailable, renamed: "init(baseURL:configuration:)")
    public convenience init(baseURL url: URL?, sessionConfiguration configuration: URLSessionConfiguration?) {
        self.init(baseURL: url)
    }

    /// Returns a task for a method.
    @available(*, unavailable, renamed: "dataTask(_:_:parameters:headers:success:failure:)")
    public final func dataTask(
        withHTTPMethod method: String, urlString URLString: String, parameters: Any?, headers: [String: String]?,
        uploadProgress: ((Progress) -> Void)?, downloadProgress: ((Progress) -> Void)?,
        success: ((SessionDataTask, Any?) -> Void)?, failure: ((SessionDataTask?, NSError) -> Void)?
    ) -> SessionDataTask? { nil }

    // MARK: Verbs

    /// Sends a GET request.
    @available(*, unavailable, renamed: "get(_:parameters:success:failure:)")
    @discardableResult
    public final func GET(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// Sends a HEAD request.
    @available(*, unavailable, renamed: "head(_:parameters:success:failure:)")
    @discardableResult
    public final func HEAD(
        _ URLString: String, parameters: Any?, success: ((SessionTask) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// Sends a POST request.
    @available(*, unavailable, renamed: "post(_:parameters:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// Sends a form with POST.
    @available(*, unavailable, renamed: "post(_:parameters:constructingBody:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, constructingBodyWithBlock block: ((inout MultipartFormData) -> Void)?,
        success: ((SessionTask, Any?) -> Void)?, failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// Sends a PUT request.
    @available(*, unavailable, renamed: "put(_:parameters:success:failure:)")
    @discardableResult
    public final func PUT(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// Sends a PATCH request.
    @available(*, unavailable, renamed: "patch(_:parameters:success:failure:)")
    @discardableResult
    public final func PATCH(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }

    /// Sends a DELETE request.
    @available(*, unavailable, renamed: "delete(_:parameters:success:failure:)")
    @discardableResult
    public final func DELETE(
        _ URLString: String, parameters: Any?, success: ((SessionTask, Any?) -> Void)?,
        failure: ((SessionTask?, NSError) -> Void)?
    ) -> SessionTask? { nil }
}
