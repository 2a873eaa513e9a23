/// Decides whether the name of a field, item or member indicates a secret value.
///
/// A name is split at characters that are neither letters nor digits, at digits, and at camel-case boundaries:
/// `X-Api-Key`, `x_api_key` and `xApiKey` have the same parts. Non-ASCII letters count as letters.
package enum SecretName {
    /// A conclusion about a value, drawn from its name.
    package enum Verdict: Sendable {
        /// The value is not secret.
        case harmless
        /// The value is secret unless it is a number.
        case unlessNumber
        /// The value is secret unless it is a plain word, for example a status or a switch.
        case unlessPlain
        case secret

        /// Returns whether a value is secret if its name has this verdict.
        func hides(_ value: some Collection<UInt8>) -> Bool {
            switch self {
            case .harmless: false
            case .unlessNumber: !SecretName.isPlain(value, longestNumber: 18)
            case .unlessPlain: !SecretName.isPlain(value, longestNumber: 3)
            case .secret: true
            }
        }
    }

    /// The words that make a name secret.
    package static let standard: Set<String> = Set(words.keys).union(compounds)

    /// Returns the verdict on a name. Only the enabled ``standard`` words count; if `enabled` is nil, all words do.
    package static func verdict(on name: some Collection<UInt8>, _ enabled: Set<String>? = nil) -> Verdict {
        if let enabled, enabled.isEmpty { return .harmless }
        // Truncate long names, because both ends are sufficient for a decision.
        let bytes = name.count > 256 ? Array(name.prefix(128)) + Array(name.suffix(128)) : Array(name)
        let (parts, hasCamelCase) = parts(of: bytes, splitsCamelCase: true)
        guard let last = parts.last, !aboutSecrets.contains(last) else { return .harmless }
        let verdict = verdict(on: parts, enabled)
        // Retry without splitting at camel-case boundaries, for names such as `ToKeN`.
        guard verdict == .harmless, hasCamelCase else { return verdict }
        return self.verdict(on: self.parts(of: bytes, splitsCamelCase: false).parts, enabled)
    }

    /// Returns whether a value is secret under any name: a JSON Web Token (RFC 7519), or a bearer token with the prefix
    /// used in an `Authorization` field.
    package static func isTelling(_ value: some Collection<UInt8>) -> Bool {
        switch value.first {
        case UInt8(ascii: "e"): isWebToken(value)
        case UInt8(ascii: "B"), UInt8(ascii: "b"):
            value.count > 7 && ASCII.equalIgnoringCase(value.prefix(7), "bearer ".utf8)
        default: false
        }
    }

    /// Returns whether a string is a JSON Web Token: it begins with the Base64 of `{"` and has at least three parts.
    static func isWebToken(_ text: some Collection<UInt8>) -> Bool {
        guard text.count >= 16, text.starts(with: "eyJ".utf8) else { return false }
        var dots = 0
        for byte in text {
            switch byte {
            case UInt8(ascii: "."): dots += 1
            case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "="), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
                break
            default: return false
            }
        }
        return dots >= 2
    }

    private static func isPlain(_ value: some Collection<UInt8>, longestNumber: Int) -> Bool {
        if value.count <= longestNumber, value.allSatisfy(ASCII.isDigit) { return true }
        return value.count <= 9 && switches.contains(String(decoding: value.map(ASCII.lowercased), as: UTF8.self))
    }

    private static let switches: Set<String> = [
        "true", "false", "yes", "no", "on", "off", "null", "nil", "none", "undefined",
    ]

    // MARK: Parts

    private static func parts(
        of name: [UInt8], splitsCamelCase: Bool
    ) -> (parts: [String], hasCamelCase: Bool) {
        var parts: [String] = [], part: [UInt8] = [], hasCamelCase = false
        func end() {
            if part.isEmpty { return }
            // Treat `OAuth` as one word.
            if part.elementsEqual("auth".utf8), parts.last == "o" {
                parts[parts.count - 1] = "oauth"
            } else {
                parts.append(String(decoding: part, as: UTF8.self))
            }
            part.removeAll(keepingCapacity: true)
        }
        for (index, byte) in name.enumerated() {
            guard isLetter(byte) else {
                end()
                continue
            }
            if splitsCamelCase, !part.isEmpty, isUpper(byte),
                !isUpper(name[index - 1]) || index + 1 < name.count && isLower(name[index + 1])
            {
                hasCamelCase = true
                end()
            }
            part.append(ASCII.lowercased(byte))
        }
        end()
        return (parts, hasCamelCase)
    }

    private static func isUpper(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") }
    private static func isLower(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z") }
    private static func isLetter(_ byte: UInt8) -> Bool { isUpper(byte) || isLower(byte) || byte >= 0x80 }

    private static func verdict(on parts: [String], _ enabled: Set<String>?) -> Verdict {
        func counts(_ word: String) -> Bool { enabled?.contains(word) ?? true }
        var strongest = Verdict.harmless
        func note(_ verdict: Verdict) { if verdict.rank > strongest.rank { strongest = verdict } }
        for (index, part) in parts.enumerated() {
            let before = index > 0 ? parts[index - 1] : nil
            if let word = words[part] {
                if counts(part), word.applies(at: index, of: parts.count, after: before) { note(word.verdict) }
            } else if let word = end(of: part), counts(word.text), !isExempt(word.text, after: word.rest) {
                note(.secret)
            } else if hasCompound(part, counts) {
                note(.secret)
            }
            // Also match compound words that are written separately: `api_key`, `pass-word`.
            var joined = part
            for next in parts[(index + 1)...].prefix(2) {
                joined += next
                if compounds.contains(joined), counts(joined) { note(.secret) }
                if joined.utf8.count > 5, let word = words[joined], word.place == .anywhere, counts(joined) {
                    note(word.verdict)
                }
            }
        }
        return strongest
    }

    /// Returns the secret word at the end of a part without separators, for example `accesstoken`.
    private static func end(of part: String) -> (text: String, rest: Substring)? {
        guard part.utf8.count > 3 else { return nil }
        for word in ends where part.hasSuffix(word) { return (word, part.dropLast(word.count)) }
        return nil
    }

    private static func hasCompound(_ part: String, _ counts: (String) -> Bool) -> Bool {
        let bytes = Array(part.utf8)
        guard bytes.count >= 6, stems.contains(where: { has(bytes, $0) }) else { return false }
        return compounds.contains { has(bytes, $0) && counts($0) }
    }

    private static func has(_ bytes: [UInt8], _ word: String) -> Bool {
        let (word, count) = (word.utf8, word.utf8.count)
        guard let first = word.first, bytes.count >= count else { return false }
        return (0...(bytes.count - count)).contains { bytes[$0] == first && bytes[$0..<($0 + count)].elementsEqual(word) }
    }

    private static func isExempt(_ word: String, after rest: Substring) -> Bool {
        words[word]?.harmlessAfter.contains { rest.hasSuffix($0) } ?? false
    }

    // MARK: Words

    private struct Word: Sendable {
        enum Place: Sendable { case anywhere, last, alone }
        var place = Place.anywhere
        var verdict = Verdict.secret
        /// The preceding parts that make the word harmless.
        var harmlessAfter: Set<String> = []
        /// The preceding parts that make the word secret if its position alone does not.
        var tellingAfter: Set<String> = []

        func applies(at index: Int, of count: Int, after before: String?) -> Bool {
            if let before, harmlessAfter.contains(before) { return false }
            switch place {
            case .anywhere: return true
            case .last: return index == count - 1
            case .alone: return count == 1 || index == count - 1 && before.map(tellingAfter.contains) == true
            }
        }
    }

    private static func all(_ words: [String], _ word: Word) -> [String: Word] {
        Dictionary(uniqueKeysWithValues: words.map { ($0, word) })
    }

    private static let words: [String: Word] =
        all(
            [
                "secret", "secrets", "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "authorization",
                "bearer", "cookie", "signature", "signatures", "sig", "hmac", "jwt", "csrf", "xsrf", "assertion", "verifier",
            ], Word()
        )
        .merging(
            all(
                [
                    "auth", "cookies", "credential", "credentials", "session", "sessions", "sid", "otp", "totp",
                ], Word(verdict: .unlessPlain))
        ) { $1 }
        .merging(
            all(["oauth", "pass", "pw", "pin", "ticket"], Word(place: .last, verdict: .unlessPlain))
        ) { $1 }
        .merging(
            [
                "token": Word(harmlessAfter: [
                    // Pagination cursors are not secret.
                    "cancel", "cancellation", "continuation", "cursor", "page", "pagination", "skip", "sync",
                ]),
                // Language-model tokens and rate-limit tokens are numbers.
                "tokens": Word(verdict: .unlessNumber),
                "key": Word(
                    place: .last, verdict: .unlessPlain,
                    harmlessAfter: [
                        "attribute", "cache", "column", "config", "document", "entry", "event", "feature", "field", "flag",
                        "foreign", "group", "idempotency", "index", "issue", "label", "locale", "lookup", "message",
                        "metadata", "object", "option", "order", "parameter", "partition", "primary", "project", "property",
                        "public", "routing", "row", "setting", "socket", "sort", "surrogate", "tag", "translation", "unique",
                        "websocket",
                    ]),
                // `code` can also be a status code or a country code.
                "code": Word(
                    place: .alone, verdict: .unlessPlain,
                    tellingAfter: [
                        "access", "activation", "auth", "authorization", "backup", "confirmation", "device", "fa",
                        "invitation", "invite", "login", "mfa", "oauth", "otp", "pass", "recovery", "reset", "security",
                        "sms", "totp", "user", "verification",
                    ]),
                // CloudFront signed URLs and S3 forms contain a policy.
                "policy": Word(place: .alone, verdict: .unlessPlain),
                "sign": Word(place: .alone, verdict: .unlessPlain),
            ]
        ) { $1 }

    /// The words that can be the suffix of a part.
    private static let ends = [
        "token", "secret", "password", "passwd", "passphrase", "passcode", "pwd", "authorization", "cookie", "signature",
        "credential", "credentials", "assertion", "jwt",
    ]

    /// The compound words, written as one part or separated into two or three parts.
    private static let compounds: Set<String> = [
        "accesscode", "accesskey", "accountkey", "activationcode", "adminkey", "apikey", "appkey", "applicationkey",
        "authcode", "authkey", "clientkey", "confirmationcode", "consumerkey", "devicecode", "encryptionkey", "functionkey",
        "functionskey", "googleaccessid", "keypairid", "licensekey", "masterkey", "privatekey", "recoverycode", "resetcode",
        "samlart", "samlrequest", "samlresponse", "secretkey", "securitycode", "securitykey", "servicekey", "sessid",
        "sessionid", "sessionkey", "sharedkey", "signingkey", "storagekey", "subscriptionkey", "tokenhint", "tokenid",
        "tokenkey", "tokenvalue", "userpass", "dbpass", "verificationcode", "password", "passwd", "passphrase",
    ]

    /// The stems of all compounds: every compound contains at least one.
    private static let stems = ["key", "code", "pass", "sess", "saml", "token", "accessid"]

    /// The final parts that indicate metadata about a secret.
    private static let aboutSecrets: Set<String> = [
        "alg", "algorithm", "count", "enabled", "endpoint", "expiration", "expires", "expiry", "length", "limit", "method",
        "methods", "mode", "remaining", "required", "scheme", "size", "ttl", "type", "types", "uri", "url", "version",
    ]
}

extension SecretName.Verdict {
    fileprivate var rank: Int {
        switch self {
        case .harmless: 0
        case .unlessNumber: 1
        case .unlessPlain: 2
        case .secret: 3
        }
    }
}
