import ConvoySecurity
import ConvoySupport
import Foundation

/// What decides to whom connections are made for a request.
package struct RoutingSettings: Sendable, Hashable {
    var proxy = ProxySelection.environment
    var unixSocket: String?
    var addressGuard: AddressGuard?

    /// Whether a request without a proxy needs nothing else.
    var isDirect: Bool { unixSocket == nil && addressGuard == nil }
}

/// The settings of routes as a part of other settings: copied at the cost of a reference, and turned into routes once for
/// all copies.
package struct RoutingConfiguration: Sendable, Hashable {
    private final class Storage: Sendable {
        let settings: RoutingSettings
        let isDirect: Bool
        /// The last route that was made, as most requests go the same way.
        private let last = Locked<Route?>(nil)

        init(_ settings: RoutingSettings) {
            self.settings = settings
            isDirect = settings.isDirect
        }

        func route(through proxy: Proxy?) throws(URLError) -> Route {
            if let last = last.withLock({ $0 }), last.proxy == proxy { return last }
            let route = try Route(settings, proxy: proxy)
            last.withLock { $0 = route }
            return route
        }
    }

    private var storage: Storage

    private static let standard = Storage(RoutingSettings())

    /// The defaults.
    package init() { storage = Self.standard }

    package var settings: RoutingSettings {
        get { storage.settings }
        set { storage = Storage(newValue) }
    }

    /// The route of a request; nil for the direct one.
    ///
    /// - Parameter host: of the URL as libcurl reads it; asked for only where it matters.
    /// - Throws: `URLError.badURL` or `.unsupportedURL` for settings with which no connection can be made.
    func route(isSecure: Bool, host: () -> String?) throws(URLError) -> Route? {
        // libcurl uses no proxy with a Unix socket either.
        let proxy =
            storage.settings.unixSocket == nil ? try storage.settings.proxy.proxy(isSecure: isSecure, host: host) : nil
        guard proxy != nil || !storage.isDirect else { return nil }
        return try storage.route(through: proxy)
    }

    /// The route through a proxy, for whom a credential is that the settings do not have.
    func route(through proxy: Proxy?, as credential: ProxyCredential) throws(URLError) -> Route {
        try storage.route(through: proxy?.presenting(credential))
    }

    package static func == (left: RoutingConfiguration, right: RoutingConfiguration) -> Bool {
        left.storage === right.storage || left.settings == right.settings
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(settings) }
}
