/// How a client proves to a server or a proxy who its user is: a scheme of HTTP authentication (RFC 9110, section 11.1).
///
/// The raw value is the name of the scheme in lower case.
public enum AuthenticationMethod: String, Sendable, Hashable, CaseIterable {
    /// User name and password as they are (RFC 7617). Whoever reads the request reads both, so it is for TLS.
    case basic
    /// A token that is worth as much as a password (RFC 6750).
    case bearer
    /// A hash over the password and a number of the server (RFC 7616). The password is not sent.
    case digest
    /// Microsoft's NTLM, which authenticates a connection.
    case ntlm
    /// Kerberos, or NTLM, by SPNEGO (RFC 4559).
    case negotiate
}
