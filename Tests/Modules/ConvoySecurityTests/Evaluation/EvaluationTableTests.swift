import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// Compares the decision on every specimen under every policy with an independent expectation. Without
/// `CONVOY_TRUST_TABLE=whole`, each specimen uses a part of the policies, which differs between specimens.
@Suite struct EvaluationTableTests {
    private static let stride = PolicyCell.isWholeAsked ? 1 : 7

    @Test func `the cells of the table have the expected decisions`() throws {
        let made = try SpecimenAuthorities()
        let authorities = try made.trusted
        let another = try Certificate(TestCertificate.selfSigned(.server("another.test")))
        var count = 0
        for (number, specimen) in try Specimens(made: made).all().enumerated() {
            let trust = ServerTrust(certificates: try specimen.sent)
            for index in Swift.stride(from: number % Self.stride, to: PolicyCell.all.count, by: Self.stride) {
                let cell = PolicyCell.all[index]
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
        #expect(count >= 10_000 / Self.stride)
    }
}
