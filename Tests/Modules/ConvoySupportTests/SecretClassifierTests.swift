import Testing

@testable import ConvoySupport

/// Classification of names as secrets, with one table for both header fields and items.
@Suite struct SecretClassifierTests {
    /// Secret names, for values that could be secret.
    private static let secrets = [
        // HTTP fields.
        "Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "Set-Cookie", "Set-Cookie2", "Signature",
        // Fields of web services.
        "X-Api-Key", "X-API-KEY", "apikey", "X-Auth-Token", "X-AUTH-TOKEN", "Private-Token", "Job-Token", "X-Vault-Token",
        "Ocp-Apim-Subscription-Key", "X-Access-Key", "X-Functions-Key", "X-Master-Key", "X-ClickHouse-Key", "Fastly-Key",
        "X-Amz-Security-Token", "X-Shopify-Access-Token", "X-Figma-Token", "X-CSRFToken", "X-XSRF-TOKEN", "X-Session-Id",
        "X-Hub-Signature-256", "Cf-Access-Client-Secret", "Cf-Access-Jwt-Assertion", "X-Original-Authorization",
        "DD-APPLICATION-KEY", "X-Auth", "X-Auth-Key", "Api_Key", "api.key", "X-Amz-Server-Side-Encryption-Customer-Key",
        "X-Webhook-Secret", "X-User-Password", "X-Parse-Session-Token", "Tus-Password",
        // OAuth, OpenID Connect, SAML.
        "access_token", "refresh_token", "id_token", "id_token_hint", "reset_token", "logout_token", "client_secret",
        "client_assertion", "code", "code_verifier", "device_code", "auth_code", "oauth_token", "oauth_signature",
        "oauth_consumer_key", "oauth_verifier", "SAMLResponse", "SAMLart", "assertion", "jwt",
        // Signed URLs.
        "X-Amz-Signature", "X-Amz-Credential", "AWSAccessKeyId", "X-Goog-Signature", "X-Goog-Credential", "GoogleAccessId",
        "Policy", "Signature", "Key-Pair-Id", "sig", "OSSAccessKeyId", "q-signature", "hmac",
        // Form items and JSON members.
        "password", "Password", "newPassword", "password_confirmation", "passwordHash", "user[password]", "user.passwd",
        "pwd", "dbpwd", "pass", "user_pass", "passphrase", "pin", "otp", "totp", "key", "secretKey", "private_key",
        "accessToken", "accesstoken", "ACCESS_TOKEN", "ToKeN", "sessionToken", "session", "sessionid", "sessionID",
        "PHPSESSID", "JSESSIONID", "ASP.NET_SessionId", "connect.sid", "sid", "ticket", "credential", "credentials",
        "token1",
        "verificationCode", "pass-word", "tokens", "data[api][key]", "data[0][token]", "bearer", "csrf",
    ]

    private static let others = [
        "Keep-Alive", "Content-MD5", "Cache-Control", "If-None-Match", "Content-Type", "ETag", "Link", "Accept",
        "Accept-Encoding",
        "Sec-WebSocket-Key", "Sec-WebSocket-Accept", "WWW-Authenticate", "Proxy-Authenticate", "Idempotency-Key",
        "Content-Security-Policy", "Referrer-Policy", "Surrogate-Key", "Public-Key-Pins", "X-OAuth-Scopes", "X-Request-Id",
        "X-Cache-Key", "User-Agent", ":authority", "traceparent", "X-Amz-Algorithm", "X-Amz-Expires", "X-Amz-SignedHeaders",
        "X-Amz-Date", "monkey", "keyboard", "keyword", "keywords", "tokenize", "tokenizer", "passenger", "passage", "bypass",
        "compass", "author", "authors", "authority", "page", "primary_key", "primaryKey", "sortKey", "publicKey",
        "object_key",
        "key_id", "keys", "codec", "country_code", "countryCode", "status_code", "zip_code", "barcode", "secretary", "spin",
        "pinned", "design", "signal", "sessionless", "se", "sv", "sp", "expires", "state", "nonce", "page_token",
        "nextPageToken", "continuation-token", "token_type", "tokenType", "token_endpoint", "grant_type", "signature_method",
        "signatureVersion", "cookieless", "q", "", "-", "[]", "id", "user", "email", "tok\u{301}en",
    ]

    @Test(arguments: secrets)
    func `a name of a secret is recognized, as a field and as an item`(name: String) {
        let classifier = SecretClassifier.standard
        #expect(classifier.contains(name))
        #expect(classifier.shown(name, "s3cr3t-value") == "***")
        #expect(classifier.hides(item: name.utf8, "s3cr3t-value".utf8))
    }

    @Test(arguments: others)
    func `other names are not recognized`(name: String) {
        let classifier = SecretClassifier.standard
        #expect(!classifier.contains(name))
        #expect(classifier.shown(name, "value-4711") == "value-4711")
        #expect(!classifier.hides(item: name.utf8, "value-4711".utf8))
    }

