import ConvoySecurity
import ConvoySupport
import Foundation

/// The secret fields of a request, which identify its sender.
struct SecretHeader: Sendable {
    /// The request's own secret fields.
    private(set) var fields: [(name: String, value: String)] = []
    /// The value of `Host`, if the request has one.
    private(set) var host: String?
    /// Whether the request sends cookies from a store. They are not among the fields, because the store identifies the
    /// sender, not its current cookies.
    var sendsStoredCookies: Bool

    /// - Parameter hasStoredCookies: Whether `Cookie` comes from a store.
    init(_ sent: [(name: String, value: String)], _ secrets: SecretClassifier, hasStoredCookies: Bool) {
        sendsStoredCookies = hasStoredCookies
        for field in sent {
            if ASCII.equalIgnoringCase(field.name.utf8, "host".utf8) { host = field.value }
            if KnownSecret.contains(field.name, secrets), !(hasStoredCookies && KnownSecret.isCookie(field.name)) {
                fields.append(field)
            }
        }
    }
}

/// The fields that are secret in every configuration.
enum KnownSecret {
    static func isAuthorization(_ name: String) -> Bool { ASCII.equalIgnoringCase(name.utf8, "authorization".utf8) }

    static func isCookie(_ name: String) -> Bool { ASCII.equalIgnoringCase(name.utf8, "cookie".utf8) }

    static func contains(_ name: String, _ secrets: SecretClassifier) -> Bool {
        isAuthorization(name) || isCookie(name) || secrets.contains(name)
    }
}

/// A request's header as seen by a cache. Shared by all requests with the same header.
struct CacheView: Sendable {
    /// The fields that are sent. Secret values are replaced by strings that can only be compared, because a cache
    /// stores the fields by which a response varies.
    let fields: [(name: String, value: String)]
    let secret: SecretHeader

    // The arguments passed to the initializer.
    private let secrets: SecretClassifier
    private let salt: String
    private let isNamed: Bool

    fileprivate init?(_ header: RequestHeader, _ secrets: SecretClassifier, isNamed: Bool, salt: () -> String) {
        self.secrets = secrets
        self.isNamed = isNamed
        var sent = header.makeSentFields()
        // The cache of this process uses the request's policy, not the field added for other caches.
        if header.addsCacheControl { sent.removeAll { ASCII.equalIgnoringCase($0.name.utf8, "cache-control".utf8) } }
        secret = SecretHeader(sent, secrets, hasStoredCookies: header.sendsStoredCookies)
        guard !secret.fields.isEmpty || secret.sendsStoredCookies else {
            fields = sent
            self.salt = ""
            return
        }
        let salt = salt()
        self.salt = salt
        var fields: [(name: String, value: String)] = []
        for (name, value) in sent {
            guard KnownSecret.contains(name, secrets), !Self.isDirective(name) else {
                fields.append((name, value))
                continue
            }
            // All tokens of a named identity are equivalent. Cookies also carry other information.
            if isNamed, !KnownSecret.isCookie(name) {
                fields.append((name, "named"))
            } else {
                let text = "\(salt):\(name.lowercased().utf8.count):\(name.lowercased()):\(value)"
                guard let digest = MessageDigest.sha256(Data(text.utf8)) else { return nil }
                fields.append((name, digest.hexadecimalString))
            }
        }
        self.fields = fields
    }

    fileprivate func suits(_ secrets: SecretClassifier, isNamed: Bool, salt: () -> String) -> Bool {
        self.isNamed == isNamed && self.secrets == secrets && (self.salt.isEmpty || self.salt == salt())
    }

    /// Returns whether a field is a directive for the cache, even if the user has marked it as a secret.
    private static func isDirective(_ name: String) -> Bool {
        let name = name.lowercased()
        return name == "cache-control" || name == "pragma" || name == "range" || name.hasPrefix("if-")
    }
}

extension RequestHeader {
    /// Returns the header as seen by a cache; nil if no digest can be computed.
    ///
    /// - Parameters:
    ///   - secrets: The classifier that determines which fields are secret.
    ///   - isNamed: Whether the identity of the request has a name.
    ///   - salt: The cache's salt.
    func view(_ secrets: SecretClassifier, isNamed: Bool, salt: () -> String) -> CacheView? {
        if let made = cacheView.withLock({ $0 }), made.suits(secrets, isNamed: isNamed, salt: salt) { return made }
        guard let made = CacheView(self, secrets, isNamed: isNamed, salt: salt) else { return nil }
        cacheView.withLock { $0 = made }
        return made
    }
}
