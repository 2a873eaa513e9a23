import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

@Suite struct CertificateTests {
    @Test func `bytes that are no certificate are refused`() {
        #expect(throws: CertificateError.notACertificate) { try Certificate(derData: Data([1, 2, 3])) }
    }
}
