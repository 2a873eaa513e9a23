import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@Suite(.enabled(if: OpenSSLProgram.isInstalled, "openssl is not installed"))
struct CertificateTests {
    typealias Profile = TestCertificate.Profile

    @Test func `openssl accepts a chain only for the right host, address and purpose`() throws {
        let root = try TestCertificate.root()
        let authority = try root.issue(.authority("Between", pathLength: 0))
        let leaf = try authority.issue(.server("a.test", "*.b.test", "127.0.0.1", "::1"))
        #expect(leaf.chain.map(\.profile.commonName) == ["a.test", "Between"])
        #expect(leaf.root === root && leaf.issuer === authority && root.issuer == nil && root.chain.count == 1)
        #expect(try OpenSSLProgram.verify(leaf, "-x509_strict", "-purpose", "sslserver") == "OK")
        #expect(try OpenSSLProgram.verify(leaf, "-verify_hostname", "x.b.test") == "OK")
        #expect(try OpenSSLProgram.verify(leaf, "-verify_hostname", "x.y.b.test") == "hostname mismatch")
        #expect(try OpenSSLProgram.verify(leaf, "-verify_ip", "::1") == "OK")
        #expect(try OpenSSLProgram.verify(leaf, "-verify_ip", "127.0.0.2") == "IP address mismatch")
        #expect(try OpenSSLProgram.verify(leaf, "-purpose", "sslclient").contains("purpose"))
        #expect(try OpenSSLProgram.verify(try root.issue(.client("ada")), "-purpose", "sslclient") == "OK")
    }

    @Test func `a certificate contains the values of its profile`() throws {
        var profile = Profile.server("a.test", "10.1.2.3")
        profile.organization = "Ünïcode & Sons"
        profile.keyUsages = [.digitalSignature, .keyEncipherment, .decipherOnly]
        profile.extendedKeyUsages = [.serverAuth, .clientAuth, .other("1.2.3.4")]
        profile.mustStaple = true
        profile.serialNumber = [0xFF, 0x01]
        profile.notBefore = Date(timeIntervalSince1970: 0)
        profile.notAfter = Date(timeIntervalSince1970: 2_556_144_000)
        profile.otherExtensions = [.init(objectIdentifier: "1.2.3.5", isCritical: true, value: Data([5, 0]))]
        let text = try OpenSSLProgram.text(try TestCertificate.root().issue(profile))
        #expect(text.contains("Version: 3 (0x2)") && text.contains("Serial Number: 65281 (0xff01)"))
        #expect(text.contains("Issuer: CN=Convoy Test Root"))
        #expect(text.contains("Not Before: Jan  1 00:00:00 1970 GMT") && text.contains("Jan  1 00:00:00 2051 GMT"))
        #expect(text.contains("DNS:a.test, IP Address:10.1.2.3"))
        #expect(text.contains("Digital Signature, Key Encipherment, Decipher Only"))
        #expect(text.contains("TLS Web Server Authentication, TLS Web Client Authentication, 1.2.3.4"))
        #expect(text.contains("TLS Feature: \n                status_request"))
        #expect(text.contains("1.2.3.5: critical") && text.contains("CA:FALSE"))
    }

    @Test(arguments: [
        (Profile.Key.ec, "id-ecPublicKey", "NIST CURVE: P-256"), (.ec384, "id-ecPublicKey", "NIST CURVE: P-384"),
        (.rsa(bits: 1024), "rsaEncryption", "(1024 bit)"), (.ed25519, "ED25519", "ED25519 Public-Key"),
    ])
    func `every kind of key can be created and used for signing`(_ key: Profile.Key, name: String, size: String) throws {
        var authority = Profile.authority("Root")
        authority.key = key
        let root = try TestCertificate.root(authority)
        let text = try OpenSSLProgram.text(root)
        #expect(text.contains("Public Key Algorithm: \(name)") && text.contains(size))
        let leaf = try root.issue(.server("a.test"))
        #expect(try OpenSSLProgram.verify(leaf, "-auth_level", "0") == "OK")
    }

