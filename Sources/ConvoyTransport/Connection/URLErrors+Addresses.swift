import ConvoySecurity
import ConvoySupport
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

extension URLConnection {
    /// The error of a transfer for which no address could be tried; nil if one was.
    func addressError(_ addresses: TriedAddresses) -> URLError? {
        if let refusal = addresses.refusal { return URLError(refused: refusal, url: exchange.request.url) }
        guard addresses.openedCount == 0, addresses.bindError != 0 else { return nil }
        let reason = String(cString: strerror(addresses.bindError))
        return failure(
            .cannotConnectToHost, "No connection can be made from the interface or the address that was chosen: \(reason).",
            underlying: NSError(domain: NSPOSIXErrorDomain, code: Int(addresses.bindError)))
    }
}
