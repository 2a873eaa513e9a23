/// The names of query items, form fields and JSON members whose values are not written out.
///
/// Names are compared without regard to case, `-` and `_`: `Api-Key` is `api_key` is `apikey`. In a name with brackets,
/// such as `user[password]`, each part counts.
package struct SensitiveNames: Sendable, Hashable {
    /// The names as they were given.
    package let names: Set<String>
    private let folded: Set<[UInt8]>

    package init(_ names: Set<String>) {
        self.names = names
        folded = Set(names.map { Self.folded($0.utf8) })
    }

    /// The names that services use for secrets: of OAuth 2.0 (RFC 6749, 6750, 7521, 7636), OpenID Connect, SAML, signed
    /// URLs of the large clouds, and of forms.
    package static let standard = SensitiveNames([
        "access_token", "refresh_token", "id_token", "token", "auth_token", "csrf_token", "bearer", "jwt", "auth",
        "authorization", "code", "code_verifier", "device_code", "client_secret", "client_assertion", "assertion",
        "saml_response", "secret", "api_key", "apikey", "x-api-key", "key", "access_key", "secret_key", "private_key",
        "subscription_key", "password", "passwd", "passphrase", "pass", "pwd", "pin", "otp", "credential", "credentials",
        "signature", "sig", "session", "session_id", "sid", "phpsessid", "jsessionid", "ticket", "X-Amz-Signature",
        "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature", "X-Goog-Credential", "AWSAccessKeyId",
    ])

    /// Whether the value of a name is secret.
    package func contains(_ name: some Collection<UInt8>) -> Bool {
        if folded.contains(Self.folded(name)) { return true }
        guard name.contains(UInt8(ascii: "[")) else { return false }
        return name.split(whereSeparator: { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "]") })
            .contains { folded.contains(Self.folded($0)) }
    }

    private static func folded(_ name: some Collection<UInt8>) -> [UInt8] {
        name.compactMap { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") ? nil : ASCII.lowercased($0) }
    }

    package static func == (one: Self, other: Self) -> Bool { one.names == other.names }

    package func hash(into hasher: inout Hasher) { hasher.combine(names) }
}
