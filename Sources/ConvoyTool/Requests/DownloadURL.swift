import ConvoySupport
import Foundation

/// Parses URLs of the command line and of lists.
enum DownloadURL {
    /// The URL of a text; one without a scheme is https.
    static func parse(_ text: String) throws(ToolError) -> URL {
        let shown = Printable.line(Redaction.url(text))
        guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
            throw .usage("bad URL '\(shown)': it contains a control character")
        }
        let scheme = text.range(of: "://").map { text[..<$0.lowerBound].lowercased() } ?? ""
        // What is before the first slash, at the most: the text of a query may be a URL.
        let hasScheme = !scheme.isEmpty && !scheme.contains(where: { "/?#".contains($0) })
        let whole = hasScheme ? text : text.hasPrefix("//") ? "https:\(text)" : "https://\(text)"
        let url = URLReference.url(whole)
        let address: HTTPAddress
        do throws(HTTPAddress.Problem) {
            address = try HTTPAddress.reading(url?.absoluteString ?? whole)
        } catch {
            if case .otherScheme = error { throw .usage("bad URL '\(shown)': it must begin with http:// or https://") }
            throw .usage("bad URL '\(shown)': the host is missing, or the host or port is invalid")
        }
        guard let url else {
            throw .usage("bad URL '\(shown)': the host is missing, or the host or port is invalid")
        }
        guard address.target.port > 0 else { throw .usage("bad URL '\(shown)': no such port") }
        return url
    }
}
