import ConvoyReachability
import ConvoySerialization
import Foundation
import FoundationNetworking

// AFNetworking's types, notifications and functions of this module, marked unavailable: the compiler suggests the
// replacement to a ported program instead of reporting an unknown name.

// MARK: Operations

/// A request as an operation.
@available(*, unavailable, renamed: "URLConnectionOperation")
public typealias AFURLConnectionOperation = URLConnectionOperation

/// An HTTP request as an operation.
@available(*, unavailable, renamed: "HTTPRequestOperation")
public typealias AFHTTPRequestOperation = HTTPRequestOperation

/// A manager of operations with common settings.
@available(*, unavailable, renamed: "HTTPRequestOperationManager")
public typealias AFHTTPRequestOperationManager = HTTPRequestOperationManager

/// An operation has started.
@available(*, unavailable, renamed: "Notification.Name.networkingOperationDidStart")
public var AFNetworkingOperationDidStartNotification: Notification.Name { .networkingOperationDidStart }

/// An operation has finished.
@available(*, unavailable, renamed: "Notification.Name.networkingOperationDidFinish")
public var AFNetworkingOperationDidFinishNotification: Notification.Name { .networkingOperationDidFinish }

extension Notification.Name {
    /// An operation has started.
    @available(*, unavailable, renamed: "networkingOperationDidStart")
    public static var AFNetworkingOperationDidStart: Notification.Name { networkingOperationDidStart }

    /// An operation has finished.
    @available(*, unavailable, renamed: "networkingOperationDidFinish")
    public static var AFNetworkingOperationDidFinish: Notification.Name { networkingOperationDidFinish }
}

// MARK: Reachability

/// Whether there is a network.
@available(*, unavailable, renamed: "NetworkReachabilityManager")
public final class AFNetworkReachabilityManager: Sendable {
    /// The one for the whole program.
    @available(*, unavailable, renamed: "NetworkReachabilityManager.shared")
    public static func sharedManager() -> AFNetworkReachabilityManager { AFNetworkReachabilityManager() }

    /// The one for the whole program.
    @available(*, unavailable, renamed: "NetworkReachabilityManager.shared")
    public static func shared() -> AFNetworkReachabilityManager { AFNetworkReachabilityManager() }

    init() {}
}

extension NetworkReachabilityManager {
    /// Whether there is a network.
    @available(*, unavailable, renamed: "isReachable")
    public var reachable: Bool { isReachable }

    /// Whether it is a mobile one.
    @available(*, unavailable, renamed: "isReachableViaWWAN")
    public var reachableViaWWAN: Bool { isReachableViaWWAN }

    /// Whether it is a wireless LAN.
    @available(*, unavailable, renamed: "isReachableViaWiFi")
    public var reachableViaWiFi: Bool { isReachableViaWiFi }

    /// Sets what is called with each new status.
    @available(*, unavailable, renamed: "setter:reachabilityStatusChangeHandler(_:)", message: "A cable: .reachableViaWire.")
    public func setReachabilityStatusChangeBlock(_ block: ((NetworkReachabilityStatus) -> Void)?) {}
}

/// What kind of network there is.
@available(*, unavailable, renamed: "NetworkReachabilityStatus", message: "A cable is .reachableViaWire, not `default:`.")
public enum AFNetworkReachabilityStatus: Int, Sendable {
    /// Not known yet.
    case unknown = -1
    /// None.
    case notReachable
    /// A mobile one.
    case reachableViaWWAN
    /// Another.
    case reachableViaWiFi
}

/// The name of a kind of network.
@available(*, unavailable, message: "description of a NetworkReachabilityStatus")
public func AFStringFromNetworkReachabilityStatus(_ status: AFNetworkReachabilityStatus) -> String { "" }

/// The network has changed.
@available(*, unavailable, renamed: "Notification.Name.networkingReachabilityDidChange")
public var AFNetworkingReachabilityDidChangeNotification: Notification.Name { .networkingOperationDidStart }

/// The key of the kind of network in that notification.
@available(*, unavailable, renamed: "NetworkReachabilityManager.statusUserInfoKey")
public var AFNetworkingReachabilityNotificationStatusItem: String { "" }

// MARK: UIKit

/// What shows that the network is used.
@available(*, unavailable, renamed: "NetworkActivityMonitor")
public final class AFNetworkActivityIndicatorManager: Sendable {
    /// The one for the whole program.
    @available(*, unavailable, renamed: "NetworkActivityMonitor.shared")
    public static func sharedManager() -> AFNetworkActivityIndicatorManager { AFNetworkActivityIndicatorManager() }

    /// The one for the whole program.
    @available(*, unavailable, renamed: "NetworkActivityMonitor.shared")
    public static func shared() -> AFNetworkActivityIndicatorManager { AFNetworkActivityIndicatorManager() }

    private init() {}
}

// MARK: AFRocketClient

/// A client of servers that send events: `subscribe(_:)` of ConvoyRealtime is a verb of both managers.
@available(*, unavailable, renamed: "HTTPRequestOperationManager")
public typealias AFRocketClient = HTTPRequestOperationManager

// The replacements of the members of AFNetworking's manager.

extension HTTPRequestOperationManager {
    /// A manager without a base URL.
    @available(*, unavailable, renamed: "init()")
    public static func manager() -> HTTPRequestOperationManager { HTTPRequestOperationManager() }

