import ConvoyDiagnostics
import ConvoyDownloads
import ConvoyOperations
import ConvoyReachability
import ConvoySecurity
import ConvoySerialization
import Foundation
import FoundationNetworking

// The types, notifications and functions of AFNetworking for operations, managers, views and reachability, marked
// unavailable: in a ported program, the compiler suggests the replacement instead of reporting an unknown name.

// MARK: Operations

/// An operation that performs a URL request.
@available(*, unavailable, renamed: "URLConnectionOperation")
public typealias AFURLConnectionOperation = URLConnectionOperation

/// An operation that performs an HTTP request.
@available(*, unavailable, renamed: "HTTPRequestOperation")
public typealias AFHTTPRequestOperation = HTTPRequestOperation

/// A manager of operations with common settings.
@available(*, unavailable, renamed: "HTTPRequestOperationManager")
public typealias AFHTTPRequestOperationManager = HTTPRequestOperationManager

/// A manager of operations of AFNetworking 1.x.
@available(*, unavailable, renamed: "HTTPRequestOperationManager")
public typealias AFHTTPClient = HTTPRequestOperationManager

/// A download to a file (AFDownloadRequestOperation).
@available(*, unavailable, renamed: "DownloadOperation")
public typealias AFDownloadRequestOperation = DownloadOperation

/// The notification that an operation has started.
@available(*, unavailable, renamed: "Notification.Name.networkingOperationDidStart")
public var AFNetworkingOperationDidStartNotification: Notification.Name { .networkingOperationDidStart }

/// The notification that an operation has finished.
@available(*, unavailable, renamed: "Notification.Name.networkingOperationDidFinish")
public var AFNetworkingOperationDidFinishNotification: Notification.Name { .networkingOperationDidFinish }

extension Notification.Name {
    /// The notification that an operation has started.
    @available(*, unavailable, renamed: "networkingOperationDidStart")
    public static var AFNetworkingOperationDidStart: Notification.Name { networkingOperationDidStart }

    /// The notification that an operation has finished.
    @available(*, unavailable, renamed: "networkingOperationDidFinish")
    public static var AFNetworkingOperationDidFinish: Notification.Name { networkingOperationDidFinish }
}

// MARK: Reachability

/// A manager that reports whether the network is available.
@available(*, unavailable, renamed: "NetworkReachabilityManager")
public typealias AFNetworkReachabilityManager = NetworkReachabilityManager

extension NetworkReachabilityManager {
    /// The shared manager.
    @available(*, unavailable, renamed: "shared")
    public static func sharedManager() -> NetworkReachabilityManager { shared }

    /// The shared manager.
    @available(*, unavailable, message: "Use NetworkReachabilityManager.shared, without parentheses.")
    public static func shared() -> NetworkReachabilityManager { sharedManager() }

    /// Creates a manager for a host.
    @available(*, unavailable, renamed: "init(domain:)")
    public static func managerForDomain(_ domain: String) -> NetworkReachabilityManager { NetworkReachabilityManager() }

    /// Whether the network is available.
    @available(*, unavailable, renamed: "isReachable")
    public var reachable: Bool { isReachable }

    /// Whether the network is mobile.
    @available(*, unavailable, renamed: "isReachableViaWWAN")
    public var reachableViaWWAN: Bool { isReachableViaWWAN }

    /// Whether the network is a wireless LAN.
    @available(*, unavailable, renamed: "isReachableViaWiFi")
    public var reachableViaWiFi: Bool { isReachableViaWiFi }

    /// Sets the handler for status changes.
    @available(*, unavailable, renamed: "setter:reachabilityStatusChangeHandler(_:)", message: "Handle .reachableViaWire.")
    public func setReachabilityStatusChangeBlock(_ block: ((NetworkReachabilityStatus) -> Void)?) {}
}

/// The kind of network.
@available(*, unavailable, renamed: "NetworkReachabilityStatus", message: "Wired networks are .reachableViaWire.")
public enum AFNetworkReachabilityStatus: Int, Sendable {
    /// The status is not known yet.
    case unknown = -1
    /// The network is unavailable.
    case notReachable
    /// A mobile network.
    case reachableViaWWAN
    /// Any other network.
    case reachableViaWiFi
}

/// Returns the name of a kind of network.
@available(*, unavailable, message: "Use the description of NetworkReachabilityStatus.")
public func AFStringFromNetworkReachabilityStatus(_ status: AFNetworkReachabilityStatus) -> String { "" }

