import ConvoySecurity
import Foundation

/// The way of one transfer to its server, decided before anything is connected, where it is not simply the direct one.
///
/// Immutable, and the same object for all transfers that go the same way.
final class Route: Sendable {
    let proxy: Proxy?
    /// The proxy as libcurl takes it; empty for none.
    let proxyText: String
    let unixSocket: UnixSocket?
    /// What judges each address before it is connected to; nil for nobody.
    let addressGuard: AddressGuard?
    /// Which of libcurl's connections it may use; nil for those that are like any other.
    let key: ConnectionKey?

    init(_ settings: RoutingSettings, proxy: Proxy?) throws(URLError) {
        unixSocket = try settings.unixSocket.map { path throws(URLError) in try UnixSocket(path) }
        addressGuard = settings.addressGuard
        self.proxy = proxy
        proxyText = proxy?.libcurlText ?? ""
        key = ConnectionKey.shared(for: ConnectionKey.Distinction(credential: proxy?.credential))
    }

    /// Whether libcurl would read a scope of its own in the address that is connected to, so that a key's number cannot
    /// be in its place. (Zones follow a percent sign: RFC 6874.)
    func isScoped(_ address: String) -> Bool {
        guard let proxy else { return address.utf8.contains(UInt8(ascii: "[")) && address.contains("%25") }
        return proxy.host.contains("%")
    }
}

extension Route: Equatable {
    static func == (left: Route, right: Route) -> Bool { left === right }
}
