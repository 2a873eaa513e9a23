import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Damaged keys and stores, which cause a specific error and never a crash.
@Suite struct ClientIdentityDamageTests {
    let made: TestCertificate

    init() throws { made = try TestCertificate.root().issue(.client("ada")) }

    /// Returns the error that loading the identity throws; nil on success.
    private func failure(_ identity: ClientIdentity) -> CertificateError? {
        do throws(CertificateError) {
            _ = try identity.certificates()
            return nil
        } catch {
            return error
        }
    }

    @Test func `a key truncated anywhere is reported as damaged or missing`() throws {
        let (certificate, key) = (Data(made.pem.utf8), Data(made.privateKeyPEM.utf8))
        for count in 0..<(key.count - 1) {
            let error = failure(ClientIdentity(certificatePEM: certificate, keyPEM: key.prefix(count)))
            #expect(error == .noKey(file: "") || error == .damagedKey(file: ""), "\(count): \(error as Any)")
        }
        let encoded = made.privateKeyPEM.split(separator: "\n").dropFirst().dropLast().joined()
        let der = try #require(Data(base64Encoded: encoded))
        #expect(failure(ClientIdentity(certificatePEM: certificate, keyPEM: der)) == nil)
        for count in 0..<der.count {
            let error = failure(ClientIdentity(certificatePEM: certificate, keyPEM: der.prefix(count)))
            #expect(error == .noKey(file: "") || error == .damagedKey(file: ""), "\(count): \(error as Any)")
        }
    }

    @Test func `a certificate truncated anywhere is reported as damaged or missing`() {
        let key = Data(made.privateKeyPEM.utf8)
        for count in 0..<(made.pem.utf8.count - 1) {
            let error = failure(ClientIdentity(certificatePEM: Data(made.pem.utf8.prefix(count)), keyPEM: key))
            switch error {
            case .noCertificate?, .damaged?: break
            default: return #expect(Bool(false), "\(count): \(error as Any)")
            }
        }
    }

    @Test func `an encrypted key truncated anywhere cannot be read`() throws {
        let certificate = Data(made.pem.utf8)
        let key = Data(try made.privateKeyPEM(passphrase: "x").utf8)
        // Each attempt derives a key from the passphrase, which takes some time.
        for count in stride(from: 0, to: key.count - 1, by: 7) {
            let error = failure(ClientIdentity(certificatePEM: certificate, keyPEM: key.prefix(count)) { "x" })
            #expect([.noKey(file: ""), .damagedKey(file: ""), .wrongPassphrase(file: "")].contains(error), "\(count)")
        }
    }

    @Test func `a PKCS#12 store truncated anywhere is reported as damaged`() throws {
        let bytes = try made.pkcs12(passphrase: "x")
        for count in 0..<bytes.count {
            let identity = ClientIdentity(pkcs12Data: bytes.prefix(count)) { "x" }
            #expect(failure(identity) == .notPKCS12(file: ""), "\(count)")
        }
    }

    @Test func `a corrupted byte in a PKCS#12 store or a key does not cause a crash`() throws {
        let store = try made.pkcs12(passphrase: "x")
        for index in stride(from: 0, to: store.count, by: 5) {
            var bytes = store
            bytes[index] ^= 0x55
            let error = failure(ClientIdentity(pkcs12Data: bytes) { "x" })
            #expect(error != nil, "byte \(index) does not matter")
        }
        let (certificate, key) = (Data(made.pem.utf8), Data(made.privateKeyPEM.utf8))
        for index in key.indices {
            var bytes = key
            bytes[index] ^= 0x0A
            _ = failure(ClientIdentity(certificatePEM: certificate, keyPEM: bytes))
        }
    }

    @Test(arguments: [
        Data(), Data([0]), Data([0x30]), Data([0x30, 0x80]), Data([0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]),
        Data(repeating: 0x30, count: 10_000), Data("-----BEGIN PRIVATE KEY-----".utf8),
        Data("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----".utf8), Data([0xFF, 0xD8, 0xFF]),
    ])
    func `garbage is reported for the certificate, the key and the store`(garbage: Data) {
        let (certificate, key) = (Data(made.pem.utf8), Data(made.privateKeyPEM.utf8))
        let error = failure(ClientIdentity(certificatePEM: certificate, keyPEM: garbage))
        #expect(error == .noKey(file: "") || error == .damagedKey(file: ""), "\(error as Any)")
        let other = failure(ClientIdentity(certificatePEM: garbage, keyPEM: key))
        #expect(other == .noCertificate(in: ""), "\(other as Any)")
        #expect(failure(ClientIdentity(pkcs12Data: garbage)) == .notPKCS12(file: ""))
    }

    @Test(.enabled(if: OpenSSLServer.isInstalled, "requires \(OpenSSLServer.installHint)"))
    func `a store without a key or a certificate is an error`() throws {
        let directory = try TemporaryDirectory()
        let files = try made.write(to: directory.url, name: "a")
        let make = { (arguments: [String]) in
            try ProcessRunner.run(
                "openssl", ["pkcs12", "-export", "-passout", "pass:x"] + arguments, directory: directory.url
            ).output
        }
        let noKey = try make(["-nokeys", "-in", files.certificate.path])
        #expect(failure(ClientIdentity(pkcs12Data: noKey) { "x" }) == .noKey(file: ""))
        // The store uses legacy ciphers, and the passphrase is correct.
        let old = try make(["-legacy", "-inkey", files.key.path, "-in", files.certificate.path])
        if !old.isEmpty {
            #expect(failure(ClientIdentity(pkcs12Data: old) { "x" }) == .notPKCS12(file: ""))
            #expect(failure(ClientIdentity(pkcs12Data: old) { "y" }) == .wrongPassphrase(file: ""))
        }
        let noCertificate = try make(["-nocerts", "-inkey", files.key.path, "-in", files.key.path])
        #expect(failure(ClientIdentity(pkcs12Data: noCertificate) { "x" }) == .noCertificate(in: ""))
    }
}
