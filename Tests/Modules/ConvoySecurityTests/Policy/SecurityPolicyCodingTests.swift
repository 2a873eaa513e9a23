import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// Encoding and decoding of policies, including invalid input.
@Suite struct SecurityPolicyCodingTests {
    private func decode(_ json: String) throws -> SecurityPolicy {
        try JSONDecoder().decode(SecurityPolicy.self, from: Data(json.utf8))
    }

    private func full() throws -> SecurityPolicy {
        let (first, second) = (try Certificate(TestCertificate.root()), try Certificate(TestCertificate.root()))
        var policy = SecurityPolicy(pinningMode: .certificate, pinnedCertificates: [first, second])
        for byte in UInt8(0)...9 {
            let text = "sha256/" + Data(repeating: byte &* 29, count: 32).base64EncodedString()
            policy.publicKeyPins.insert(try PublicKeyPin(text))
        }
        policy.backupPins = [try PublicKeyPin("sha256/" + Data(repeating: 0xFF, count: 32).base64EncodedString())]
        policy.pinsExpire = Date(timeIntervalSinceReferenceDate: 700_000_000.125)
        policy.allowInvalidCertificates = true
        policy.validatesDomainName = false
        policy.validatesCertificateChain = true
        policy.requiresStapledStatus = true
        policy.certificateAuthorities = .systemAnd([second])
        try policy.setPolicy(SecurityPolicy(pinningMode: .publicKey), forHosts: "**.example.com")
        try policy.setPolicy(SecurityPolicy(), forHosts: "[::1]")
        return policy
    }

    @Test func `every setting survives encoding and decoding`() throws {
        let policy = try full()
        let coded = try JSONEncoder().encode(policy)
        #expect(try JSONDecoder().decode(SecurityPolicy.self, from: coded) == policy)
        let list = try PropertyListEncoder().encode(policy)
        #expect(try PropertyListDecoder().decode(SecurityPolicy.self, from: list) == policy)
    }

    @Test func `every kind of authorities survives encoding and decoding`() throws {
        let certificate = try Certificate(TestCertificate.root())
        let all: [CertificateAuthorities] = [
            .system, .file(URL(fileURLWithPath: "/etc/ü.pem")), .directory(URL(fileURLWithPath: "/etc/a b")),
            .certificates([certificate]), .certificates([]), .systemAnd([certificate]),
        ]
        for authorities in all {
            var policy = SecurityPolicy()
            policy.certificateAuthorities = authorities
            let coded = try JSONEncoder().encode(policy)
            #expect(try JSONDecoder().decode(SecurityPolicy.self, from: coded) == policy)
        }
    }

    @Test func `equal policies have equal encodings`() throws {
        let policy = try full()
        var same = policy
        same.publicKeyPins = Set(policy.publicKeyPins.shuffled())
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        #expect(try encoder.encode(policy) == encoder.encode(same))
    }

    @Test func `a missing key has its default`() throws {
        #expect(try decode("{}") == SecurityPolicy())
        #expect(try decode(#"{"unknown": 1, "pinsExpire": null, "hostPolicies": {}}"#) == SecurityPolicy())
        #expect(try decode(#"{"pinningMode": 1}"#) == SecurityPolicy(pinningMode: .publicKey))
        #expect(try decode(#"{"hostPolicies": {"A.test": {"pinningMode": 2}}}"#).policy(forHost: "a.test").isPinning)
        #expect(
            try decode(#"{"certificateAuthorities": {"file": {"_0": "file:///a"}}}"#).certificateAuthorities
                == .file(URL(fileURLWithPath: "/a")))
    }

    @Test(arguments: [
        "", "[]", "1", "null", #"{"pinningMode": 3}"#, #"{"pinningMode": "publicKey"}"#, #"{"pinningMode": -1}"#,
        #"{"pinnedCertificates": ["AAAA"]}"#, #"{"pinnedCertificates": [""]}"#, #"{"pinnedCertificates": {}}"#,
        #"{"publicKeyPins": ["sha256/AAAA"]}"#, #"{"publicKeyPins": "sha256/"}"#, #"{"backupPins": [1]}"#,
        #"{"pinsExpire": "tomorrow"}"#, #"{"allowInvalidCertificates": 1}"#, #"{"allowInvalidCertificates": "no"}"#,
        #"{"validatesDomainName": 0}"#, #"{"validatesCertificateChain": []}"#, #"{"requiresStapledStatus": "yes"}"#,
        #"{"certificateAuthorities": "system"}"#, #"{"certificateAuthorities": {"other": {}}}"#,
        #"{"certificateAuthorities": {"certificates": {"_0": ["x"]}}}"#, #"{"hostPolicies": {"*": {}}}"#,
        #"{"hostPolicies": {"a.test": {"pinningMode": 9}}}"#, #"{"hostPolicies": []}"#,
        // It is ambiguous which of the two policies applies.
        #"{"hostPolicies": {"a.test": {}, "A.test.": {"pinningMode": 1}}}"#,
    ])
    func `an invalid value is a typed error`(json: String) {
        #expect(throws: DecodingError.self) { try decode(json) }
    }

    @Test func `the error names an invalid pin and its coding path`() throws {
        let error = #expect(throws: DecodingError.self) {
            try decode(#"{"hostPolicies": {"a.test": {"publicKeyPins": ["sha256/x"]}}}"#)
        }
        guard case .dataCorrupted(let context)? = error else { return #expect(Bool(false), "\(error as Any)") }
        #expect(context.debugDescription.contains("sha256/x"))
        #expect(context.codingPath.map(\.stringValue).starts(with: ["hostPolicies", "a.test", "publicKeyPins"]))
    }
}
