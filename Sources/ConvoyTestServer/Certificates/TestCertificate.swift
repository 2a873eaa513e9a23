import COpenSSL
import Foundation

/// A certificate with its private key, made in memory for a test, right or with any defect.
///
/// ```swift
/// let root = try TestCertificate.root()
/// let certificate = try root.issue(.server("localhost", "127.0.0.1"))
/// let server = try TestServer(tls: TestServer.TLS(certificate))
/// ```
///
/// It does not change and can be used from any thread. The keys protect nothing: they are for tests on one machine.
public final class TestCertificate: Sendable {
    /// What it says.
    public let profile: Profile
    /// The certificate in DER.
    public let derData: Data
    /// The certificate of the key that signed this one; nil if its own did.
    public let issuer: TestCertificate?
    /// The number among those of the issuer, the most significant byte first.
    public let serialNumber: [UInt8]
    /// The name of the subject, in DER.
    let subject: [UInt8]
    let key: CertificateKey

    private init(_ profile: Profile, key: CertificateKey, issuer: TestCertificate?) throws(TestCertificateError) {
        let encoder = try CertificateEncoder(profile, key)
        let issuerKey = issuer?.key ?? key
        let content = try encoder.content(issuer: issuer?.subject ?? encoder.subject, issuerKey: issuerKey)
        derData = Data(try issuerKey.signed(content, profile.digest))
        serialNumber = encoder.serialNumber
        subject = encoder.subject
        self.profile = profile
        self.key = key
        self.issuer = issuer
    }

    /// The certificate of a new authority, signed by its own key.
    ///
    /// - Throws: `TestCertificateError`, if the profile has a text that cannot be encoded, or OpenSSL refuses the key.
    public static func root(
        _ profile: Profile = .authority("Convoy Test Root")
    ) throws(TestCertificateError) -> TestCertificate {
        try TestCertificate(profile, key: CertificateKey(profile.key), issuer: nil)
    }

    /// A certificate that is signed by its own new key, for a server on this machine unless the profile says something
    /// else.
    ///
    /// - Throws: `TestCertificateError`, if the profile has a text that cannot be encoded, or OpenSSL refuses the key.
    public static func selfSigned(
        _ profile: Profile = .server("localhost", "127.0.0.1")
    ) throws(TestCertificateError) -> TestCertificate {
        try TestCertificate(profile, key: CertificateKey(profile.key), issuer: nil)
    }

    /// A new certificate that this one's key signs, whether or not this one is an authority's.
    ///
    /// - Parameters:
    ///   - profile: What it says.
    ///   - owner: The certificate whose key it is for, such as an authority that this one certifies too; nil for a new
    ///     key.
    /// - Throws: `TestCertificateError`, if the profile has a text that cannot be encoded, or OpenSSL refuses the key.
    public func issue(
        _ profile: Profile, forKeyOf owner: TestCertificate? = nil
    ) throws(TestCertificateError) -> TestCertificate {
        let key = if let owner { owner.key } else { try CertificateKey(profile.key) }
        return try TestCertificate(profile, key: key, issuer: self)
    }

    /// A new certificate for the same key, from the same issuer: a renewal, after which a pin of the key still holds.
    ///
    /// - Parameter profile: What it says, except for the kind of the key; nil for the same as this one.
    /// - Throws: `TestCertificateError`.
    public func reissued(_ profile: Profile? = nil) throws(TestCertificateError) -> TestCertificate {
        try TestCertificate(profile ?? self.profile, key: key, issuer: issuer)
    }

    /// A certificate that says the same for a new key, from the same issuer: after this a pin of the key does not hold.
    ///
    /// - Throws: `TestCertificateError`.
    public func replacingKey() throws(TestCertificateError) -> TestCertificate {
        try TestCertificate(profile, key: CertificateKey(profile.key), issuer: issuer)
    }

    /// The authority at the end of the chain; the certificate itself if its own key signed it.
    public var root: TestCertificate {
        var last = self
        while let issuer = last.issuer { last = issuer }
        return last
    }

    /// This certificate and the authorities between it and the root, in the order of a TLS server: each is followed by
    /// its issuer. The root is only in it if it is this certificate.
    public var chain: [TestCertificate] {
        var list = [self]
        var next = issuer
        while let certificate = next, let issuer = certificate.issuer {
            list.append(certificate)
            next = issuer
        }
        return list
    }
}
