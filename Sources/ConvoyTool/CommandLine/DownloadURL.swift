import ConvoySupport
import Foundation

/// Parses URLs of the command line.
enum DownloadURL {
    static func parse(_ text: String) throws(ToolError) -> URL {
        let shown = Printable.line(Redaction.url(text))
        guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
            throw .usage("bad URL '\(shown)': it contains a control character")
        }
        guard ["http://", "https://"].contains(where: text.lowercased().hasPrefix) else {
            throw .usage("bad URL '\(shown)': it must begin with http:// or https://")
        }
        guard let url = URLReference.url(text) else {
            throw .usage("bad URL '\(shown)': the host is missing, or the host or port is invalid")
        }
        if let port = url.port, !(1...65535).contains(port) { throw .usage("bad URL '\(shown)': no such port") }
        return url
    }
}
