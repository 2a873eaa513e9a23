import Convoy
import Foundation
import FoundationNetworking

/// The options for the way to a server: proxies, fixed addresses, a Unix socket, from where, and how many redirects there may be.
struct RouteOptions {
    private var proxy: ProxySelection?
    private var addresses: [String: String] = [:]
    private let unixSocket: String?
    private let maximumRedirects: Int?
    private let source: ConnectionSource?

    init(_ options: Options) throws(ToolError) {
        unixSocket = options.value("unix-socket")
        maximumRedirects = try options.integer("max-redirs", in: 0...1000)
        if let text = options.value("proxy") {
            proxy = try Self.proxy(text, except: options.value("noproxy"))
        } else if options.value("noproxy") != nil {
            throw options.usage("--noproxy needs --proxy; the variable no_proxy is for the environment's proxies")
        }
        for text in options.all("resolve") {
            guard let (place, address) = Self.fixedAddress(text) else {
                throw options.usage("--resolve takes HOST:PORT:ADDRESS, not '\(Printable.line(text))'")
            }
            addresses[place] = address
        }
        source = try options.value("interface").map { text throws(ToolError) in
            guard !text.isEmpty else { throw options.usage("--interface needs a name or an address") }
            return IPAddress(text).map { .address($0) } ?? .interface(text)
        }
        if let unixSocket, unixSocket.isEmpty { throw options.usage("--unix-socket needs a path") }
    }

    func apply(to configuration: inout ConnectionConfiguration) {
        if let proxy { configuration.proxy = proxy }
        if !addresses.isEmpty { configuration.addressOverrides = addresses }
        if let source { configuration.connectionSource = source }
        if let unixSocket { configuration.unixSocket = unixSocket }
        if let maximumRedirects { configuration.maximumRedirects = maximumRedirects }
    }

    private static func proxy(_ text: String, except exceptions: String?) throws(ToolError) -> ProxySelection {
        guard !text.isEmpty else { return .none }
        do throws(URLError) {
            let except = exceptions?.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) } ?? []
            return .proxy(try Proxy(text), except: except)
        } catch {
            throw .usage("--proxy: \(ErrorText.line(for: error))")
        }
    }

    /// `HOST:PORT:ADDRESS` as a host and a port, and an address; nil for anything else.
    private static func fixedAddress(_ text: String) -> (place: String, address: String)? {
        let isLiteral = text.hasPrefix("[")
        guard let end = isLiteral ? text.range(of: "]:")?.lowerBound : text.firstIndex(of: ":") else { return nil }
        let host = isLiteral ? text[...end] : text[..<end]
        let rest = text[host.endIndex...].dropFirst()
        guard let colon = rest.firstIndex(of: ":"), let port = UInt16(rest[..<colon]), port > 0, !host.isEmpty else {
            return nil
        }
        var address = String(rest[rest.index(after: colon)...])
        if address.hasPrefix("["), address.hasSuffix("]") { address = String(address.dropFirst().dropLast()) }
        guard let parsed = IPAddress(address) else { return nil }
        return ("\(host):\(port)", parsed.isIPv6 ? "[\(address)]" : address)
    }
}
