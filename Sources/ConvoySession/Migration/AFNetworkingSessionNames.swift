import Foundation

// AFNetworking's types, notifications and keys of sessions, so that a port is told what has become of them in place of
// "no such name".

/// Tasks of a session.
@available(*, unavailable, renamed: "URLSessionManager")
public typealias AFURLSessionManager = URLSessionManager

/// Tasks of a session, by the verbs of HTTP.
@available(*, unavailable, renamed: "HTTPSessionManager")
public typealias AFHTTPSessionManager = HTTPSessionManager

// MARK: Notifications

/// A task has begun or goes on.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidResume")
public var AFNetworkingTaskDidResumeNotification: Notification.Name { .networkingTaskDidResume }

/// A task has begun or goes on, by its older name.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidResume")
public var AFNetworkingTaskDidStartNotification: Notification.Name { .networkingTaskDidResume }

/// A task has ended.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidComplete")
public var AFNetworkingTaskDidCompleteNotification: Notification.Name { .networkingTaskDidComplete }

/// A task has ended, by its older name.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidComplete")
public var AFNetworkingTaskDidFinishNotification: Notification.Name { .networkingTaskDidComplete }

/// A task is suspended.
@available(*, unavailable, renamed: "Notification.Name.networkingTaskDidSuspend")
public var AFNetworkingTaskDidSuspendNotification: Notification.Name { .networkingTaskDidSuspend }

/// A session can be used no longer.
@available(*, unavailable, renamed: "Notification.Name.networkingSessionDidInvalidate")
public var AFURLSessionDidInvalidateNotification: Notification.Name { .networkingSessionDidInvalidate }

/// A downloaded file could not be moved.
@available(*, unavailable, renamed: "Notification.Name.networkingDownloadTaskDidFailToMoveFile")
public var AFURLSessionDownloadTaskDidFailToMoveFileNotification: Notification.Name {
    .networkingDownloadTaskDidFailToMoveFile
}

/// A downloaded file has its place.
@available(*, unavailable, renamed: "Notification.Name.networkingDownloadTaskDidMoveFile")
public var AFURLSessionDownloadTaskDidMoveFileSuccessfullyNotification: Notification.Name {
    .networkingDownloadTaskDidMoveFile
}

extension Notification.Name {
    /// A task has begun or goes on.
    @available(*, unavailable, renamed: "networkingTaskDidResume")
    public static var AFNetworkingTaskDidResume: Notification.Name { networkingTaskDidResume }

    /// A task has ended.
    @available(*, unavailable, renamed: "networkingTaskDidComplete")
    public static var AFNetworkingTaskDidComplete: Notification.Name { networkingTaskDidComplete }

    /// A task is suspended.
    @available(*, unavailable, renamed: "networkingTaskDidSuspend")
    public static var AFNetworkingTaskDidSuspend: Notification.Name { networkingTaskDidSuspend }

    /// A session can be used no longer.
    @available(*, unavailable, renamed: "networkingSessionDidInvalidate", message: "Its object is the manager.")
    public static var AFURLSessionDidInvalidate: Notification.Name { networkingSessionDidInvalidate }

    /// A downloaded file could not be moved.
    @available(*, unavailable, renamed: "networkingDownloadTaskDidFailToMoveFile", message: "The task fails, too.")
    public static var AFURLSessionDownloadTaskDidFailToMoveFile: Notification.Name {
        networkingDownloadTaskDidFailToMoveFile
    }

    /// A downloaded file has its place.
    @available(*, unavailable, renamed: "networkingDownloadTaskDidMoveFile")
    public static var AFURLSessionDownloadTaskDidMoveFileSuccessfully: Notification.Name {
        networkingDownloadTaskDidMoveFile
    }
}

// MARK: Keys

/// The key of the object that was made of a response.
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
@available(*, unavailable, renamed: "TaskNotificationKey.assetPath", message: "It has a URL.")
public var AFNetworkingTaskDidCompleteAssetPathKey: String { TaskNotificationKey.assetPath }

/// The key of the metrics.
@available(*, unavailable, renamed: "TaskNotificationKey.metrics", message: "It has OperationMetrics.")
public var AFNetworkingTaskDidCompleteSessionTaskMetrics: String { TaskNotificationKey.metrics }

/// The key of the object that was made of a response, by its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.serializedResponse")
public var AFNetworkingTaskDidFinishSerializedResponseKey: String { TaskNotificationKey.serializedResponse }

/// The key of the response serializer, by its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.responseSerializer")
public var AFNetworkingTaskDidFinishResponseSerializerKey: String { TaskNotificationKey.responseSerializer }

/// The key of the body, by its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.responseData")
public var AFNetworkingTaskDidFinishResponseDataKey: String { TaskNotificationKey.responseData }

/// The key of the error, by its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.error")
public var AFNetworkingTaskDidFinishErrorKey: String { TaskNotificationKey.error }

/// The key of a download's file, by its older name.
@available(*, unavailable, renamed: "TaskNotificationKey.assetPath", message: "It has a URL.")
public var AFNetworkingTaskDidFinishAssetPathKey: String { TaskNotificationKey.assetPath }