    @Test(arguments: [
        ("code", "404", false), ("code", "500", false), ("code", "4711", true), ("code", "4/0AX4XfWh", true),
        ("code", "", false), ("pin", "1234", true), ("auth", "true", false), ("session", "12", false),
        ("Access-Control-Allow-Credentials", "true", false), ("max_tokens", "4096", false),
        ("X-Ratelimit-Remaining-Tokens", "149984", false), ("tokens", "a,b", true), ("cookies", "accepted", true),
        ("password", "1", true), ("token", "1", true), ("Authorization", "none", true), ("policy", "eyJTdGF0ZW1lbnQi", true),
    ])
    func `a status, a token count or a flag under an ambiguous name is not a secret`(
        name: String, value: String, isHidden: Bool
    ) {
        #expect(SecretClassifier.standard.hides(field: name, value) == isHidden || value.isEmpty)
        let url = "http://h/?\(name)=\(value)"
        #expect(Redaction.url(url) == (isHidden ? "http://h/?\(name)=***" : url))
    }

    @Test(arguments: [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl", "Bearer abc", "bearer abc",
    ])
    func `a web token is a secret under any name`(value: String) {
        #expect(SecretClassifier.standard.shown("X-Whatever", value) == "***")
        let item = value.replacing(" ", with: "%20")
        #expect(Redaction.url("http://h/?x=\(item)&y=z") == "http://h/?x=***&y=z")
        #expect(!value.hasPrefix("eyJ") || Redaction.url("http://h/verify/\(value)/x") == "http://h/verify/***/x")
        #expect(!value.hasPrefix("eyJ") || Redaction.text("It is \(value) now") == "It is *** now")
    }

    @Test func `the user's additions match whole names, case-insensitively`() {
        let classifier = SecretClassifier(fields: ["X-Own"], items: .init(SecretName.standard.union(["Own-Name"])))
        #expect(classifier.contains("x-own") && !classifier.contains("x-own-2"))
        #expect(classifier.shown("X-OWN", "v") == "***" && classifier.shown("Own-Name", "v") == "v")
        #expect(classifier.hides(item: "own_name".utf8, "v".utf8) && classifier.hides(item: "user[ownname]".utf8, "v".utf8))
        #expect(!classifier.hides(item: "x-own".utf8, "v".utf8) && !classifier.hides(item: "own_names".utf8, "v".utf8))
        #expect(classifier.hides(item: "token".utf8, "v".utf8))
    }

    @Test func `a word that the user removes affects items, but never fields`() {
        let classifier = SecretClassifier(items: .init(SecretName.standard.subtracting(["key"])))
        #expect(!classifier.hides(item: "key".utf8, "v".utf8) && classifier.hides(item: "api_key".utf8, "v".utf8))
        #expect(classifier.contains("X-Functions-Key"))
        let none = SecretClassifier(items: .init([]))
        #expect(SecretClassifierTests.secrets.allSatisfy { !none.hides(item: $0.utf8, "s3cr3t".utf8) })
        #expect(none.shown("Cookie", "a=b") == "***")
    }

    @Test(arguments: [
        (
            "Link", "</x?token=s3&a=b>; rel=\"next\", <http://h/?sig=s3>",
            "</x?token=***&a=b>; rel=\"next\", <http://h/?sig=***>"
        ),
        ("Location", "/x y?token=s3", "/x y?token=***"), ("location", "?token=s3", "?token=***"),
        ("Location", "//u:s3@h/", "//***@h/"), ("Refresh", "5; url=/x?reset_token=s3", "5; url=/x?reset_token=***"),
        ("Refresh", "5;url=http:/u:s3@h", "5;url=http:/***@h"),
        ("Content-Location", "x?sessionToken=s3", "x?sessionToken=***"),
        ("Referer", "http://h/?code=s3", "http://h/?code=***"), (":path", "/?token=s3", "/?token=***"),
        ("X-Original-URL", "/a?api_key=s3", "/a?api_key=***"), ("X-Note", "see /a?api_key=s3 now", "see /a?api_key=*** now"),
        ("Content-Type", "text/html; charset=utf-8", "text/html; charset=utf-8"),
        ("From", "ada@example.com", "ada@example.com"),
        ("Date", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Via", "1.1 h:8080", "1.1 h:8080"),
    ])
    func `URLs in fields, even relative ones, are shown without their secrets`(name: String, value: String, shown: String) {
        #expect(SecretClassifier.standard.shown(name, value) == shown)
    }

    @Test func `a field that is harmless at any origin is not a secret`() {
        for name in ["Accept", "Accept-Language", "accept-ch", "User-Agent", "Range", "If-Range", "Content-Type"] {
            #expect(SecretClassifier.isHarmless(name) && !SecretClassifier.standard.contains(name), "\(name)")
        }
        for name in Self.secrets + [
            "X-Harmless", "Host", "Referer", "Origin", "From", "Accept-Signature", "Accept-Token", "",
        ] {
            #expect(!SecretClassifier.isHarmless(name), "\(name)")
        }
    }

    @Test func `long and odd names are classified quickly`() {
        let long = [UInt8](repeating: UInt8(ascii: "a"), count: 1 << 20)
        #expect(!SecretClassifier.standard.hides(item: long, "v".utf8))
        #expect(SecretClassifier.standard.hides(item: long + "_token".utf8, "v".utf8))
        #expect(SecretClassifier.standard.hides(item: "token_".utf8 + long, "v".utf8))
        let many = String(repeating: "a-", count: 100_000)
        #expect(!SecretClassifier.standard.contains(many))
        #expect(SecretClassifier.standard.hides(item: [0xFF, 0x2D] + Array("token".utf8), [0xFF]))
    }
}
