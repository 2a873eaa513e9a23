import CPSL
import ConvoySupport

/// The public suffix list: the domains below which anybody can register names, such as `com` and `co.uk`, and which may
/// therefore have no cookies.
///
/// The newer one of libpsl's own list and the system's (Debian: package `publicsuffix`) is read once for the process.
enum PublicSuffixes {
    private struct List: @unchecked Sendable {
        /// Never changed or freed, and libpsl only reads it, so that any thread may use it.
        let context: OpaquePointer?
    }
    private static let list = List(context: psl_latest(nil) ?? psl_builtin())

    /// Whether a normalized domain is a public suffix. So is each name without a dot, such as `localhost`.
    static func contains(_ domain: String) -> Bool {
        if CookieHost.isAddress(domain) { return false }
        guard let context = list.context else { return !domain.utf8.contains(UInt8(ascii: ".")) }
        return psl_is_public_suffix2(context, domain, PSL_TYPE_ICANN | PSL_TYPE_PRIVATE) == 1
    }

    /// The part of a normalized host that somebody has registered: a public suffix and one more label; nil for a public
    /// suffix and an address.
    static func registrableDomain(of host: String) -> String? {
        guard !host.isEmpty, !CookieHost.isAddress(host), let context = list.context else { return nil }
        // What it returns is a part of the text that it was given.
        return host.withCString { text in psl_registrable_domain(context, text).map { String(cString: $0) } }
    }

    /// The registrable domain, or the host itself if it has none: those who share it belong together.
    static func site(of host: String) -> String { registrableDomain(of: host) ?? host }
}
