import Foundation
import Testing

@testable import FuzzProgram

/// Passes the stored inputs and thousands of mutated ones to every parser of external bytes. `Tests/long fuzz` does the
/// same with libFuzzer and the address sanitizer.
@Suite struct FuzzTests {
    private static let subjects = FuzzSubject.all + FuzzSubject.ofTool
    private static let names = subjects.map(\.name)

    @Test(arguments: Self.names) func `valid and previously found inputs are parsed or rejected`(
        _ name: String
    ) throws {
        let subject = try #require(Self.subjects.first { $0.name == name })
        for (index, seed) in subject.seeds.enumerated() {
            let finding = subject.finding(seed)
            #expect(finding == nil, "seed \(index): \(finding?.description ?? "")")
        }
        try #require(!subject.kept.isEmpty)
        for bytes in subject.kept {
            let finding = subject.finding(bytes)
            #expect(finding == nil, "\(Data(bytes).base64EncodedString()): \(finding?.description ?? "")")
        }
    }

    @Test(arguments: Self.names) func `randomly mutated inputs are parsed or rejected`(
        _ name: String
    ) throws {
        let subject = try #require(Self.subjects.first { $0.name == name })
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...UInt64(UInt32.max))
        let count = 2000 * (environment["CONVOY_BUDGET"].flatMap { Int($0) } ?? 1)
        var mutator = Mutator(seed: seed)
        var inputs = subject.seeds + subject.kept
        for _ in 0..<count {
            let input = mutator.mutate(
                inputs[mutator.number(below: inputs.count)], with: inputs[mutator.number(below: inputs.count)])
            if let finding = subject.finding(input) {
                Issue.record("\(name), CONVOY_SEED=\(seed): \(finding), of \(Data(input).base64EncodedString())")
                return
            }
            // Mutated inputs are mutated further.
            if inputs.count < 64 { inputs.append(input) } else { inputs[mutator.number(below: 64)] = input }
        }
    }
}
