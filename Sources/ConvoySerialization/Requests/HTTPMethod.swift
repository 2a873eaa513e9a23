import ConvoySupport

/// The method of an HTTP request (RFC 9110, section 9).
///
/// The raw value is sent unchanged, as methods are case-sensitive. It must be a token (RFC 9110, section 5.6.2);
/// otherwise serializers throw.
public struct HTTPMethod: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The name as it is sent.
    public let rawValue: String

    /// A method by its name, which is not checked here; see ``isValid``.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// A method by its name, which is not checked here; see ``isValid``.
    public init(_ rawValue: String) { self.rawValue = rawValue }
    /// A method by its name, which is not checked here; see ``isValid``.
    public init(stringLiteral value: String) { self.rawValue = value }

    /// The name.
    public var description: String { rawValue }

    /// RFC 9110, section 9.3.1.
    public static let get = HTTPMethod("GET")
    /// RFC 9110, section 9.3.2.
    public static let head = HTTPMethod("HEAD")
    /// RFC 9110, section 9.3.3.
    public static let post = HTTPMethod("POST")
    /// RFC 9110, section 9.3.4.
    public static let put = HTTPMethod("PUT")
    /// RFC 5789.
    public static let patch = HTTPMethod("PATCH")
    /// RFC 9110, section 9.3.5.
    public static let delete = HTTPMethod("DELETE")
    /// RFC 9110, section 9.3.7.
    public static let options = HTTPMethod("OPTIONS")
    /// RFC 9110, section 9.3.8.
    public static let trace = HTTPMethod("TRACE")
    /// RFC 9110, section 9.3.6.
    public static let connect = HTTPMethod("CONNECT")

    /// Whether the name is a token, as a request line requires.
    public var isValid: Bool { HTTPSyntax.isToken(rawValue) }
}
