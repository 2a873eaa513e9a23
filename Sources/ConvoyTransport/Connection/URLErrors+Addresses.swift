import ConvoySecurity
import Foundation

extension URLError {
    /// A key in the `userInfo` of an error about an address that may not be connected to: an `AddressRefusal`.
    public static let addressRefusalKey = "ConvoyAddressRefusal"

    /// Which address the configuration's `addressGuard` refused; nil for other errors.
    ///
    /// The code is `.dataNotAllowed`. Nothing was sent, and no retry policy tries again.
    public var addressRefusal: AddressRefusal? { userInfo[Self.addressRefusalKey] as? AddressRefusal }

    /// It is not marked as one after which nothing was sent: such a request would be sent again without any policy.
    init(refused refusal: AddressRefusal, url: URL?) {
        var userInfo: [String: Any] = [
            NSLocalizedDescriptionKey: refusal.description, NSLocalizedFailureReasonErrorKey: refusal.description,
            NSUnderlyingErrorKey: refusal, Self.addressRefusalKey: refusal,
        ]
        if let url { userInfo[NSURLErrorFailingURLErrorKey] = url }
        self.init(.dataNotAllowed, describedBy: userInfo)
    }
}
