import Foundation

// What AFNetworking's additions to UIKit have become, for views of any toolkit.

extension NetworkActivityMonitor {
    /// Whether it hears of operations.
    @available(*, unavailable, renamed: "isEnabled")
    public var enabled: Bool {
        get { isEnabled }
        set { isEnabled = newValue }
    }

    /// Whether the activity is to be shown.
    @available(*, unavailable, renamed: "isNetworkActivityVisible")
    public var isNetworkActivityIndicatorVisible: Bool { isNetworkActivityVisible }

    /// Sets what shows and hides the activity.
    @available(*, unavailable, renamed: "setter:activityHandler(_:)")
    public func setNetworkingActivityActionWithBlock(_ block: ((Bool) -> Void)?) {}
}

extension ActivityView {
    /// Shows whether an operation is under way.
    @available(*, unavailable, renamed: "setAnimatingWithState(of:on:)")
    public func setAnimatingWithStateOfOperation(_ operation: URLConnectionOperation?) {}

    /// Shows whether a task is under way.
    @available(*, unavailable, renamed: "setAnimatingWithState(of:on:)")
    public func setAnimatingWithStateOfTask(_ task: (any HTTPRequestHandle)?) {}
}

extension ProgressView {
    /// Shows how much of the request's body has gone out.
    @available(*, unavailable, renamed: "setProgressWithUploadProgress(of:on:)")
    public func setProgressWithUploadProgressOfOperation(_ operation: URLConnectionOperation?, animated: Bool) {}

    /// Shows how much of the response's body is there.
    @available(*, unavailable, renamed: "setProgressWithDownloadProgress(of:on:)")
    public func setProgressWithDownloadProgressOfOperation(_ operation: URLConnectionOperation?, animated: Bool) {}

    /// Shows how much of the request's body has gone out.
    @available(*, unavailable, renamed: "setProgressWithUploadProgress(of:on:)")
    public func setProgressWithUploadProgressOfTask(_ task: (any HTTPRequestHandle)?, animated: Bool) {}

    /// Shows how much of the response's body is there.
    @available(*, unavailable, renamed: "setProgressWithDownloadProgress(of:on:)")
    public func setProgressWithDownloadProgressOfTask(_ task: (any HTTPRequestHandle)?, animated: Bool) {}
}
