import CCurl

/// What differs between the versions of libcurl, as far as tests see it.
public enum Libcurl {
    private static let version = convoy_version()?.pointee.version_num ?? 0

    /// A newer libcurl is built without it.
    public static let hasNTLM = (convoy_version()?.pointee.features ?? 0) & CURL_VERSION_NTLM != 0
    /// From 8.0 on, a first byte is not reported before its line is complete.
    public static let tellsOfByte = version < 0x08_00_00
    /// From 8.20 on, the hexadecimal digits of escapes are sent in upper case.
    public static let raisesEscapes = version >= 0x08_14_00
    /// Since 8.21, a line of a head has no carriage return but that of its end.
    public static let refusesCarriageReturns = version >= 0x08_15_00
}
