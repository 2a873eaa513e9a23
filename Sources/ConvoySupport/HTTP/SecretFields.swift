/// Header fields whose values are not written out.
package struct SecretFields: Sendable {
    /// Fields that are secrets whatever is configured, in lower case. Also those that a redirect to another origin
    /// removes.
    package static let always: Set<String> = [
        "authorization", "cookie", "cookie2", "proxy-authorization", "www-authenticate",
    ]

    /// Parts of names that say enough.
    private static let telling = [
        "authorization", "cookie", "token", "secret", "password", "passphrase", "apikey", "api-key", "signature", "session",
        "credential", "jwt",
    ]

    private let marked: Set<String>
    private let names: SensitiveNames

    /// - Parameters:
    ///   - marked: names of fields that are secrets, too.
    ///   - names: names of query items, for values that are URLs.
    package init(marked: Set<String>, names: SensitiveNames) {
        self.marked = Set(marked.map { $0.lowercased() })
        self.names = names
    }

    /// Whether the value of a field is not to be shown. A challenge (`WWW-Authenticate`) may be, as it is no secret of
    /// the client's.
    package func contains(_ name: String) -> Bool {
        let name = name.lowercased()
        return marked.contains(name) || Self.telling.contains(where: name.contains)
    }

    /// The value as it may be shown.
    package func shown(_ name: String, _ value: String) -> String {
        if value.isEmpty { return value }
        if contains(name) { return Redaction.mask }
        switch name.lowercased() {
        // These may be relative, too.
        case "location", "content-location", "referer", ":path": return Redaction.url(value, names)
        default: return Redaction.text(value, names)
        }
    }
}