    @Test func `weak digests can be used, and impossible profiles are errors`() throws {
        var authority = Profile.authority("Root")
        authority.key = .rsa(bits: 2048)
        let root = try TestCertificate.root(authority)
        for (digest, name) in [
            (Profile.Digest.sha256, "sha256WithRSA"), (.sha384, "sha384WithRSA"), (.sha1, "sha1WithRSA"),
            (.md5, "md5WithRSA"),
        ] {
            var profile = Profile.server("a.test")
            profile.digest = digest
            let leaf = try root.issue(profile)
            #expect(try OpenSSLProgram.text(leaf).contains("Signature Algorithm: \(name)Encryption"))
            #expect(try OpenSSLProgram.verify(leaf, "-auth_level", "0") == "OK")
        }
        var profile = Profile.server("a.test")
        profile.digest = .sha1
        #expect(try OpenSSLProgram.text(try TestCertificate.selfSigned(profile)).contains("ecdsa-with-SHA1"))
        profile.digest = .md5
        #expect(throws: TestCertificateError.self) { try TestCertificate.selfSigned(profile) }
        profile.digest = .sha256
        profile.ipAddresses = ["localhost"]
        #expect(throws: TestCertificateError.invalidAddress("localhost")) { try TestCertificate.selfSigned(profile) }
        profile.ipAddresses = []
        profile.extendedKeyUsages = [.other("1.2.x")]
        #expect(throws: TestCertificateError.invalidObjectIdentifier("1.2.x")) {
            try TestCertificate.selfSigned(profile)
        }
        profile.extendedKeyUsages = nil
        profile.key = .rsa(bits: 8)
        #expect(throws: TestCertificateError.self) { try TestCertificate.selfSigned(profile) }
    }

    @Test func `openssl reports each defect of validity, names, usage and chain`() throws {
        let root = try TestCertificate.root()
        let now = Date()
        func reason(_ arguments: String..., change: (inout Profile) -> Void) throws -> String {
            var profile = Profile.server("a.test")
            change(&profile)
            return try OpenSSLProgram.verify(try root.issue(profile), arguments[0], arguments[1])
        }
        #expect(
            try reason("-purpose", "any") { $0.notAfter = now.addingTimeInterval(-60) } == "certificate has expired")
        #expect(
            try reason("-purpose", "any") { $0.notBefore = now.addingTimeInterval(3600) }
                .hasPrefix("certificate is not yet valid"))
        #expect(try reason("-verify_hostname", "b.test") { _ in } == "hostname mismatch")
        #expect(try reason("-verify_hostname", "a.test") { $0.omitsSubjectAlternativeNames = true } == "OK")
        #expect(try reason("-verify_hostname", "a.test") { $0.dnsNames = [""] } == "hostname mismatch")
        #expect(
            try reason("-verify_hostname", "n99.test") { $0.dnsNames = (0..<100).map { "n\($0).test" } } == "OK")
        #expect(try reason("-verify_hostname", "b.a.test") { $0.dnsNames = ["*.a.test"] } == "OK")
        for pattern in ["*", "*.test.*", "b.*.test", "*.*.test", "b.a.*"] {
            #expect(try reason("-verify_hostname", "b.a.test") { $0.dnsNames = [pattern] } == "hostname mismatch")
        }
        #expect(try reason("-purpose", "sslserver") { $0.extendedKeyUsages = [.clientAuth] }.contains("purpose"))
        #expect(try reason("-auth_level", "1") { $0.key = .rsa(bits: 768) } == "EE certificate key too weak")
        let other = TestCertificate.Extension(objectIdentifier: "1.2.3.5", isCritical: true, value: Data([5, 0]))
        #expect(try reason("-purpose", "any") { $0.otherExtensions = [other] } == "unhandled critical extension")

        let notAuthority = try root.issue(.server("a.test")).issue(.server("b.test"))
        #expect(try OpenSSLProgram.verify(notAuthority).contains("invalid CA certificate"))
        var crooked = Profile.authority("Between")
        crooked.keyUsages = [.digitalSignature]
        let unsigned = try root.issue(crooked).issue(.server("a.test"))
        #expect(try OpenSSLProgram.verify(unsigned) != "OK")
        let tooLong = try root.issue(.authority("A", pathLength: 0)).issue(.authority("B")).issue(.server("a.test"))
        #expect(try OpenSSLProgram.verify(tooLong) == "path length constraint exceeded")
        var link = root
        for number in 1...19 { link = try link.issue(.authority("Authority \(number)")) }
        let deep = try link.issue(.server("a.test"))
        #expect(deep.chain.count == 20)
        #expect(try OpenSSLProgram.verify(deep) == "OK")
        #expect(try OpenSSLProgram.verify(try TestCertificate.selfSigned(), "-verify_hostname", "localhost") == "OK")
    }

    @Test func `an authority can constrain names and networks`() throws {
        var authority = Profile.authority("Root")
        authority.nameConstraints = .init(
            permittedDNSNames: ["test"], excludedDNSNames: ["bad.test"], permittedNetworks: ["10.0.0.0/9", "fd00::/8"],
            excludedNetworks: ["10.1.0.0/16"])
        let root = try TestCertificate.root()
        let between = try root.issue(authority)
        #expect(try OpenSSLProgram.text(between).contains("IP:10.0.0.0/255.128.0.0"))
        #expect(try OpenSSLProgram.verify(try between.issue(.server("a.test", "10.2.0.1", "fd00::1"))) == "OK")
        #expect(try OpenSSLProgram.verify(try between.issue(.server("a.other"))) == "permitted subtree violation")
        #expect(try OpenSSLProgram.verify(try between.issue(.server("x.bad.test"))) == "excluded subtree violation")
        #expect(try OpenSSLProgram.verify(try between.issue(.server("10.1.0.1"))) == "excluded subtree violation")
        #expect(try OpenSSLProgram.verify(try between.issue(.server("10.200.0.1"))) == "permitted subtree violation")
        authority.nameConstraints = .init(permittedNetworks: ["10.0.0.0/33"])
        #expect(throws: TestCertificateError.invalidAddress("10.0.0.0/33")) { try root.issue(authority) }
    }

    @Test func `pins distinguish certificates renewed with the same key from rekeyed ones`() throws {
        let root = try TestCertificate.root()
        let first = try root.issue(.server("a.test"))
        let renewed = try first.reissued(), rekeyed = try first.replacingKey()
        #expect(renewed.publicKeyPin == first.publicKeyPin && renewed.certificatePin != first.certificatePin)
        #expect(rekeyed.publicKeyPin != first.publicKeyPin && rekeyed.profile == first.profile)
        #expect(rekeyed.issuer === root && renewed.issuer === root && renewed.serialNumber != first.serialNumber)
        let key = try OpenSSLProgram.run(
            ["pkey", "-pubout", "-outform", "DER"], input: Data(first.privateKeyPEM.utf8))
        #expect(key.output == first.publicKeyInfo)
        let digest = try OpenSSLProgram.run(["dgst", "-sha256", "-binary"], input: key.output)
        #expect(first.publicKeyPin == "sha256/" + digest.output.base64EncodedString())
        let crossed = try TestCertificate.root(.authority("Other")).issue(root.profile, forKeyOf: root)
        #expect(crossed.publicKeyPin == root.publicKeyPin)
        #expect(try OpenSSLProgram.verify(try crossed.issue(.server("a.test"))) == "OK")
    }

    @Test func `openssl reads the certificate files, the encrypted key and PKCS#12`() throws {
        let leaf = try TestCertificate.root().issue(.authority("Between")).issue(.client("ada"))
        let directory = try TemporaryDirectory()
        let (certificate, key) = try leaf.write(to: directory.url, name: "ada")
        #expect(try String(contentsOf: certificate, encoding: .utf8) == leaf.chainPEM)
        let attributes = try FileManager.default.attributesOfItem(atPath: key.path)
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        try leaf.write(to: directory.url, name: "ada")
        #expect(throws: TestCertificateError.self) { try leaf.write(to: directory.file("none"), name: "ada") }

        let encrypted = Data(try leaf.privateKeyPEM(passphrase: "secret").utf8)
        #expect(String(decoding: encrypted, as: UTF8.self).hasPrefix("-----BEGIN ENCRYPTED PRIVATE KEY"))
        let decrypted = try OpenSSLProgram.run(["pkcs8", "-passin", "pass:secret"], input: encrypted)
        #expect(decrypted.text == leaf.privateKeyPEM)
        #expect(try OpenSSLProgram.run(["pkey", "-passin", "pass:wrong"], input: encrypted).status != 0)

        let store = try directory.write(try leaf.pkcs12(passphrase: "sécret"), to: "ada.p12")
        let read = try OpenSSLProgram.run(["pkcs12", "-in", store.path, "-nodes", "-passin", "pass:sécret"])
        #expect(read.text.components(separatedBy: "BEGIN CERTIFICATE").count == 3)
        #expect(read.text.contains(leaf.pem) && read.text.contains("friendlyName: ada"))
        #expect(read.text.contains(leaf.privateKeyPEM))
        #expect(try OpenSSLProgram.run(["pkcs12", "-in", store.path, "-passin", "pass:wrong"]).status != 0)
    }

    @Test func `openssl verifies the OCSP responses`() throws {
        let root = try TestCertificate.root()
        let leaf = try root.issue(.server("a.test"))
        let directory = try TemporaryDirectory()
        let issuer = try directory.write(Data(root.pem.utf8), to: "root.pem")
        let certificate = try directory.write(Data(leaf.pem.utf8), to: "leaf.pem")
        func check(_ response: Data) throws -> String {
            let file = try directory.write(response, to: "response.der")
            let result = try OpenSSLProgram.run([
                "ocsp", "-respin", file.path, "-CAfile", issuer.path, "-issuer", issuer.path, "-cert", certificate.path,
            ])
            return result.text + result.errorText
        }
        let good = try check(try leaf.ocspResponse())
        #expect(good.contains("Response verify OK") && good.contains("leaf.pem: good"))
        let revoked = try check(try leaf.ocspResponse(status: .revoked))
        #expect(revoked.contains("leaf.pem: revoked") && revoked.contains("Revocation Time"))
        #expect(try check(try leaf.ocspResponse(status: .unknown)).contains("leaf.pem: unknown"))
        let old = try leaf.ocspResponse(
            thisUpdate: Date(timeIntervalSinceNow: -7200), nextUpdate: Date(timeIntervalSinceNow: -3600))
        #expect(try check(old).contains("status expired"))
        #expect(try !check(try leaf.ocspResponse(nextUpdate: nil)).contains("Next Update"))
        var profile = Profile()
        profile.commonName = "Responder"
        profile.extendedKeyUsages = [.ocspSigning]
        #expect(try check(try leaf.ocspResponse(signedBy: root.issue(profile))).contains("Response verify OK"))
        let stranger = try TestCertificate.root(.authority("Stranger"))
        #expect(try check(try leaf.ocspResponse(signedBy: stranger)).contains("Verify Failure"))
    }
}
