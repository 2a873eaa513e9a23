/// A version of TLS that may be spoken. Older ones are broken (RFC 8996) and never offered.
public enum TLSVersion: Int, Sendable, Hashable, Codable, CaseIterable, Comparable {
    /// RFC 5246.
    case tls12 = 0x0303
    /// RFC 8446.
    case tls13 = 0x0304

    /// The older one comes first.
    public static func < (left: TLSVersion, right: TLSVersion) -> Bool { left.rawValue < right.rawValue }
}
