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
        guard curl_url_set(parts, CURLUPART_URL, address, 0) == CURLUE_OK, let host = Self.part(CURLUPART_HOST, of: parts),
            let port = Self.part(CURLUPART_PORT, of: parts, CURLU_DEFAULT_PORT).flatMap({ Int($0) })
        else { return nil }
        self.host = host
        self.port = port
        uri = (Self.part(CURLUPART_PATH, of: parts) ?? "/") + (Self.part(CURLUPART_QUERY, of: parts).map { "?\($0)" } ?? "")
    }

    private static func part(_ part: CURLUPart, of parts: OpaquePointer, _ flags: Int32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(parts, part, &text, UInt32(flags)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    /// The whole URL, as a proxy is asked for it (RFC 9112, section 3.2.2).
    static func absolute(_ address: String) -> String {
        guard let parts = curl_url() else { return address }
        defer { curl_url_cleanup(parts) }
        guard curl_url_set(parts, CURLUPART_URL, address, 0) == CURLUE_OK,
            curl_url_set(parts, CURLUPART_FRAGMENT, nil, 0) == CURLUE_OK
        else { return address }
        return part(CURLUPART_URL, of: parts, CURLU_NO_DEFAULT_PORT) ?? address
    }

    /// The target of a CONNECT (RFC 9112, section 3.2.3).
    var authority: String { "\(host):\(port)" }
}
