import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The client's certificate and key, in all supported forms.
@Suite struct ClientIdentityTests {
    let made: TestCertificate
    let directory: TemporaryDirectory
    var chain: [Certificate] { get throws { try made.chain.map { try Certificate($0) } } }

    init() throws {
        made = try TestCertificate.root().issue(.authority("Between")).issue(.client("ada"))
        directory = try TemporaryDirectory()
    }

    private func data(_ text: String) -> Data { Data(text.utf8) }

    @Test func `a PEM certificate and key can be in one file or in two`() throws {
        let whole = data(made.chainPEM + made.privateKeyPEM)
        #expect(try ClientIdentity(certificatePEM: whole).certificates() == chain)
        #expect(try ClientIdentity(certificatePEM: data(made.privateKeyPEM + made.chainPEM)).certificates() == chain)
        #expect(
            try ClientIdentity(certificatePEM: data(made.chainPEM), keyPEM: data(made.privateKeyPEM)).certificates()
                == chain
        )
        let one = try directory.write(whole, to: "one.pem")
        #expect(try ClientIdentity(certificate: one).certificates() == chain)
        let files = try made.write(to: directory.url, name: "two")
        #expect(try ClientIdentity(certificate: files.certificate, key: files.key).certificates() == chain)
    }

    @Test(arguments: [TestCertificate.Profile.Key.ec384, .rsa(bits: 1024), .ed25519])
    func `keys of all types are accepted`(key: TestCertificate.Profile.Key) throws {
        var profile = TestCertificate.Profile.client("ada")
        profile.key = key
        let made = try TestCertificate.selfSigned(profile)
        let identity = ClientIdentity(certificatePEM: data(made.pem + made.privateKeyPEM))
        #expect(try identity.certificates() == [Certificate(made)])
    }

    @Test(.enabled(if: OpenSSLServer.isInstalled, "requires \(OpenSSLServer.installHint)"))
    func `keys can be DER or traditional PEM, with and without a passphrase`() throws {
        let input = data(made.privateKeyPEM)
        let run = { (arguments: String...) in try ProcessRunner.run("openssl", arguments, input: input).output }
        for der in [try run("pkey", "-outform", "der"), try run("ec", "-outform", "der")] {
            #expect(try ClientIdentity(certificatePEM: made.derData, keyPEM: der).certificates() == [Certificate(made)])
        }
        let certificate = data(made.pem)
        let withParameters = try run("ec", "-param_out") + input
        #expect(try ClientIdentity(certificatePEM: certificate, keyPEM: withParameters).certificates().count == 1)
        let old = try run("ec", "-aes128", "-passout", "pass:secret")
        #expect(String(decoding: old, as: UTF8.self).contains("Proc-Type: 4,ENCRYPTED"))
        #expect(try ClientIdentity(certificatePEM: certificate, keyPEM: old) { "secret" }.certificates().count == 1)
        #expect(throws: CertificateError.wrongPassphrase(file: "")) {
            try ClientIdentity(certificatePEM: certificate, keyPEM: old) { "wrong" }.certificates()
        }
    }

    @Test func `an encrypted key needs its passphrase`() throws {
        let certificate = data(made.pem)
        let key = try directory.write(data(made.privateKeyPEM(passphrase: "sécret")), to: "k")
        let file = try directory.write(certificate, to: "c")
        #expect(try ClientIdentity(certificate: file, key: key) { "sécret" }.certificates() == [Certificate(made)])
        for wrong in ["", "secret", "sécret ", String(repeating: "x", count: 5_000)] {
            #expect(throws: CertificateError.wrongPassphrase(file: key.path)) {
                try ClientIdentity(certificate: file, key: key) { wrong }.certificates()
            }
        }
        #expect(throws: CertificateError.wrongPassphrase(file: key.path)) {
            try ClientIdentity(certificate: file, key: key).certificates()
        }
        struct Nobody: LocalizedError { var errorDescription: String? { "the user is absent" } }
        #expect(throws: CertificateError.noPassphrase(reason: "the user is absent")) {
            try ClientIdentity(certificate: file, key: key) { throw Nobody() }.certificates()
        }
    }

    @Test func `no passphrase is requested for an unencrypted key`() throws {
        let ask: ClientIdentity.Passphrase = {
            Issue.record("the passphrase was requested")
            return ""
        }
        let whole = data(made.pem + made.privateKeyPEM)
        #expect(try ClientIdentity(certificatePEM: whole, passphrase: ask).certificates().count == 1)
        let open = try made.pkcs12(passphrase: "")
        #expect(try ClientIdentity(pkcs12Data: open, passphrase: ask).certificates() == chain)
    }

    @Test func `a PKCS#12 store can be opened with or without a passphrase`() throws {
        let bytes = try made.pkcs12(passphrase: "secret")
        let file = try directory.write(bytes, to: "a.p12")
        #expect(try ClientIdentity(pkcs12: file) { "secret" }.certificates() == chain)
        #expect(try ClientIdentity(pkcs12Data: bytes) { "secret" }.certificates() == chain)
        #expect(try ClientIdentity(pkcs12Data: made.pkcs12(passphrase: "")).certificates() == chain)
        for wrong in ["", "Secret"] {
            #expect(throws: CertificateError.wrongPassphrase(file: file.path)) {
                try ClientIdentity(pkcs12: file) { wrong }.certificates()
            }
        }
        #expect(throws: CertificateError.wrongPassphrase(file: file.path)) {
            try ClientIdentity(pkcs12: file).certificates()
        }
        #expect(throws: CertificateError.noPassphrase(reason: "\(CancellationError().localizedDescription)")) {
            try ClientIdentity(pkcs12: file) { throw CancellationError() }.certificates()
        }
    }

    @Test func `a key that does not match the certificate is rejected`() throws {
        let other = try TestCertificate.selfSigned()
        #expect(throws: CertificateError.keyOfAnotherCertificate) {
            try ClientIdentity(certificatePEM: data(made.pem), keyPEM: data(other.privateKeyPEM)).certificates()
        }
        // The certificate that belongs to the key must come first.
        #expect(throws: CertificateError.keyOfAnotherCertificate) {
            try ClientIdentity(certificatePEM: data(other.pem + made.pem + made.privateKeyPEM)).certificates()
        }
        var profile = TestCertificate.Profile.client("x")
        profile.key = .rsa(bits: 1024)
        let rsa = try TestCertificate.selfSigned(profile)
        #expect(throws: CertificateError.keyOfAnotherCertificate) {
            try ClientIdentity(certificatePEM: data(made.pem), keyPEM: data(rsa.privateKeyPEM)).certificates()
        }
    }

    @Test func `the error for a missing file contains its name`() throws {
        let certificate = try directory.write(data(made.pem), to: "c.pem")
        let missing = directory.file("missing")
        let reason = "No such file or directory"
        #expect(throws: CertificateError.unreadable(file: missing.path, reason: reason)) {
            try ClientIdentity(certificate: certificate, key: missing).certificates()
        }
        #expect(throws: CertificateError.unreadable(file: missing.path, reason: reason)) {
            try ClientIdentity(certificate: missing, key: certificate).certificates()
        }
        #expect(throws: CertificateError.unreadable(file: missing.path, reason: reason)) {
            try ClientIdentity(pkcs12: missing).certificates()
        }
        #expect(throws: CertificateError.noKey(file: certificate.path)) {
            try ClientIdentity(certificate: certificate).certificates()
        }
        #expect(throws: CertificateError.noCertificate(in: "")) {
            try ClientIdentity(certificatePEM: data(made.privateKeyPEM)).certificates()
        }
        #expect(throws: CertificateError.notPKCS12(file: certificate.path)) {
            try ClientIdentity(pkcs12: certificate).certificates()
        }
    }

    @Test func `identities are equal if they are the same object`() {
        let (first, second) = (ClientIdentity(certificatePEM: Data()), ClientIdentity(certificatePEM: Data()))
        #expect(first == first && first != second && Set([first, second, first]).count == 2)
    }
}
