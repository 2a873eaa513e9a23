import ConvoySecurity
import ConvoyTestServer
import Foundation

extension Certificate {
    /// What a test has made, as the library reads it.
    init(_ made: TestCertificate) throws(CertificateError) { try self.init(derData: made.derData) }
}

extension ServerTrust {
    /// What a server presents that sends these.
    init(_ made: TestCertificate...) throws(CertificateError) {
        var certificates: [Certificate] = []
        for one in made { certificates.append(try Certificate(one)) }
        self.init(certificates: certificates)
    }
}
