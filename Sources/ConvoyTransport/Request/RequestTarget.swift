import CCurl

/// The parts of a URL as libcurl reads them, which sends them.
package struct RequestTarget {
    /// With brackets, for an IPv6 address.
    package private(set) var host = ""
    /// The path and the query (RFC 9112, section 3.2.1).
    package private(set) var uri = "/"

    package init(_ address: String) {
        guard let parts = curl_url() else { return }
        defer { curl_url_cleanup(parts) }
        guard curl_url_set(parts, CURLUPART_URL, address, 0) == CURLUE_OK else { return }
        func part(_ part: CURLUPart) -> String? {
            var text: UnsafeMutablePointer<CChar>?
            guard curl_url_get(parts, part, &text, 0) == CURLUE_OK, let text else { return nil }
            defer { curl_free(text) }
            return String(cString: text)
        }
        host = part(CURLUPART_HOST) ?? ""
        uri = (part(CURLUPART_PATH) ?? "/") + (part(CURLUPART_QUERY).map { "?\($0)" } ?? "")
    }

    /// The target of a CONNECT (RFC 9112, section 3.2.3).
    func authority(port: Int) -> String { "\(host):\(port)" }
}
