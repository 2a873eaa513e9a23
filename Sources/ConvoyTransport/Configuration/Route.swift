import CCurl
import CEpoll
import ConvoySecurity
import ConvoySupport
import Foundation
import Synchronization

/// The route of a transfer to its server, if it is not a direct connection. It is determined before connecting.
/// Immutable, and shared by all transfers with the same route.
final class Route: @unchecked Sendable {
    let proxy: Proxy?
    /// The proxy in libcurl's form; empty for none.
    let proxyText: String
    let unixSocket: UnixSocket?
    /// The guard that checks each address before connecting; nil for none.
    let addressGuard: AddressGuard?
    /// The group of libcurl's connections that the transfer may use; nil for plain connections.
    let key: ConnectionKey?

    /// The address to connect to instead of the URL's host, in the form of `CURLOPT_CONNECT_TO`; nil for the URL's
    /// host.
    let connectTo: String?
    /// The same address as a libcurl list.
    let connectToList: UnsafeMutablePointer<curl_slist>?
    /// The local interface or address of connections; nil for the system's choice.
    let source: ConnectionSource?
    /// The service type of the traffic.
    let serviceType: NetworkServiceType
    /// The time for which DNS results are cached, in seconds.
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
            throw URLError(.cannotLoadFromNetwork, url: nil, "There is not enough memory for a transfer.")
        }
        source = settings.unixSocket == nil ? settings.source : nil
        self.serviceType = serviceType
        nameCacheSeconds = Self.seconds(settings.nameCacheTime)
        key = ConnectionKey.shared(
            for: ConnectionKey.Distinction(
                credential: proxy?.credential, source: source, serviceType: serviceType, identity: settings.identity))
    }

    deinit { curl_slist_free_all(connectToList) }

    /// libcurl's default for the DNS cache time, in seconds.
    static let defaultNameCacheSeconds = 60

    private static func seconds(_ time: TimeInterval?) -> Int {
        guard let time else { return defaultNameCacheSeconds }
        // libcurl's value for "forever", -1, makes libcurl 8.14 discard everything immediately.
        guard time >= 0, time <= 1e9 else { return time.isNaN ? defaultNameCacheSeconds : Int(Int32.max) }
        return Int(time.rounded(.up))
    }

    /// Returns the authority of an HTTP proxy tunnel; nil if the proxy receives the URL itself.
    func tunnelTarget(for target: Target) -> String? {
        guard proxy?.kind.isHTTP == true, target.isSecure || connectTo != nil else { return nil }
        guard let place = connectTo?.dropFirst(2) else { return "\(target.host):\(target.port)" }
        return place.hasSuffix(":") ? "\(place)\(target.port)" : String(place)
    }

    /// Returns whether libcurl assigns a scope to the address that is connected to, which leaves no room for a key's
    /// number. (Zones follow a percent sign: RFC 6874.)
    func isScoped(_ target: Target) -> Bool {
        guard let proxy else { return target.zone != nil }
        return proxy.host.contains("%")
    }
}

extension Route: Equatable {
    static func == (left: Route, right: Route) -> Bool { left === right }
}

/// A number that separates connections that libcurl would otherwise consider interchangeable.
///
/// libcurl uses a tunnel through an HTTP proxy for every request to the same proxy, regardless of the credential that
/// opened it. It does not compare a connection's source address, marks or identity either. However, it groups
/// connections by the scope number of IPv6 addresses (`CURLOPT_ADDRESS_SCOPE`), even for other addresses, and the
/// system uses that number for link-local addresses only. Each key therefore has a number that no network interface
/// has.
final class ConnectionKey: Sendable {
    /// The properties that distinguish a connection.
    struct Distinction: Hashable {
        /// The credential with which the tunnel through the proxy was opened.
        var credential: ProxyCredential?
        /// The source of the connection. libcurl compares it only for requests that set one.
        var source: ConnectionSource?
        /// The service type that determines the marks of its packets.
        var serviceType = NetworkServiceType.default
        /// The name of the identity for which its requests are sent.
        var identity: ExactString?

        /// Whether the connection differs from a plain one.
        var matters: Bool { self != Distinction() }
    }

    let number: Int

    private init() {
        // The number is above all interface numbers, and below the maximum scope number.
        number = Self.first + Self.count.add(1, ordering: .relaxed).newValue % Self.first
    }

    private static let first = 1 << 30
    private static let count = Atomic<Int>(0)

    private struct WeakKey {
        weak var key: ConnectionKey?
    }
    private struct Known {
        var keys: [Distinction: WeakKey] = [:]
        /// The most recent keys, so that programs that create a new configuration for each request still reuse their
        /// connections.
        var recent: [ConnectionKey] = []
    }
    private static let known = Locked(Known())
    private static let recentLimit = 64

    /// Returns the key for connections with this distinction; nil for plain connections. A key exists while it is
    /// referenced or among the most recent ones. After that, its connections are no longer reused.
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

/// The local interface or address from which connections are made.
public enum ConnectionSource: Sendable, Hashable {
    /// A network interface, such as `eth0`, regardless of the routing table.
    case interface(String)
    /// A local address. Servers with addresses of the other family cannot be reached.
    case address(IPAddress)

    /// Binds a socket to the source.
    ///
    /// - Returns: 0, or the system's error number.
    func bind(_ descriptor: Int32, family: Int32) -> Int32 {
        switch self {
        case .interface(let name):
            // The system would truncate a longer name.
            guard !name.isEmpty, name.utf8.count < Int(IFNAMSIZ), !name.utf8.contains(0) else { return ENODEV }
            let length = socklen_t(name.utf8.count)
            return setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, name, length) == 0 ? 0 : errno
        case .address(let address):
            guard family == (address.isIPv6 ? AF_INET6 : AF_INET) else { return EAFNOSUPPORT }
            // Choose the port when connecting, so that one port can serve connections to several servers.
            var yes: Int32 = 1
            let size = socklen_t(MemoryLayout<Int32>.size)
            setsockopt(descriptor, Int32(IPPROTO_IP), Self.bindsWithoutPort, &yes, size)
            return address.withSocketAddress { Glibc.bind(descriptor, $0, $1) == 0 ? 0 : errno }
        }
    }

    /// The socket option `IP_BIND_ADDRESS_NO_PORT` of `<linux/in.h>`.
    private static let bindsWithoutPort: Int32 = 24
}

extension IPAddress {
    /// Calls a function with the address as a `sockaddr` with port 0.
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
    /// A path in the file system, or an abstract name.
    let name: String
    /// Whether the name is in Linux's abstract namespace.
    let isAbstract: Bool

    /// - Parameter text: A path, or `@` followed by an abstract name.
    /// - Throws: `URLError.badURL` if the text cannot name a socket.
    init(_ text: String) throws(URLError) {
        isAbstract = text.first == "@"
        name = isAbstract ? String(text.dropFirst()) : text
        guard !name.isEmpty, !name.utf8.contains(0), name.utf8.count <= Self.limit else {
            throw URLError(
                .badURL, url: nil,
                "The Unix socket path must have 1 to \(Self.limit) bytes and no zero byte.")
        }
    }

    /// The size of `sun_path`, minus a zero byte before or after.
    private static let limit = 107

    /// Returns the reason why connecting failed. libcurl's own text names the host and the port of the URL.
    func failureText(_ systemError: Int32) -> String {
        let reason = systemError == 0 ? "" : ": " + String(cString: strerror(systemError))
        return "Cannot connect to the Unix socket \(isAbstract ? "@" : "")\(name)\(reason)."
    }
}
