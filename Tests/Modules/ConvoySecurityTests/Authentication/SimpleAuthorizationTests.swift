import Testing

@testable import ConvoySecurity

/// Basic and bearer authorization.
@Suite struct SimpleAuthorizationTests {
    @Test func `the user and password are encoded in base64`() {
        #expect(BasicAuthorization.value(user: "Aladdin", password: "open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        #expect(BasicAuthorization.value(user: "", password: "") == "Basic Og==")
        #expect(BasicAuthorization.value(user: "a", password: "b:c") == "Basic YTpiOmM=")
    }

    @Test(arguments: ["a\nb", "a\rb", "a\u{0}b", "\u{7F}", "a\u{85}b", "\t"])
    func `a user or password with a control character is rejected`(text: String) {
        #expect(BasicAuthorization.value(user: text, password: "p") == nil)
        #expect(BasicAuthorization.value(user: "u", password: text) == nil)
    }

    @Test func `a user name with a colon is rejected`() {
        #expect(BasicAuthorization.value(user: "a:b", password: "c") == nil)
    }

    @Test(arguments: ["mF_9.B5f-4.1JqM", "a", "ab~+/==", "0"]) func `a token is sent unchanged`(token: String) {
        #expect(BearerAuthorization.value(token: token) == "Bearer \(token)")
    }

    @Test(arguments: ["", "=", "==", "a b", "a=b", "a\r\nX: y", "a,b", "é", "a\u{0}", "\"a\"", "a "])
    func `an invalid token is rejected`(token: String) {
        #expect(BearerAuthorization.value(token: token) == nil)
    }
}
