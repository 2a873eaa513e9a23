import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// The evaluation table, with real handshakes.
@Suite struct TableOverNetworkTests {
    /// The step between the tested cells of a specimen. Evaluating all cells would take minutes, so each specimen uses
    /// a few, which differ between specimens.
    static let stride = PolicyCell.isWholeAsked ? 1 : 31

    @Test func `an untrusted server receives no byte of a request`() async throws {
        let made = try SpecimenAuthorities()
        let authorities = try made.trusted
        let another = try Certificate(TestCertificate.selfSigned(.server("another.test")))
        var counts = (trusted: 0, refused: 0)
        for (number, specimen) in try Specimens(made: made).all().enumerated() where isReachable(specimen) {
            var tls = TestServer.TLS(specimen.identity)
            tls.sentChain = specimen.rest
            tls.cipherList = "DEFAULT:@SECLEVEL=0"
            let server = try TestServer(tls: tls)
            server.route("/", .text("secret"))
            var expected = (trusted: 0, refused: 0)
            for index in Swift.stride(from: number % Self.stride, to: PolicyCell.all.count, by: Self.stride) {
                let cell = PolicyCell.all[index]
                guard cell.isFor(specimen) else { continue }
                let policy = try cell.policy(for: specimen, another: another, authorities)
                let reason = Expectation(specimen: specimen, cell: cell).reason
                let before = server.statistics
                let outcome = await Outcome(of: server.url("/", host: specimen.host)) { $0.securityPolicy = policy }
                let text = "\(specimen.name), \(cell): \(outcome)"
                #expect(outcome.isRight(reason), "\(text) instead of \(reason as Any)")
                if reason == nil {
                    expected.trusted += 1
                } else {
                    expected.refused += 1
                    #expect(server.statistics.plaintextByteCount == before.plaintextByteCount, "\(text)")
                    #expect(server.statistics.requestCount == before.requestCount, "\(text)")
                    #expect(try outcome.error?.serverCertificates == specimen.sent, "\(text)")
                }
            }
            server.stop()
            #expect(server.requests.count == expected.trusted, "\(specimen.name)")
            counts = (counts.trusted + expected.trusted, counts.refused + expected.refused)
        }
        #expect(counts.trusted > 20 && counts.refused > 20, "\(counts)")
    }

    /// Returns whether the host resolves to a server on 127.0.0.1.
    private func isReachable(_ specimen: Specimen) -> Bool {
        let host = specimen.host.lowercased()
        return specimen.forged == nil && (host == "127.0.0.1" || host.hasSuffix("localhost"))
    }
}
