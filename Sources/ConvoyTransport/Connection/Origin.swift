import Foundation

/// Scheme, host and port (RFC 6454, section 4).
///
/// Hosts are compared as text, without regard to case. Where two spellings may name the same server, such as
/// `example.com` and `example.com.`, they are two origins: then a secret is sent to one server too few, not too many.
package struct Origin: Hashable, Sendable {
    let scheme: String
    let host: String
    let port: Int

    package init(_ url: URL) {
        scheme = url.scheme?.lowercased() ?? ""
        host = url.host?.lowercased() ?? ""
        port = url.port ?? (scheme == "https" ? 443 : 80)
    }
}
