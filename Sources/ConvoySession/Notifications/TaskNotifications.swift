import Foundation

extension Notification.Name {
    /// A task was resumed; `object` is the task. Posted to `NotificationCenter.default` on the session's serial queue of
    /// handlers, as all of these.
    ///
    /// The texts of the names are those of AFNetworking's.
    public static let networkingTaskDidResume = Notification.Name("com.alamofire.networking.task.resume")

    /// A task was suspended; `object` is the task.
    public static let networkingTaskDidSuspend = Notification.Name("com.alamofire.networking.task.suspend")

    /// A task has ended, and its own handlers have run; `object` is the task, and `userInfo` has the members of
    /// ``TaskNotificationKey``.
    public static let networkingTaskDidComplete = Notification.Name("com.alamofire.networking.task.complete")

    /// A session has become invalid; `object` is its manager, as long as that is there.
    public static let networkingSessionDidInvalidate = Notification.Name("com.alamofire.networking.session.invalidate")

    /// The file of a download could not be moved to where it was to be; `object` is the task, which fails with the error that
    /// is in `userInfo`, with the place of the file that is kept.
    public static let networkingDownloadTaskDidFailToMoveFile = Notification.Name(
        "com.alamofire.networking.session.download.file-manager-error")

    /// The file of a download is where it is to be; `object` is the task.
    public static let networkingDownloadTaskDidMoveFile = Notification.Name(
        "com.alamofire.networking.session.download.file-manager-succeed")
}

/// What is in the `userInfo` of the notifications of tasks.
public enum TaskNotificationKey {
    /// The object that the response serializer has made; not there if there is none.
    public static let serializedResponse = "com.alamofire.networking.task.complete.serializedresponse"
    /// The response serializer.
    public static let responseSerializer = "com.alamofire.networking.task.complete.responseserializer"
    /// The body, as `Data`; not there for a download.
    public static let responseData = "com.alamofire.networking.complete.finish.responsedata"
    /// The error; not there after a success.
    public static let error = "com.alamofire.networking.task.complete.error"
    /// The URL of the file of a download.
    public static let assetPath = "com.alamofire.networking.task.complete.assetpath"
    /// The metrics, as `OperationMetrics`; not there unless they were collected.
    public static let metrics = "com.alamofire.networking.complete.sessiontaskmetrics"
}
