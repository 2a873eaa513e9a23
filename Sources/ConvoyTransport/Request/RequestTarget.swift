import CCurl

/// The parts of a URL as libcurl reads them, which connects to them and sends them.
package struct RequestTarget {
    /// IPv6 in brackets.
    package let host: String
    package let port: Int
    /// The path and the query (RFC 9112, section 3.2.1).
    package let uri: String

    /// nil for text that libcurl does not take for a URL.
    package init?(_ address: String) {
        guard let parts = curl_url() else { return nil }
        defer { curl_url_cleanup(parts) }
        func part(_ part: CURLUPart) -> String? {
            var text: UnsafeMutablePointer<CChar>?
            guard curl_url_get(parts, part, &text, UInt32(CURLU_DEFAULT_PORT)) == CURLUE_OK, let text else { return nil }
            defer { curl_free(text) }
            return String(cString: text)
        }
        guard curl_url_set(parts, CURLUPART_URL, address, 0) == CURLUE_OK, let host = part(CURLUPART_HOST),
            let port = part(CURLUPART_PORT).flatMap({ Int($0) })
        else { return nil }
        self.host = host
        self.port = port
        uri = (part(CURLUPART_PATH) ?? "/") + (part(CURLUPART_QUERY).map { "?\($0)" } ?? "")
    }

    /// The target of a CONNECT (RFC 9112, section 3.2.3).
    var authority: String { "\(host):\(port)" }
}
