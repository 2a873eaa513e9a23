import CCurl
import ConvoySupport
import Foundation

/// The proxies that the environment names, by libcurl's rules.
///
/// `http_proxy` counts in lower case only: a web server hands its client's `Proxy` field to programs as `HTTP_PROXY`. For
/// https there are `https_proxy` and `HTTPS_PROXY`; after these `all_proxy` and `ALL_PROXY`. `no_proxy`, or else
/// `NO_PROXY`, names the exceptions. A variable that is empty is none.
enum EnvironmentProxies {
    /// The proxy for a host; nil for none.
    ///
    /// Called for each request, so it is quick for a program without any of the variables.
    ///
    /// - Parameter host: as it is sent; nil for any, which no exception names.
    /// - Throws: what `Proxy.init(_:)` throws about a variable.
    static func proxy(isSecure: Bool, host: String?) throws(URLError) -> Proxy? {
        guard convoy_environment_names_proxy() != 0 else { return nil }
        let own = isSecure ? value("https_proxy") ?? value("HTTPS_PROXY") : value("http_proxy")
        guard let text = own ?? value("all_proxy") ?? value("ALL_PROXY") else { return nil }
        if let exceptions = value("no_proxy") ?? value("NO_PROXY"), let host,
            ProxyExceptions(String(cString: exceptions)).contains(host)
        {
            return nil
        }
        return try proxy(in: String(cString: text))
    }

    /// The last text that was read, as it hardly ever changes.
    private static let last = Locked<(text: String, proxy: Proxy)?>(nil)

    private static func proxy(in text: String) throws(URLError) -> Proxy {
        if let known = last.withLock({ $0?.text == text ? $0?.proxy : nil }) { return known }
        let proxy: Proxy
        do throws(URLError) {
            proxy = try Proxy(text)
        } catch {
            throw URLError(
                error.code, url: nil, "The proxy in the environment cannot be used. \(error.localizedDescription)")
        }
        last.withLock { $0 = (text, proxy) }
        return proxy
    }

    private static func value(_ name: StaticString) -> UnsafeMutablePointer<CChar>? {
        name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) { name in
            guard let value = getenv(name), value.pointee != 0 else { return nil }
            return value
        }
    }
}
