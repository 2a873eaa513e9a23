import CCurl
import ConvoySupport

/// The forms in which a request names its URL (RFC 9112, section 3.2), as libcurl sends them: it resolves dots, and
/// encodes what it must.
package enum RequestTarget {
    /// The path and the query; nil for a URL that libcurl refuses.
    package static func originForm(of address: HTTPAddress) -> String? {
        withParts(of: address) { parts in
            (part(CURLUPART_PATH, of: parts) ?? "/") + (part(CURLUPART_QUERY, of: parts).map { "?\($0)" } ?? "")
        }
    }

    /// The whole URL, as a proxy is asked for it.
    static func absoluteForm(of address: HTTPAddress) -> String {
        let text = withParts(of: address) { parts in
            guard curl_url_set(parts, CURLUPART_FRAGMENT, nil, 0) == CURLUE_OK else { return String?.none }
            return part(CURLUPART_URL, of: parts, CURLU_NO_DEFAULT_PORT)
        }
        return (text ?? nil) ?? address.text
    }

    private static func withParts<Result>(of address: HTTPAddress, _ body: (OpaquePointer) -> Result) -> Result? {
        guard let parts = curl_url() else { return nil }
        defer { curl_url_cleanup(parts) }
        guard curl_url_set(parts, CURLUPART_URL, address.text, 0) == CURLUE_OK else { return nil }
        return body(parts)
    }

    private static func part(_ part: CURLUPart, of parts: OpaquePointer, _ flags: Int32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(parts, part, &text, UInt32(flags)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
