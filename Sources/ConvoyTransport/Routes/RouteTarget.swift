import CCurl
import Foundation

/// The host and the port of a URL, as libcurl reads them, which connects to them.
struct RouteTarget {
    /// IPv6 in brackets.
    let host: String
    let port: Int

    /// nil for text that libcurl does not take for a URL.
    init?(_ address: String) {
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
    }
}
