import Testing

@testable import ConvoySecurity

/// The `Strict-Transport-Security` field, which is parsed according to its grammar (RFC 6797, section 6.1) and rejected
/// as a whole if it is invalid.
@Suite struct StrictTransportSecurityTests {
    @Test(arguments: [
        ("max-age=31536000", 31_536_000, false),
        ("max-age=15768000 ; includeSubDomains", 15_768_000, true),
        ("max-age=\"31536000\"", 31_536_000, false),
        ("max-age=0; includeSubDomains", 0, true),
        ("includeSubDomains; max-age=5", 5, true),
        ("MAX-AGE=5;INCLUDESUBDOMAINS", 5, true),
        (" ; max-age = 5 ;; includesubdomains ; ", 5, true),
        ("max-age=5; preload", 5, false),
        ("max-age=5; unknown=\"a;b\\\"; includeSubDomains\"", 5, false),
        ("max-age=5; unknown=token", 5, false),
        ("max-age=\"\\5\"", 5, false),
        ("max-age=99999999999999999999999", 10_000_000_000, false),
    ])
    func `a valid field is accepted`(_ text: String, _ age: Int64, _ includesSubdomains: Bool) throws {
        let value = try #require(StrictTransportSecurity(text))
        #expect(value.maximumAge == age)
        #expect(value.includesSubdomains == includesSubdomains)
    }

    @Test(arguments: [
        "", ";", "includeSubDomains", "max-age", "max-age=", "max-age=\"\"", "max-age=-1", "max-age=1.5", "max-age=5s",
        "max-age=0x5", "max-age=5 includeSubDomains", "max-age=5, includeSubDomains", "max-age=5; max-age=5",
        "max-age=5; Max-Age=6", "max-age=5; includeSubDomains; includeSubDomains", "max-age=5; includeSubDomains=1",
        "max-age=5; includeSubDomains=", "max-age=\"5", "max-age=5\"", "max-age=\"5\"x", "max-age='5'",
        "max-age=5; a b", "max-age=5; =b", "max-age=5; unknown=\"", "max-age=5; unknown=a b", "max-age=５",
        "max-age=5; x=\"\\",
    ])
    func `an invalid field is ignored`(_ text: String) {
        #expect(StrictTransportSecurity(text) == nil)
    }
}
