import ConvoySupport

/// The errors of making a `TestCertificate`, or something of one.
public enum TestCertificateError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A text of the profile that is neither an IP address, nor, where one is expected, a network such as
    /// "10.0.0.0/8".
    case invalidAddress(String)
    /// A text of the profile that is not an object identifier in dotted digits.
    case invalidObjectIdentifier(String)
    /// There is no such signature: MD5 by an EC key.
    case unsupportedDigest(String)
    /// OpenSSL refused: its function, and its reason.
    case openSSL(call: String, reason: String)
    /// A file could not be written: its path, and the `errno`.
    case file(path: String, code: Int32)

    public var description: String {
        switch self {
        case .invalidAddress(let text): "\"\(text)\" is not an IP address or network"
        case .invalidObjectIdentifier(let text): "\"\(text)\" is not an object identifier"
        case .unsupportedDigest(let text): text
        case .openSSL(let call, let reason): "\(call) failed: \(reason)"
        case .file(let path, let code): "\(path) could not be written: \(SystemError(code: code).text)"
        }
    }
}
