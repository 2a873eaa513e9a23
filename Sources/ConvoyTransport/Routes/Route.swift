import CCurl
import CEpoll
import ConvoySecurity
import ConvoySupport
import Foundation
import Synchronization

/// How one transfer reaches its server, if not directly; decided before connecting. Immutable, and shared by all
/// transfers with the same route.
final class Route: @unchecked Sendable {
    let proxy: Proxy?
    /// The proxy in libcurl's form; empty for none.
    let proxyText: String
    let unixSocket: UnixSocket?
    /// Checks each address before it is connected to; nil for none.
    let addressGuard: AddressGuard?
    /// The group of libcurl's connections that it may use; nil for plain ones.
    let key: ConnectionKey?

    /// Where to connect instead of to the URL's host, in the form of `CURLOPT_CONNECT_TO`; nil for the URL's host.
    let connectTo: String?
    /// The same in libcurl's form.
    let connectToList: UnsafeMutablePointer<curl_slist>?
    /// The source of connections; nil for the system's choice.
    let source: ConnectionSource?
    /// The service type of its traffic.
    let serviceType: NetworkServiceType
    /// How many seconds the result of a name lookup is used.
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

    /// libcurl's default.
    static let defaultNameCacheSeconds = 60

    private static func seconds(_ time: TimeInterval?) -> Int {
        guard let time else { return defaultNameCacheSeconds }
        // libcurl's value for "for ever", -1, makes 8.14 forget everything at once.
        guard time >= 0, time <= 1e9 else { return time.isNaN ? defaultNameCacheSeconds : Int(Int32.max) }
        return Int(time.rounded(.up))
    }

    /// The authority of an HTTP proxy tunnel; nil if the proxy is asked for the URL itself.
    func tunnelTarget(for target: Target) -> String? {
        guard proxy?.kind.isHTTP == true, target.isSecure || connectTo != nil else { return nil }
        guard let place = connectTo?.dropFirst(2) else { return "\(target.host):\(target.port)" }
        return place.hasSuffix(":") ? "\(place)\(target.port)" : String(place)
    }

    /// Whether the address that is connected to has a scope in libcurl's reading, which leaves no place for a key's
    /// number. (Zones follow a percent sign: RFC 6874.)
    func isScoped(_ target: Target) -> Bool {
        guard let proxy else { return target.zone != nil }
        return proxy.host.contains("%")
    }
}

extension Route: Equatable {
    static func == (left: Route, right: Route) -> Bool { left === right }
}

/// Distinguishes connections that libcurl takes for equal, by a number.
///
/// libcurl uses a tunnel through an HTTP proxy for every request to the same proxy, whatever credential opened it, and
/// does not compare a connection's source address, marks or identity. But it groups connections by the scope number of
/// IPv6 addresses (`CURLOPT_ADDRESS_SCOPE`), even for other addresses, and the system uses that number for link-local
/// addresses only. So each key has a number that no network interface has.
final class ConnectionKey: Sendable {
    /// The properties that distinguish a connection.
    struct Distinction: Hashable {
        /// The credential with which the proxy opened the tunnel.
        var credential: ProxyCredential?
        /// The source of the connection. libcurl compares that only for requests that set one.
        var source: ConnectionSource?
        /// The marks of its packets.
        var serviceType = NetworkServiceType.default
        /// The name of the identity for which its requests are sent.
        var identity: ExactString?

        /// Whether it differs from a plain connection.
        var matters: Bool { self != Distinction() }
    }

    let number: Int

    private init() {
        // Above all numbers of interfaces, and below the largest that a scope can have.
        number = Self.first + Self.count.add(1, ordering: .relaxed).newValue % Self.first
    }

    private static let first = 1 << 30
    private static let count = Atomic<Int>(0)

