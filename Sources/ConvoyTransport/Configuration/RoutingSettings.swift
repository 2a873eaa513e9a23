import ConvoySecurity
import ConvoySupport
import Foundation

/// The settings that determine the route of the connections for a request.
package struct RoutingSettings: Sendable, Hashable {
    var proxy = ProxySelection.environment
    var unixSocket: String?
    var addressGuard: AddressGuard?
    var addressOverrides: [String: String] = [:]
    var source: ConnectionSource?
    var serviceType = NetworkServiceType.default
    /// The time in seconds; see ``ConnectionConfiguration/dnsCacheTime``.
    var nameCacheTime: TimeInterval?
    @ByReference var hsts: HSTSStore?
    /// The name of the identity for which requests are sent; see ``ConnectionConfiguration/identity``.
    var identity: ExactString?

    /// Whether a request is sent directly if it uses no proxy and its host has no override.
    var isDirect: Bool {
        unixSocket == nil && addressGuard == nil && source == nil && nameCacheTime == nil && serviceType == .default
            && identity == nil
    }
}

/// An object that is compared by reference.
@propertyWrapper
struct ByReference<Object: AnyObject & Sendable>: Sendable, Hashable {
    var wrappedValue: Object?

    static func == (one: Self, other: Self) -> Bool { one.wrappedValue === other.wrappedValue }

    func hash(into hasher: inout Hasher) { hasher.combine(wrappedValue.map(ObjectIdentifier.init)) }
}

/// Routing settings with copy-on-write. All copies share the routes created from them.
package struct RoutingConfiguration: Sendable, Hashable {
    private final class Storage: Sendable {
        let settings: RoutingSettings
        let isDirect: Bool
        /// Whether the settings contain neither a Unix socket nor an override.
        let isByName: Bool
        /// The last route, because most requests use the same one.
        private let last = Locked<Route?>(nil)

        init(_ settings: RoutingSettings) {
            self.settings = settings
            isDirect = settings.isDirect
            isByName = settings.unixSocket == nil && settings.addressOverrides.isEmpty
        }

        func route(
            through proxy: Proxy?, connectTo: String?, _ serviceType: NetworkServiceType
        ) throws(URLError) -> Route {
            if let last = last.withLock({ $0 }), last.proxy == proxy, last.connectTo == connectTo,
                last.serviceType == serviceType
            {
                return last
            }
            let route = try Route(settings, proxy: proxy, connectTo: connectTo, serviceType: serviceType)
            last.withLock { $0 = route }
            return route
        }
    }

    private var storage: Storage

    private static let standard = Storage(RoutingSettings())

    /// Creates a configuration with the default settings.
    package init() { storage = Self.standard }

    package var settings: RoutingSettings {
        get { storage.settings }
        set { storage = Storage(newValue) }
    }

    /// The store of hosts that require TLS.
    var hsts: HSTSStore? { storage.settings.hsts }

    /// Returns the route of a request; nil for a direct connection.
    ///
    /// - Parameters:
    ///   - target: The request's target.
    ///   - requested: The request's own service type, which applies unless the settings have one.
    /// - Throws: `URLError.badURL` or `.unsupportedURL` for settings with which no connection can be made.
    func route(to target: Target, requested: NetworkServiceType = .default) throws(URLError) -> Route? {
        // A Unix socket needs no proxy, address or network.
        guard storage.isByName || storage.settings.unixSocket == nil else {
            return try storage.route(through: nil, connectTo: nil, .default)
        }
        let serviceType = storage.settings.serviceType == .default ? requested : storage.settings.serviceType
        let proxy = try storage.settings.proxy.proxy(for: target)
        var connectTo: String?
        if !storage.isByName {
            connectTo = try AddressOverrides.connectTo(target, in: storage.settings.addressOverrides)
        }
        guard proxy != nil || connectTo != nil || !storage.isDirect || serviceType != .default else { return nil }
        return try storage.route(through: proxy, connectTo: connectTo, serviceType)
    }

    /// Returns the same route for a proxy user who is not in the settings.
    func route(like route: Route?, for user: ProxyCredential) throws(URLError) -> Route {
        try storage.route(
            through: route?.proxy?.presenting(user), connectTo: route?.connectTo, route?.serviceType ?? .default)
    }

    package static func == (left: RoutingConfiguration, right: RoutingConfiguration) -> Bool {
        left.storage === right.storage || left.settings == right.settings
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(settings) }
}

/// The selection of the address override for a host.
enum AddressOverrides {
    /// Returns the address to connect to for a URL, in the form of `CURLOPT_CONNECT_TO`; nil for the URL's host.
    ///
    /// - Parameter overrides: The overrides. A key is a host, optionally followed by a colon and a port. A value is an
    ///   address or a name, optionally with a port. An entry with a port takes precedence over one without, and both
    ///   over the entry for `*`.
    /// - Throws: `URLError.badURL` for an invalid entry.
    static func connectTo(_ target: Target, in overrides: [String: String]) throws(URLError) -> String? {
        let host = HostKey(target.host)
        var found: String?, isForAll = true
        for (key, value) in overrides {
            let (name, port) = parts(of: key)
            if port == target.port, HostKey(name) == host {
                found = value
                break
            }
            guard port == nil else { continue }
            if HostKey(key) == host || (key == "*" && isForAll) {
                found = value
                isForAll = key == "*"
            }
        }
        guard let found else { return nil }
        return "::\(try checked(found))"
    }

    /// A host as a key: a name, or an address in any spelling.
    private struct HostKey: Equatable {
        private let address: [UInt8]?
        private let name: String

        init(_ host: String) {
            address = HostName.address(host)
            name = address == nil ? HostName.normalized(host) ?? HostName.spelling(of: host) : ""
        }
    }

    /// Splits a key into host and port. An IPv6 address with a port is in brackets.
    private static func parts(of key: String) -> (host: String, port: Int?) {
        guard let colon = key.lastIndex(of: ":"), let port = Int(key[key.index(after: colon)...]) else { return (key, nil) }
        let host = key[..<colon]
        return host.contains(":") && !host.hasSuffix("]") ? (key, nil) : (String(host), port)
    }

    /// Returns a host and a port, which may be empty: `[::1]:443`, `10.0.0.1:`.
    private static func checked(_ text: String) throws(URLError) -> String {
        if let address = IPAddress(text) { return address.isIPv6 ? "[\(address)]:" : "\(address):" }
        // libcurl would interpret text after these characters as a path.
        guard !text.contains(where: { "/?#@\\".contains($0) }), !text.utf8.contains(0), !text.hasSuffix(":"),
            Target("http://\(text)") != nil
        else {
            throw URLError(.badURL, url: nil, "Invalid address override: \(Redaction.url(text).debugDescription).")
        }
        let hasPort = text.hasPrefix("[") ? !text.hasSuffix("]") : text.contains(":")
        return hasPort ? text : "\(text):"
    }
}
