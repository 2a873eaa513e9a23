import Convoy
import ConvoyWorkflow
import Foundation
import FoundationNetworking

/// The routing options: proxies, fixed addresses, a Unix socket, the source interface, and the redirect limit.
struct RouteOptions {
    private var proxy: ProxySelection?
    private var addresses: [String: String] = [:]
    private let unixSocket: String?
    private let maximumRedirects: Int?
    private let source: ConnectionSource?
    private let family: AddressGuard?
    private let version: HTTPVersion
    private let keepsDotSegments: Bool

    init(_ options: Options) throws(ToolError) {
        unixSocket = options.value("unix-socket")
        maximumRedirects = try options.integer("max-redirs", in: 0...1000)
        version = options.has("http1.0") ? .http1_0 : options.has("http1.1") ? .http1_1 : .http2
        keepsDotSegments = options.keepsDotSegments
        family =
            options.has("ipv4")
            ? AddressGuard(deny: Self.networks("::/0"))
            : options.has("ipv6") ? AddressGuard(deny: Self.networks("0.0.0.0/0")) : nil
        let exceptions = options.value("noproxy")
        if let text = options.value("proxy") {
            if !text.isEmpty, text.allSatisfy(\.isNumber) {
                throw options.usage("--proxy takes a URL; -s N downloads a file in N parts")
            }
            proxy = try Self.proxy(text, except: exceptions)
        } else if let exceptions {
            // The proxies of the environment are looked up for each request, together with the exceptions in
            // `no_proxy`.
            guard !exceptions.utf8.contains(0) else { throw options.usage("--noproxy takes names of hosts") }
            setenv("no_proxy", exceptions.isEmpty ? "," : exceptions, 1)
        }
        for text in options.all("resolve") {
            guard let (place, address) = Self.fixedAddress(text) else {
                throw options.usage("--resolve takes HOST:PORT:ADDRESS, not '\(Printable.line(text))'")
            }
            addresses[place] = address
        }
        for text in options.all("connect-to") {
            guard let (place, target) = Self.replacement(text) else {
                throw options.usage("--connect-to takes HOST:PORT:HOST2:PORT2, not '\(Printable.line(text))'")
            }
            addresses[place] = target
        }
        source = try options.value("interface").map { text throws(ToolError) in
            guard !text.isEmpty else { throw options.usage("--interface needs a name or an address") }
            return IPAddress(text).map { .address($0) } ?? .interface(text)
        }
        if let unixSocket, unixSocket.isEmpty { throw options.usage("--unix-socket needs a path") }
    }

    func apply(to configuration: inout ConnectionConfiguration) {
        if let proxy { configuration.proxy = proxy }
        if let family { configuration.addressGuard = family }
        if version != .http2 { configuration.maximumHTTPVersion = version }
        if keepsDotSegments { configuration.keepsDotSegments = true }
        if !addresses.isEmpty { configuration.addressOverrides = addresses }
        if let source { configuration.connectionSource = source }
        if let unixSocket { configuration.unixSocket = unixSocket }
        if let maximumRedirects {
            configuration.maximumRedirects = maximumRedirects
            configuration.returnsRedirects = maximumRedirects == 0
        }
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

    private static func networks(_ text: String) -> [IPNetwork] { (try? IPNetwork(text)).map { [$0] } ?? [] }

    /// Parses `HOST:PORT:HOST2:PORT2` as a host and port, or `*` for all, and the target to connect to. Returns nil for
    /// any other string. An empty first host matches all hosts, an empty second host keeps the host, and an empty port
    /// matches or keeps all ports.
    private static func replacement(_ text: String) -> (place: String, target: String)? {
        var parts: [String] = [], rest = text[...]
        while parts.count < 4 {
            let end = rest.hasPrefix("[") ? rest.range(of: "]")?.upperBound : rest.firstIndex(of: ":") ?? rest.endIndex
            guard let end else { return nil }
            parts.append(String(rest[..<end]))
            guard end < rest.endIndex else {
                rest = rest[end...]
                break
            }
            guard rest[end] == ":" else { return nil }
            rest = rest[rest.index(after: end)...]
            if rest.isEmpty { parts.append("") }
            if rest.isEmpty { break }
        }
        guard parts.count == 4, rest.isEmpty, parts[0].isEmpty || !parts[0].hasPrefix("*"),
            [parts[1], parts[3]].allSatisfy({ $0.isEmpty || (UInt16($0) ?? 0) > 0 })
        else { return nil }
        let host = parts[2].isEmpty ? parts[0] : parts[2]
        guard !host.isEmpty, !parts[0].isEmpty || parts[1].isEmpty else { return nil }
        let place = parts[0].isEmpty ? "*" : parts[1].isEmpty ? parts[0] : "\(parts[0]):\(parts[1])"
        return (place, parts[3].isEmpty ? host : "\(host):\(parts[3])")
    }

    /// Parses `HOST:PORT:ADDRESS` as a host and port, and an address. Returns nil for any other string.
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
