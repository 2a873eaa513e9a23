/// Why a cookie is not stored.
package enum CookieRefusal: Error, Hashable, Sendable {
    /// There is a control character in it, or another one that its place does not allow.
    case invalidCharacter
    /// It has neither a name nor a value.
    case empty
    /// Its name and value together have more than 4096 bytes.
    case tooLarge
    /// The host is not valid, or not the one that the domain belongs to.
    case foreignDomain
    /// Anybody can register names in its domain.
    case publicSuffix
    /// Its path does not begin with a slash.
    case invalidPath
    /// It is `Secure`, but was not received over TLS.
    case secureFromInsecure
    /// It was not received over TLS, and would replace or hide one that is `Secure`.
    case hidesSecure
    /// It is `SameSite=None`, but not `Secure`.
    case sameSiteNoneWithoutSecure
    /// Its name begins with `__Host-` or `__Secure-`, and it does not keep what that promises.
    case prefix
    /// The acceptance handler has refused it.
    case refusedByHandler
}