    /// Makes an operation for a request.
    @available(*, unavailable, message: "makeOperation(request:); then its setCompletionHandler(success:failure:)")
    public final func HTTPRequestOperationWithRequest(
        _ request: URLRequest, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Makes an operation for a request.
    @available(*, unavailable, message: "makeOperation(request:); then its setCompletionHandler(success:failure:)")
    public final func httpRequestOperation(
        with request: URLRequest, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    // MARK: Verbs

    /// A GET.
    @available(*, unavailable, renamed: "get(_:parameters:success:failure:)")
    @discardableResult
    public final func GET(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A HEAD.
    @available(*, unavailable, renamed: "head(_:parameters:success:failure:)")
    @discardableResult
    public final func HEAD(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A POST.
    @available(*, unavailable, renamed: "post(_:parameters:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A POST of a form.
    @available(*, unavailable, renamed: "post(_:parameters:constructingBody:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, constructingBodyWithBlock block: ((MultipartFormData) -> Void)?,
        success: ((HTTPRequestOperation, Any?) -> Void)?, failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A PUT.
    @available(*, unavailable, renamed: "put(_:parameters:success:failure:)")
    @discardableResult
    public final func PUT(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A PATCH.
    @available(*, unavailable, renamed: "patch(_:parameters:success:failure:)")
    @discardableResult
    public final func PATCH(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A DELETE.
    @available(*, unavailable, renamed: "delete(_:parameters:success:failure:)")
    @discardableResult
    public final func DELETE(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }
}

// The replacements of the members of AFNetworking's operations.

extension URLConnectionOperation {
    // MARK: Block setters

    /// Sets the handler for sent bytes.
    @available(*, unavailable, renamed: "setter:uploadProgressHandler(_:)", message: "What is not known is nil, not -1.")
    public final func setUploadProgressBlock(_ block: ((UInt, Int64, Int64) -> Void)?) {}

    /// Sets the handler for received bytes.
    @available(*, unavailable, renamed: "setter:downloadProgressHandler(_:)", message: "What is not known is nil, not -1.")
    public final func setDownloadProgressBlock(_ block: ((UInt, Int64, Int64) -> Void)?) {}

    /// Sets the handler for redirects.
    @available(*, unavailable, renamed: "setter:redirectHandler(_:)", message: "Called for redirects only.")
    public final func setRedirectResponseBlock(
        _ block: ((Any, URLRequest, URLResponse?) -> URLRequest?)?
    ) {}

    /// Sets the handler for stored responses.
    @available(*, unavailable, renamed: "setter:cacheResponseHandler(_:)", message: "It gets a CacheCandidate.")
    public final func setCacheResponseBlock(_ block: ((Any, CachedURLResponse) -> CachedURLResponse?)?) {}

    /// Sets the handler for challenges.
    @available(*, unavailable, renamed: "setter:authenticationChallengeHandler(_:)", message: "It may answer later.")
    public final func setWillSendRequestForAuthenticationChallengeBlock(
        _ block: ((Any, URLAuthenticationChallenge) -> Void)?
    ) {}

    /// Continues the operation in the background.
    @available(*, unavailable, message: "Linux suspends no program in the background: nothing need be asked for.")
    public final func setShouldExecuteAsBackgroundTaskWithExpirationHandler(_ handler: (() -> Void)?) {}

    /// Continues the operation in the background.
    @available(*, unavailable, message: "Linux suspends no program in the background: nothing need be asked for.")
    public final func setShouldExecuteAsBackgroundTask(expirationHandler handler: (() -> Void)?) {}

    // MARK: Properties

    /// The modes of the network thread's run loop.
    @available(*, unavailable, message: "The network thread has no run loop of Foundation's, and so no modes.")
    public final var runLoopModes: Set<String> {
        get { [] }
        set {}
    }

    // MARK: Batches

    /// Makes a batch.
    @available(*, unavailable, renamed: "batch(of:progress:completion:)")
    public static func batchOfRequestOperations(
        _ operations: [URLConnectionOperation]?, progressBlock: ((UInt, UInt) -> Void)?,
        completionBlock: (([URLConnectionOperation]) -> Void)?
    ) -> [Operation] { [] }

    /// Makes a batch.
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

// The replacements of AFNetworking's additions to UIKit, for views of any toolkit.

extension NetworkActivityMonitor {
    /// Whether it is enabled.
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
    /// Shows how much of the request's body was sent.
    @available(*, unavailable, renamed: "setProgressWithUploadProgress(of:on:)")
    public func setProgressWithUploadProgressOfOperation(_ operation: URLConnectionOperation?, animated: Bool) {}

    /// Shows how much of the response's body has arrived.
    @available(*, unavailable, renamed: "setProgressWithDownloadProgress(of:on:)")
    public func setProgressWithDownloadProgressOfOperation(_ operation: URLConnectionOperation?, animated: Bool) {}

    /// Shows how much of the request's body was sent.
    @available(*, unavailable, renamed: "setProgressWithUploadProgress(of:on:)")
    public func setProgressWithUploadProgressOfTask(_ task: (any HTTPRequestHandle)?, animated: Bool) {}

    /// Shows how much of the response's body has arrived.
    @available(*, unavailable, renamed: "setProgressWithDownloadProgress(of:on:)")
    public func setProgressWithDownloadProgressOfTask(_ task: (any HTTPRequestHandle)?, animated: Bool) {}
}
