import Foundation

/// A host that has said that it is to be reached over TLS only (RFC 6797, section 5.3).
public struct HSTSHost: Sendable, Hashable {
    /// Its name in lower case, without a dot at the end.
    public let name: String
    /// Whether all names below it are meant as well.
    public let includesSubdomains: Bool
    /// Until when, unless it says it again.
    public let expires: Date
}

/// What a store knows about a host.
struct HSTSRecord: Equatable {
    var includesSubdomains: Bool
    /// Seconds since 1970.
    var expires: Int64
    /// When the host said so, in milliseconds since 1970: of two processes' records the later one counts.
    var noted: Int64
    /// Whether the host has taken it back. That is kept as long as what was taken back could be in other hands.
    var isWithdrawn = false
}
