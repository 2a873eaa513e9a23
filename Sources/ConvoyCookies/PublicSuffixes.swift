import CPSL
import ConvoySupport
import Foundation

/// The public suffix list: the domains below which anyone can register names, for example `com` and `co.uk`, and which
/// therefore cannot have cookies.
///
/// The newer of libpsl's built-in list and the system's list (Debian: package `publicsuffix`) is used, and loaded once
/// per process.
enum PublicSuffixes {
    private struct List: @unchecked Sendable {
        /// The list is immutable and never freed, so any thread may use it.
        let context: OpaquePointer?
    }
    private static let list = List(context: psl_latest(nil) ?? psl_builtin())

    /// Returns whether a normalized domain is a public suffix. Names without a dot, for example `localhost`, are public
    /// suffixes.
    static func contains(_ domain: String) -> Bool {
        if HostName.isAddress(domain) { return false }
        guard let context = list.context else { return !domain.utf8.contains(UInt8(ascii: ".")) }
        return psl_is_public_suffix2(context, domain, PSL_TYPE_ICANN | PSL_TYPE_PRIVATE) == 1
    }

    /// Returns the registrable domain of a normalized host: a public suffix and one more label. nil for public suffixes
    /// and addresses.
    static func registrableDomain(of host: String) -> String? {
        guard !host.isEmpty, !HostName.isAddress(host), let context = list.context else { return nil }
        // The result points into the argument.
        return host.withCString { text in psl_registrable_domain(context, text).map { String(cString: $0) } }
    }

    /// Returns the site of a host: its registrable domain, or otherwise the host itself.
    static func site(of host: String) -> String { registrableDomain(of: host) ?? host }
}
