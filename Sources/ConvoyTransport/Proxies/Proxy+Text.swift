import CCurl
import ConvoySupport
import Foundation

/// Reading and writing a proxy as libcurl does.
extension Proxy {
    struct Parts {
        var kind: Kind
        var host: String
        var port: Int
        var credential: ProxyCredential?
    }

    /// The parts of a proxy's URL, by libcurl's own parser, with its defaults.
    static func parts(of text: String) throws(URLError) -> Parts {
        // libcurl guesses another scheme for a host such as `ftp.example.com`, and then refuses it.
        let address = text.contains("://") ? text : "http://\(text)"
        guard !address.utf8.contains(0), let url = curl_url() else {
            throw URLError(.badURL, url: nil, "The proxy is not a URL.")
        }
        defer { curl_url_cleanup(url) }
        guard curl_url_set(url, CURLUPART_URL, address, UInt32(CURLU_NON_SUPPORT_SCHEME)) == CURLUE_OK,
            let scheme = part(CURLUPART_SCHEME, of: url), let encoded = part(CURLUPART_HOST, of: url), !encoded.isEmpty
        else { throw URLError(.badURL, url: nil, "The proxy is not a URL.") }
        guard let kind = Kind(scheme: scheme) else {
            throw URLError(.unsupportedURL, url: nil, "The proxy has the scheme \(scheme), which is not one of a proxy.")
        }
        // ASCII's letters only, as in a target.
        var host = String(decoding: encoded.utf8.map(ASCII.lowercased), as: UTF8.self)
        if host.first == "[", host.last == "]" { host = String(host.dropFirst().dropLast()) }
        if host.contains(":"), !host.contains("%"), let zone = part(CURLUPART_ZONEID, of: url) { host += "%\(zone)" }
        if !kind.isHTTP, host == "localhost", let path = part(CURLUPART_PATH, of: url), path.utf8.count > 1 {
            throw URLError(.unsupportedURL, url: nil, "A SOCKS proxy on a Unix socket is not supported.")
        }
        var port = kind.defaultPort
        if let text = part(CURLUPART_PORT, of: url) {
            guard let number = Int(text), (1...65535).contains(number) else {
                throw URLError(.badURL, url: nil, "The proxy's port is not from 1 to 65535.")
            }
            port = number
        }
        return Parts(kind: kind, host: host, port: port, credential: try credential(in: url))
    }

    private static func credential(in url: OpaquePointer) throws(URLError) -> ProxyCredential? {
        let parts = try [CURLUPART_USER, CURLUPART_PASSWORD].map { name throws(URLError) -> String? in
            guard let text = part(name, of: url) else { return nil }
            guard let decoded = text.removingPercentEncoding else {
                throw URLError(.badURL, url: nil, "The credential in the proxy's URL is not UTF-8.")
            }
            return decoded
        }
        guard parts[0] != nil || parts[1] != nil else { return nil }
        return ProxyCredential(user: parts[0] ?? "", password: parts[1] ?? "")
    }

    private static func part(_ part: CURLUPart, of url: OpaquePointer) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(url, part, &text, 0) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    /// The proxy for `CURLOPT_PROXY`. For SOCKS it has the credential, which libcurl presents: its options for a user
    /// and a password are decoded by libcurl 7.88, and by 8.14 are not. That for HTTP travels as a header field.
    var libcurlText: String {
        guard !kind.isHTTP, let credential else { return description }
        func encoded(_ text: String) -> String {
            text.utf8.map { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    String(UnicodeScalar(byte))
                default: "%" + String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
                }
            }.joined()
        }
        return
            "\(kind.scheme)://\(encoded(credential.user)):\(encoded(credential.password))@\(Self.authority(of: host)):\(port)"
    }

    /// The value of `Proxy-Authorization` that requests to this proxy have of themselves; nil for none.
    var authorization: String? { kind.isHTTP ? credential?.basicAuthorization : nil }
}
