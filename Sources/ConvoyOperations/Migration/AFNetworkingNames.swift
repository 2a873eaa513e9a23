import ConvoySerialization
import Foundation
import FoundationNetworking

// AFNetworking's types, notifications and functions of this module, so that a port is told what has become of them in
// place of "no such name".

// MARK: Operations

/// A request as an operation.
@available(*, unavailable, renamed: "URLConnectionOperation")
public typealias AFURLConnectionOperation = URLConnectionOperation

/// An HTTP request as an operation.
@available(*, unavailable, renamed: "HTTPRequestOperation")
public typealias AFHTTPRequestOperation = HTTPRequestOperation

/// What makes operations that have much in common.
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

/// What kind of network there is.
@available(*, unavailable, renamed: "NetworkReachabilityStatus")
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
