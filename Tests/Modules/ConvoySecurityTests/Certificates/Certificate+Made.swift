import ConvoySecurity
import ConvoyTestServer
import Foundation

extension Certificate {
    /// Parses a certificate made by a test.
    init(_ made: TestCertificate) throws(CertificateError) { try self.init(derData: made.derData) }
}

extension ServerTrust {
    /// The trust of a server that sends these certificates.
    init(_ made: TestCertificate...) throws(CertificateError) {
        var certificates: [Certificate] = []
        for one in made { certificates.append(try Certificate(one)) }
        self.init(certificates: certificates)
    }
}
