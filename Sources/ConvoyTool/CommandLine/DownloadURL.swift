import Foundation

/// URLs as they are given on a command line.
enum DownloadURL {
    static func parse(_ text: String) throws(ToolError) -> URL {
        let shown = Printable.line(text)
        guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
            throw .usage("bad URL '\(shown)': it holds a control character")
        }
        guard let url = URL(string: text) else { throw .usage("bad URL '\(shown)'") }
        guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https" else {
            throw .usage("bad URL '\(shown)': it must begin with http:// or https://")
        }
        guard let host = url.host, !host.isEmpty else { throw .usage("bad URL '\(shown)': it has no host") }
        if let port = url.port, !(1...65535).contains(port) { throw .usage("bad URL '\(shown)': no such port") }
        return url
    }
}
