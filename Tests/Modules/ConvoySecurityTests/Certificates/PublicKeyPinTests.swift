import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Public key pins: their text form, and agreement with other programs.
@Suite struct PublicKeyPinTests {
    static let zeros = "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

    @Test func `a pin is parsed from text and written as text`() throws {
        let pin = try PublicKeyPin(Self.zeros)
        #expect(pin.digest == Data(count: 32) && pin.description == Self.zeros)
        #expect(try PublicKeyPin("sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=") == pin)
    }

    @Test func `a hash whose base64 begins with a slash is parsed in both forms`() throws {
        let digest = Data([0xFF]) + Data(count: 31)
        let text = digest.base64EncodedString()
        #expect(text.hasPrefix("/"))
        let (short, curl) = (try PublicKeyPin("sha256/" + text), try PublicKeyPin("sha256//" + text))
        #expect(short.digest == digest && curl == short)
        #expect(try PublicKeyPin(short.description) == short)
        #expect(throws: SecurityTextError.self) { try PublicKeyPin("sha256///" + text) }
    }

    @Test func `every hash survives a round trip through text`() throws {
        for byte in 0...UInt8.max {
            for rest in [Data(count: 31), Data(repeating: 0xFF, count: 31)] {
                let digest = Data([byte]) + rest
                let pin = try PublicKeyPin("sha256/" + digest.base64EncodedString())
                #expect(pin.digest == digest)
                #expect(try PublicKeyPin(pin.description) == pin)
                #expect(try PublicKeyPin("sha256//" + digest.base64EncodedString()) == pin)
            }
        }
    }

    @Test(arguments: [
        "", "sha256", "sha256/", "sha256//", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "sha1/AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "SHA256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", " sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "sha256/----------------------------------------AAA=",
        "sha256/0000000000000000000000000000000000000000000000000000000000000000",
        "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=;sha256/AAAA",
    ])
    func `an invalid text is an error that contains it`(text: String) {
        let error = #expect(throws: SecurityTextError.self) { try PublicKeyPin(text) }
        #expect(error == .notAPin(text) && error?.description.contains("Base64 of 32 bytes") == true)
    }

    @Test func `a pin is encoded as its text`() throws {
        let pin = try PublicKeyPin(Self.zeros)
        let coded = try JSONEncoder().encode([pin])
        #expect(try JSONDecoder().decode([String].self, from: coded) == [Self.zeros])
        #expect(try JSONDecoder().decode([PublicKeyPin].self, from: coded) == [pin])
        for json in [#"["sha256/AAAA"]"#, "[1]", "[{}]"] {
            #expect(throws: DecodingError.self) { try JSONDecoder().decode([PublicKeyPin].self, from: Data(json.utf8)) }
        }
    }

    @Test(
        .enabled(if: OpenSSLServer.isInstalled, "requires \(OpenSSLServer.installHint)"),
        arguments: [TestCertificate.Profile.Key.ec, .ec384, .rsa(bits: 1024), .ed25519])
    func `a pin equals the hash that openssl computes`(key: TestCertificate.Profile.Key) throws {
        var profile = TestCertificate.Profile.server("localhost")
        profile.key = key
        let made = try TestCertificate.selfSigned(profile)
        let key = try ProcessRunner.run("openssl", ["x509", "-pubkey", "-noout"], input: Data(made.pem.utf8))
        let der = try ProcessRunner.run("openssl", ["pkey", "-pubin", "-outform", "der"], input: key.output)
        let digest = try ProcessRunner.run("openssl", ["dgst", "-sha256", "-binary"], input: der.output)
        #expect(digest.output.count == 32)
        #expect(try Certificate(made).publicKeyPin?.digest == digest.output)
    }
}
