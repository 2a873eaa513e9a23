import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// Compares the decision on every specimen under every policy with an independent expectation.
@Suite struct EvaluationTableTests {
    @Test func `every cell of the table has the expected decision`() throws {
        let made = try SpecimenAuthorities()
        let authorities = try made.trusted
        let another = try Certificate(TestCertificate.selfSigned(.server("another.test")))
        var count = 0
        for specimen in try Specimens(made: made).all() {
            let trust = ServerTrust(certificates: try specimen.sent)
            for cell in PolicyCell.all {
                guard cell.isFor(specimen) else { continue }
                let policy = try cell.policy(for: specimen, another: another, authorities)
                let decision = policy.evaluate(trust, forDomain: specimen.host)
                let expected = Expectation(specimen: specimen, cell: cell).reason
                let isRight = decision.failure?.reason == expected && decision.isTrusted == (expected == nil)
                if !isRight || decision.failure?.description.isEmpty == true {
                    Issue.record("\(specimen.name), \(cell): \(decision.failure as Any) instead of \(expected as Any)")
                }
                count += 1
            }
        }
        #expect(count >= 10_000)
    }
}
