import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// The properties of certificates, and the bytes that are valid certificates.
@Suite struct CertificateTests {
    let root: TestCertificate
    let made: TestCertificate
    let certificate: Certificate

    init() throws {
        var profile = TestCertificate.Profile.server("api.example.com", "*.example.org", "127.0.0.1", "::1")
        profile.organization = "Ünïcode, Inc."
        profile.notBefore = Date(timeIntervalSince1970: 1_000_000_000)
        profile.notAfter = Date(timeIntervalSince1970: 4_102_444_800)
        root = try .root()
        made = try root.issue(profile)
        certificate = try Certificate(made)
    }

    @Test func `a certificate contains the fields it was created with`() {
        #expect(certificate.subject == #"CN=api.example.com,O=Ünïcode\, Inc."#)
        #expect(certificate.issuer == "CN=Convoy Test Root")
        #expect(certificate.notValidBefore == Date(timeIntervalSince1970: 1_000_000_000))
        #expect(certificate.notValidAfter == Date(timeIntervalSince1970: 4_102_444_800))
        #expect(certificate.dnsNames == ["api.example.com", "*.example.org"])
        #expect(certificate.addresses == [Data([127, 0, 0, 1]), Data(repeating: 0, count: 15) + [1]])
        #expect(certificate.derData == made.derData)
        #expect(certificate.publicKeyPin?.description == made.publicKeyPin)
        #expect(
            certificate.description.contains("api.example.com") && certificate.description.contains(made.publicKeyPin))
    }

    @Test func `a certificate without names has a description`() throws {
        var profile = TestCertificate.Profile()
        profile.omitsSubjectAlternativeNames = true
        let certificate = try Certificate(TestCertificate.selfSigned(profile))
        #expect(certificate.subject.isEmpty && certificate.dnsNames.isEmpty && certificate.addresses.isEmpty)
        #expect(certificate.description.hasPrefix("(no subject), issued by (no name)"))
        #expect(!certificate.matches(host: "localhost") && !certificate.matches(host: ""))
    }

    @Test(arguments: [Data(), Data([0x30]), Data([0x30, 0]), Data([1, 2, 3]), Data("text".utf8), Data(count: 4_096)])
    func `bytes that are not a certificate are rejected`(bytes: Data) {
        #expect(throws: CertificateError.notACertificate) { try Certificate(derData: bytes) }
    }

    @Test func `a certificate truncated anywhere is rejected`() {
        for count in 0..<made.derData.count {
            #expect(throws: CertificateError.notACertificate) { try Certificate(derData: made.derData.prefix(count)) }
        }
    }

    @Test func `bytes after a certificate are rejected`() {
        for more in [Data([0]), made.derData] {
            #expect(throws: CertificateError.notACertificate) { try Certificate(derData: made.derData + more) }
        }
    }

    @Test func `a slice of data is read from its start index`() throws {
        let all = Data([9, 9, 9]) + made.derData + Data([9])
        #expect(try Certificate(derData: all[3..<(3 + made.derData.count)]) == certificate)
    }

    @Test func `a certificate with a wrong byte anywhere does not cause a crash`() throws {
        for index in made.derData.indices {
            var bytes = made.derData
            bytes[index] ^= 0xFF
            guard let other = try? Certificate(derData: bytes) else { continue }
            #expect(other != certificate, "byte \(index)")
            _ = (
                other.description, other.notValidBefore, other.notValidAfter, other.dnsNames, other.addresses, other.pem
            )
            _ = (other.hashValue, other.publicKeyPin, other.matches(host: "api.example.com"))
        }
    }

    @Test func `certificates with equal bytes are equal`() throws {
        let same = try Certificate(made)
        #expect(same == certificate && same.hashValue == certificate.hashValue)
        // The renewed certificate has the same key and names, but a different serial number and signature.
        let renewed = try Certificate(made.reissued())
        #expect(renewed != certificate && renewed.publicKeyPin == certificate.publicKeyPin)
        #expect(Set([certificate, same, renewed]).count == 2)
    }

    @Test func `certificates that differ only in the signature are not equal`() throws {
        var bytes = made.derData
        bytes[bytes.count - 1] ^= 1
        #expect(try Certificate(derData: bytes) != certificate)
    }

    @Test func `a certificate is encoded as its bytes`() throws {
        let coded = try JSONEncoder().encode([certificate])
        #expect(try JSONDecoder().decode([String].self, from: coded) == [made.derData.base64EncodedString()])
        #expect(try JSONDecoder().decode([Certificate].self, from: coded) == [certificate])
    }

    @Test(arguments: [#"[""]"#, #"["AAAA"]"#, #"["not base64"]"#, "[1]", "[null]"])
    func `decoding invalid bytes throws a typed error`(json: String) {
        #expect(throws: DecodingError.self) { try JSONDecoder().decode([Certificate].self, from: Data(json.utf8)) }
    }

    @Test(arguments: [
        // A wildcard matches a name with an underscore like any other name: as one entire first label.
        ("*.example.com", "a_b.example.com", true), ("*.example.com", "A_B.Example.com.", true),
        ("*.example.com", "_.example.com", true), ("*.EXAMPLE.com", "a_b.example.com", true),
        ("*.a_b.example.com", "c.a_b.example.com", true), ("a_b.example.com", "a_b.example.com", true),
        ("*.example.com", "c.a_b.example.com", false), ("*.example.com", "a_b.c.example.com", false),
        ("*.example.com", "example.com", false), ("*.example.com", "a_b.example.org", false),
        ("*.example.com", "a_b.badexample.com", false), ("*.com", "a_b.com", false), ("*", "a_b", false),
        ("a*.example.com", "a_b.example.com", false), ("*b.example.com", "a_b.example.com", false),
        ("a_*.example.com", "a_b.example.com", false), ("**.example.com", "a_b.example.com", false),
        ("*.*.example.com", "a_b.c.example.com", false), ("*.0.0.1", "a_b.0.0.2", false),
        ("a-b.example.com", "a_b.example.com", false), ("*.example.com\0.evil.test", "a_b.example.com", false),
        // The same rules apply to names without an underscore.
        ("*.example.com", "a-b.example.com", true), ("*.example.com", "c.a-b.example.com", false),
        ("*.com", "a-b.com", false), ("a*.example.com", "a-b.example.com", false),
    ])
    func `a wildcard matches names with underscores`(name: String, host: String, isNamed: Bool) throws {
        let authority = try TestCertificate.root()
        let made = try authority.issue(.server([name]))
        #expect(try Certificate(made).matches(host: host) == isNamed)
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(authority)])
        let failure = policy.evaluate(try ServerTrust(made), forDomain: host).failure
        #expect((failure == nil) == isNamed, "\(failure.map { "\($0)" } ?? "none")")
        if !isNamed { #expect(failure?.reasons.contains(.wrongHost) == true) }
    }

    @Test func `a certificate name with a zero byte does not match the part before it`() throws {
        var profile = TestCertificate.Profile.server("api.example.com\0.evil.test")
        profile.commonName = "x"
        let certificate = try Certificate(TestCertificate.selfSigned(profile))
        #expect(!certificate.matches(host: "api.example.com"))
        #expect(!certificate.matches(host: "api.example.com\0.evil.test"))
    }

    @Test func `a host with a zero byte does not match the part before it`() {
        #expect(certificate.matches(host: "127.0.0.1") && certificate.matches(host: "::1"))
        #expect(!certificate.matches(host: "127.0.0.1\0.evil.test") && !certificate.matches(host: "::1\0"))
    }
}