    private struct WeakKey {
        weak var key: ConnectionKey?
    }
    private struct Known {
        var keys: [Distinction: WeakKey] = [:]
        /// The most recent keys, so that programs that make a new configuration for each request still find their
        /// connections.
        var recent: [ConnectionKey] = []
    }
    private static let known = Locked(Known())
    private static let recentLimit = 64

    /// The key of all connections with this distinction, while it is referenced or one of the most recent; nil for
    /// plain ones. After that its connections cannot be used any more.
    static func shared(for distinction: Distinction) -> ConnectionKey? {
        guard distinction.matters else { return nil }
        return known.withLock { known in
            if let key = known.keys[distinction]?.key { return key }
            if known.recent.count >= recentLimit { known.recent.removeFirst() }
            known.keys = known.keys.filter { $0.value.key != nil }
            let key = ConnectionKey()
            known.keys[distinction] = WeakKey(key: key)
            known.recent.append(key)
            return key
        }
    }
}

/// The source of connections.
public enum ConnectionSource: Sendable, Hashable {
    /// From a network interface, such as `eth0`, whatever the routing table says.
    case interface(String)
    /// From an address of this machine. Servers with addresses of the other family cannot be reached.
    case address(IPAddress)

    /// Binds a socket to the source.
    ///
    /// - Returns: 0, or the system's error.
    func bind(_ descriptor: Int32, family: Int32) -> Int32 {
        switch self {
        case .interface(let name):
            // The system would truncate a longer name.
            guard !name.isEmpty, name.utf8.count < Int(IFNAMSIZ), !name.utf8.contains(0) else { return ENODEV }
            let length = socklen_t(name.utf8.count)
            return setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, name, length) == 0 ? 0 : errno
        case .address(let address):
            guard family == (address.isIPv6 ? AF_INET6 : AF_INET) else { return EAFNOSUPPORT }
            // The port is chosen when connecting, so that one port can serve connections to several servers.
            var yes: Int32 = 1
            let size = socklen_t(MemoryLayout<Int32>.size)
            setsockopt(descriptor, Int32(IPPROTO_IP), Self.bindsWithoutPort, &yes, size)
            return address.withSocketAddress { Glibc.bind(descriptor, $0, $1) == 0 ? 0 : errno }
        }
    }

    /// `IP_BIND_ADDRESS_NO_PORT` of `<linux/in.h>`.
    private static let bindsWithoutPort: Int32 = 24
}

extension IPAddress {
    /// Calls a function with the address in the system's form, with port 0.
    fileprivate func withSocketAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        if isIPv6 {
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            withUnsafeMutableBytes(of: &address.sin6_addr) { $0.copyBytes(from: bytes) }
            return withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    body($0, socklen_t(MemoryLayout<sockaddr_in6>.size))
                }
            }
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        withUnsafeMutableBytes(of: &address.sin_addr) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
    }
}

/// The address of a Unix socket (unix(7)).
struct UnixSocket: Sendable, Hashable {
    /// A path in the file system, or a name without one.
    let name: String
    /// Whether the name is in Linux's abstract namespace.
    let isAbstract: Bool

    /// - Parameter text: a path, or `@` and an abstract name.
    /// - Throws: `URLError.badURL` for a text that cannot name a socket.
    init(_ text: String) throws(URLError) {
        isAbstract = text.first == "@"
        name = isAbstract ? String(text.dropFirst()) : text
        guard !name.isEmpty, !name.utf8.contains(0), name.utf8.count <= Self.limit else {
            throw URLError(
                .badURL, url: nil,
                "The path of the Unix socket is empty, longer than \(Self.limit) bytes, or has a zero byte.")
        }
    }

    /// `sun_path`, with a zero byte before or after.
    private static let limit = 107

    /// Why connecting failed. libcurl's own text names the host and the port of the URL.
    func failureText(_ systemError: Int32) -> String {
        let reason = systemError == 0 ? "" : ": " + String(cString: strerror(systemError))
        return "The Unix socket \(isAbstract ? "@" : "")\(name) cannot be connected to\(reason)."
    }
}
