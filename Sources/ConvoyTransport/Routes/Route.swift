import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// The way of one transfer to its server, decided before anything is connected, where it is not simply the direct one.
///
/// Immutable, and the same object for all transfers that go the same way.
final class Route: @unchecked Sendable {
    let proxy: Proxy?
    /// The proxy as libcurl takes it; empty for none.
    let proxyText: String
    let unixSocket: UnixSocket?
    /// What judges each address before it is connected to; nil for nobody.
    let addressGuard: AddressGuard?
    /// Which of libcurl's connections it may use; nil for those that are like any other.
    let key: ConnectionKey?

    /// Where to connect instead of to the URL's host, as `CURLOPT_CONNECT_TO` has it; nil for there.
    let connectTo: String?
    /// The same as libcurl takes it.
    let connectToList: UnsafeMutablePointer<curl_slist>?
    /// From where to connect; nil for where the system chooses.
    let source: ConnectionSource?
    /// What its traffic is for.
    let serviceType: NetworkServiceType
    /// How many seconds the answer of a name server is used.
    let nameCacheSeconds: Int

    init(
        _ settings: RoutingSettings, proxy: Proxy?, connectTo: String?, serviceType: NetworkServiceType
    ) throws(URLError) {
        unixSocket = try settings.unixSocket.map { path throws(URLError) in try UnixSocket(path) }
        addressGuard = settings.addressGuard
        self.proxy = proxy
        proxyText = proxy?.libcurlText ?? ""
        self.connectTo = connectTo
        connectToList = connectTo.flatMap { curl_slist_append(nil, $0) }
        guard connectTo == nil || connectToList != nil else {
            throw URLError(.cannotLoadFromNetwork, url: nil, "There is no memory for a transfer.")
        }
        source = settings.unixSocket == nil ? settings.source : nil
        self.serviceType = serviceType
        nameCacheSeconds = Self.seconds(settings.nameCacheTime)
        key = ConnectionKey.shared(
            for: ConnectionKey.Distinction(
                credential: proxy?.credential, source: source, serviceType: serviceType, identity: settings.identity))
    }

    deinit { curl_slist_free_all(connectToList) }

    /// What libcurl does of itself.
    static let defaultNameCacheSeconds = 60

    private static func seconds(_ time: TimeInterval?) -> Int {
        guard let time else { return defaultNameCacheSeconds }
        // What libcurl takes for ever, -1, makes 8.14 forget everything at once.
        guard time >= 0, time <= 1e9 else { return time.isNaN ? defaultNameCacheSeconds : Int(Int32.max) }
        return Int(time.rounded(.up))
    }

    /// What an HTTP proxy is asked to connect to; nil where it is asked for the URL itself.
    func tunnelTarget(for target: Target) -> String? {
        guard proxy?.kind.isHTTP == true, target.isSecure || connectTo != nil else { return nil }
        guard let place = connectTo?.dropFirst(2) else { return "\(target.host):\(target.port)" }
        return place.hasSuffix(":") ? "\(place)\(target.port)" : String(place)
    }

    /// Whether libcurl would read a scope of its own in the address that is connected to, so that a key's number cannot
    /// be in its place. (Zones follow a percent sign: RFC 6874.)
    func isScoped(_ target: Target) -> Bool {
        guard let proxy else { return target.zone != nil }
        return proxy.host.contains("%")
    }
}

extension Route: Equatable {
    static func == (left: Route, right: Route) -> Bool { left === right }
}