/// The notification that the network has changed.
@available(*, unavailable, renamed: "Notification.Name.networkingReachabilityDidChange")
public var AFNetworkingReachabilityDidChangeNotification: Notification.Name { .networkingOperationDidStart }

/// The key of the network status in the notification of a network change.
@available(*, unavailable, renamed: "NetworkReachabilityManager.statusUserInfoKey")
public var AFNetworkingReachabilityNotificationStatusItem: String { "" }

// MARK: UIKit

/// A manager that shows network activity.
@available(*, unavailable, renamed: "NetworkActivityMonitor")
public typealias AFNetworkActivityIndicatorManager = NetworkActivityMonitor

// MARK: AFRocketClient

/// A client for servers that send events: both managers have `subscribe(_:as:)` from ConvoyRealtime.
@available(*, unavailable, renamed: "HTTPRequestOperationManager")
public typealias AFRocketClient = HTTPRequestOperationManager

// Replacements for the members of AFNetworking's manager.

extension HTTPRequestOperationManager {
    /// Creates a manager without a base URL.
    @available(*, unavailable, renamed: "init()")
    public static func manager() -> HTTPRequestOperationManager { HTTPRequestOperationManager() }

    /// Creates an operation for a request.
    @available(*, unavailable, message: "Use makeOperation(request:) and setCompletionHandler(success:failure:).")
    public final func HTTPRequestOperationWithRequest(
        _ request: URLRequest, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Creates an operation for a request.
    @available(*, unavailable, message: "Use makeOperation(request:) and setCompletionHandler(success:failure:).")
    public final func httpRequestOperation(
        with request: URLRequest, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    // MARK: Verbs

    /// Sends a GET request.
    @available(*, unavailable, renamed: "get(_:parameters:success:failure:)")
    @discardableResult
    public final func GET(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Sends a HEAD request.
    @available(*, unavailable, renamed: "head(_:parameters:success:failure:)")
    @discardableResult
    public final func HEAD(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Sends a POST request.
    @available(*, unavailable, renamed: "post(_:parameters:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Posts a multipart form.
    @available(*, unavailable, renamed: "post(_:parameters:constructingBody:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, constructingBodyWithBlock block: ((inout MultipartFormData) -> Void)?,
        success: ((HTTPRequestOperation, Any?) -> Void)?, failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Sends a PUT request.
    @available(*, unavailable, renamed: "put(_:parameters:success:failure:)")
    @discardableResult
    public final func PUT(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Sends a PATCH request.
    @available(*, unavailable, renamed: "patch(_:parameters:success:failure:)")
    @discardableResult
    public final func PATCH(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Sends a DELETE request.
    @available(*, unavailable, renamed: "delete(_:parameters:success:failure:)")
    @discardableResult
    public final func DELETE(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }
}

// Replacements for the members of AFNetworking's operations.

extension URLConnectionOperation {
    // MARK: Block setters

    /// Sets the handler for sent bytes.
    @available(*, unavailable, renamed: "setter:uploadProgressHandler(_:)", message: "An unknown total is nil, not -1.")
    public final func setUploadProgressBlock(_ block: ((UInt, Int64, Int64) -> Void)?) {}

    /// Sets the handler for received bytes.
    @available(*, unavailable, renamed: "setter:downloadProgressHandler(_:)", message: "An unknown total is nil, not -1.")
    public final func setDownloadProgressBlock(_ block: ((UInt, Int64, Int64) -> Void)?) {}

    /// Sets the handler for redirects.
    @available(*, unavailable, renamed: "setter:redirectHandler(_:)", message: "The handler is called for redirects only.")
    public final func setRedirectResponseBlock(
        _ block: ((Any, URLRequest, URLResponse?) -> URLRequest?)?
    ) {}

    /// Sets the handler for stored responses.
    @available(*, unavailable, renamed: "setter:cacheResponseHandler(_:)", message: "The handler receives a CacheCandidate.")
    public final func setCacheResponseBlock(_ block: ((Any, CachedURLResponse) -> CachedURLResponse?)?) {}

    /// Sets the handler for challenges.
    @available(*, unavailable, renamed: "setter:authenticationChallengeHandler(_:)", message: "The handler may reply later.")
    public final func setWillSendRequestForAuthenticationChallengeBlock(
        _ block: ((Any, URLAuthenticationChallenge) -> Void)?
    ) {}

    /// Continues the operation in the background.
    @available(*, unavailable, message: "Remove the call: Linux does not suspend background programs.")
    public final func setShouldExecuteAsBackgroundTaskWithExpirationHandler(_ handler: (() -> Void)?) {}

    /// Continues the operation in the background.
    @available(*, unavailable, message: "Remove the call: Linux does not suspend background programs.")
    public final func setShouldExecuteAsBackgroundTask(expirationHandler handler: (() -> Void)?) {}

    // MARK: Properties

    /// The modes of the network thread's run loop.
    @available(*, unavailable, message: "Remove the property: the network thread does not use a Foundation run loop.")
    public final var runLoopModes: Set<String> {
        get { [] }
        set {}
    }

    // MARK: Batches

    /// Creates a batch.
    @available(*, unavailable, renamed: "batch(of:progress:completion:)")
    public static func batchOfRequestOperations(
        _ operations: [URLConnectionOperation]?, progressBlock: ((UInt, UInt) -> Void)?,
        completionBlock: (([URLConnectionOperation]) -> Void)?
    ) -> [Operation] { [] }

    /// Creates a batch.
    @available(*, unavailable, renamed: "batch(of:progress:completion:)")
    public static func batch(
        ofRequestOperations operations: [URLConnectionOperation]?, progressBlock: ((UInt, UInt) -> Void)?,
        completionBlock: (([URLConnectionOperation]) -> Void)?
    ) -> [Operation] { [] }
}

extension HTTPRequestOperation {
    /// Sets the completion handlers.
    @available(*, unavailable, renamed: "setCompletionHandler(success:failure:)")
    public final func setCompletionBlockWithSuccess(
        _ success: ((HTTPRequestOperation, Any?) -> Void)?, failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) {}

    /// Sets the completion handlers.
    @available(*, unavailable, renamed: "setCompletionHandler(success:failure:)")
    public final func setCompletionBlock(
        success: ((HTTPRequestOperation, Any?) -> Void)?, failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) {}
}

// Replacements for AFNetworking's additions to UIKit, for views of any toolkit.

extension NetworkActivityMonitor {
    /// The shared manager.
    @available(*, unavailable, renamed: "shared")
    public static func sharedManager() -> NetworkActivityMonitor { shared }

    /// Whether the monitor is enabled.
    @available(*, unavailable, renamed: "isEnabled")
    public var enabled: Bool {
        get { isEnabled }
        set { isEnabled = newValue }
    }

    /// Whether the activity should be shown.
    @available(*, unavailable, renamed: "isNetworkActivityVisible")
    public var isNetworkActivityIndicatorVisible: Bool { isNetworkActivityVisible }

    /// Sets the handler that shows and hides the activity.
    @available(*, unavailable, renamed: "setter:activityHandler(_:)")
    public func setNetworkingActivityActionWithBlock(_ block: ((Bool) -> Void)?) {}
}

extension ActivityView {
    /// Shows whether an operation is running.
    @available(*, unavailable, renamed: "setAnimatingWithState(of:on:)")
    public func setAnimatingWithStateOfOperation(_ operation: URLConnectionOperation?) {}

    /// Shows whether a task is running.
    @available(*, unavailable, renamed: "setAnimatingWithState(of:on:)")
    public func setAnimatingWithStateOfTask(_ task: (any HTTPRequestHandle)?) {}
}

extension TransferProgressView {
    /// Shows the progress of the request body.
    @available(*, unavailable, renamed: "setProgressWithUploadProgress(of:on:)")
    public func setProgressWithUploadProgressOfOperation(_ operation: URLConnectionOperation?, animated: Bool) {}

    /// Shows the progress of the response body.
    @available(*, unavailable, renamed: "setProgressWithDownloadProgress(of:on:)")
    public func setProgressWithDownloadProgressOfOperation(_ operation: URLConnectionOperation?, animated: Bool) {}

    /// Shows the progress of the request body.
    @available(*, unavailable, renamed: "setProgressWithUploadProgress(of:on:)")
    public func setProgressWithUploadProgressOfTask(_ task: (any HTTPRequestHandle)?, animated: Bool) {}

    /// Shows the progress of the response body.
    @available(*, unavailable, renamed: "setProgressWithDownloadProgress(of:on:)")
    public func setProgressWithDownloadProgressOfTask(_ task: (any HTTPRequestHandle)?, animated: Bool) {}
}
