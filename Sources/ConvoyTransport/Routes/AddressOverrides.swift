import ConvoySecurity
import ConvoySupport
import Foundation

/// Finding the address that was fixed for a host.
enum AddressOverrides {
    /// Where to connect for a URL, in the form of `CURLOPT_CONNECT_TO`; nil for where the URL says.
    ///
    /// - Parameter overrides: a host, or a host and a port after a colon, with an address, a name, or either and a port.
    ///   An entry with the port counts before one without.
    /// - Throws: `URLError.badURL` for an entry that cannot be connected to.
    static func connectTo(_ target: Target, in overrides: [String: String]) throws(URLError) -> String? {
        let host = normalized(target.host)
        var found: String?
        for (key, value) in overrides {
            let key = key.lowercased()
            if key == "\(host):\(target.port)" || key == "\(host).:\(target.port)" {
                found = value
                break
            }
            if normalized(key) == host { found = value }
        }
        guard let found else { return nil }
        return "::\(try checked(found))"
    }

    /// In lower case, and without the dot at the end that a name may have.
    private static func normalized(_ host: String) -> String {
        let host = host.lowercased()
        return host.hasSuffix(".") ? String(host.dropLast()) : host
    }

    /// A host and a port, which may be empty: `[::1]:443`, `10.0.0.1:`.
    private static func checked(_ text: String) throws(URLError) -> String {
        if let address = IPAddress(text) { return address.isIPv6 ? "[\(address)]:" : "\(address):" }
        // What follows a host would be a path to libcurl.
        guard !text.contains(where: { "/?#@\\".contains($0) }), !text.utf8.contains(0), !text.hasSuffix(":"),
            Target("http://\(text)") != nil
        else {
            throw URLError(.badURL, url: nil, "The address \(Redaction.url(text).debugDescription) cannot be connected to.")
        }
        let hasPort = text.hasPrefix("[") ? !text.hasSuffix("]") : text.contains(":")
        return hasPort ? text : "\(text):"
    }
}
