import CCurl
import CEpoll
import ConvoySecurity
import ConvoySupport
import Foundation
import Synchronization

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

/// What sets connections apart that libcurl takes for equal, as a number.
///
/// libcurl uses a tunnel through an HTTP proxy for whoever asks for the same proxy, whatever credential opened it, and
/// does not know of a connection's own source address, its marks, or whose it is. But it keeps connections in groups by the number of the scope of
/// IPv6 addresses (`CURLOPT_ADDRESS_SCOPE`), also where the address is no IPv6 address, and the system minds the number
/// for link-local addresses only. So each key has a number that no network interface has.
final class ConnectionKey: Sendable {
    /// What a connection has that others have not.
    struct Distinction: Hashable {
        /// For whom the proxy has opened it.
        var credential: ProxyCredential?
        /// From where it was made. libcurl compares that only for a request that names one.
        var source: ConnectionSource?
        /// How its packets are marked.
        var serviceType = NetworkServiceType.default
        /// The name of the one on whose behalf its requests are sent.
        var identity: ExactString?

        /// Whether it differs from that of a plain connection.
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
        /// The last ones, so that programs find their connections that make a new configuration for each request.
        var recent: [ConnectionKey] = []
    }
    private static let known = Locked(Known())
    private static let recentLimit = 64

    /// The key of all connections with this distinction, while somebody holds it or it is one of the last; nil for plain
    /// ones. After that nobody can use its connections any more.
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

/// From where connections are made.
public enum ConnectionSource: Sendable, Hashable {
    /// From a network interface, such as `eth0`, whatever the routing table says.
    case interface(String)
    /// From an address of this machine. Servers with addresses of the other family are not reached.
    case address(IPAddress)

    /// Makes a socket's connection leave from there.
    ///
    /// - Returns: 0, or the system's error.
    func bind(_ descriptor: Int32, family: Int32) -> Int32 {
        switch self {
        case .interface(let name):
            // The system cuts off a longer name.
            guard !name.isEmpty, name.utf8.count < Int(IFNAMSIZ), !name.utf8.contains(0) else { return ENODEV }
            let length = socklen_t(name.utf8.count)
            return setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, name, length) == 0 ? 0 : errno
        case .address(let address):
            guard family == (address.isIPv6 ? AF_INET6 : AF_INET) else { return EAFNOSUPPORT }
            // The port is chosen when the server is known, so that one port can serve for many of them.
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
    /// Whether it is a name in the abstract namespace, which Linux has.
    let isAbstract: Bool

    /// - Parameter text: a path, or `@` and an abstract name.
    /// - Throws: `URLError.badURL` for one that no socket can have.
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

    /// Why it cannot be connected to. libcurl's own text has the host and the port of the URL.
    func failureText(_ systemError: Int32) -> String {
        let reason = systemError == 0 ? "" : ": " + String(cString: strerror(systemError))
        return "The Unix socket \(isAbstract ? "@" : "")\(name) cannot be connected to\(reason)."
    }
}
