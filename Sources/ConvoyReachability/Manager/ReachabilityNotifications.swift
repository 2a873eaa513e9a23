import Foundation

extension Notification.Name {
    /// The status of a ``NetworkReachabilityManager`` has changed; `object` is the manager, and `userInfo` has the new
    /// status' `rawValue`, an `Int`, under ``NetworkReachabilityManager/statusUserInfoKey``. Posted to
    /// `NotificationCenter.default` on a serial queue of the manager's own, for each change, in order.
    ///
    /// Its text is that of AFNetworking's name.
    public static let networkingReachabilityDidChange = Notification.Name("com.alamofire.networking.reachability.change")
}

extension NetworkReachabilityManager {
    /// The key of the status in the notification: AFNetworking's `AFNetworkingReachabilityNotificationStatusItem`.
    public static let statusUserInfoKey = "AFNetworkingReachabilityNotificationStatusItem"
}
