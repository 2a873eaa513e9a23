import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// nginx with all certificates of the table, under several policies. Its log shows the requests that it has received.
@Suite(.enabled(if: Nginx.isInstalled, "requires \(Nginx.installHint)"))
struct NginxTrustTests {
    private static let cells: [PolicyCell] = {
        if PolicyCell.isWholeAsked { return PolicyCell.all }
        let leaf = PolicyCell.Pins.parts([.leaf])
        return [
            PolicyCell(), PolicyCell(mode: .publicKey, pins: leaf), PolicyCell(mode: .publicKey, pins: .another),
            PolicyCell(mode: .certificate, pins: leaf, allowsInvalid: true),
            PolicyCell(mode: .publicKey, pins: .parts([.root]), allowsInvalid: true),
            PolicyCell(allowsInvalid: true, validatesName: false),
        ]
    }()

    @Test func `each certificate is evaluated as in the table, and a rejected server receives no request`()
        async throws
    {
        let made = try SpecimenAuthorities()
        let authorities = try made.trusted
        let another = try Certificate(TestCertificate.selfSigned(.server("another.test")))
        let directory = try TemporaryDirectory()
        let specimens = try Specimens(made: made).all().filter { specimen in
            specimen.forged == nil && (specimen.host == "127.0.0.1" || specimen.host == SpecimenAuthorities.host)
        }
        let sites = try specimens.enumerated().map { number, specimen in
            let files = try specimen.identity.write(to: directory.url, name: "\(number)")
            let chain = ([specimen.identity] + specimen.rest).map(\.pem).joined()
            try Data(chain.utf8).write(to: files.certificate)
            return SecureNginx.Site(certificate: files.certificate, key: files.key)
        }
        let nginx = try SecureNginx(sites)
        var expected = specimens.map { _ in 0 }
        for (number, specimen) in specimens.enumerated() {
            let url = try #require(URL(string: "https://\(specimen.host):\(nginx.ports[number])/"))
            for cell in Self.cells where cell.isFor(specimen) {
                let policy = try cell.policy(for: specimen, another: another, authorities)
                let reason = Expectation(specimen: specimen, cell: cell).reason
                let outcome = await Outcome(of: url) { $0.securityPolicy = policy }
                #expect(outcome.isRight(reason), "\(specimen.name), \(cell): \(outcome) instead of \(reason as Any)")
                if reason == nil { expected[number] += 1 }
            }
        }
        try await waitUntil(timeout: 30, "all requests in the log") {
            nginx.requestCounts.reduce(0, +) >= expected.reduce(0, +)
        }
        #expect(nginx.requestCounts == expected)
        #expect(expected.reduce(0, +) > 50 && specimens.count > 40)
    }
}
