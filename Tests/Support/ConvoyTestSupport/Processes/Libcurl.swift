import CCurl

/// Differences between libcurl versions that affect the tests.
public enum Libcurl {
    private static let version = convoy_version()?.pointee.version_num ?? 0

    /// Whether libcurl supports NTLM, which newer versions omit.
    public static let hasNTLM = (convoy_version()?.pointee.features ?? 0) & CURL_VERSION_NTLM != 0
    /// Whether the first byte is reported before its line is complete, as before version 8.0.
    public static let tellsOfByte = version < 0x08_00_00
    /// Whether the hexadecimal digits of escapes are sent in upper case, as since version 8.20.
    public static let raisesEscapes = version >= 0x08_14_00
    /// Whether a carriage return inside a line of a head is rejected, as since version 8.21.
    public static let refusesCarriageReturns = version >= 0x08_15_00
}
