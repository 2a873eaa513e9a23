import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

/// Random calls of both decoders with random documents, valid and invalid. The values, errors and coding paths must be
/// equal.
///
/// `CONVOY_SEED` repeats a run, and `CONVOY_DECODING` repeats a single case. `CONVOY_DECODINGS` is the number of cases
/// (1,000).
@Suite struct DecodingPropertyTests {
    private static let environment = ProcessInfo.processInfo.environment

    @Test func `random documents decode as in Foundation`() {
        let seed = Self.environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...0xFFFF_FFFF)
        let count = Self.environment["CONVOY_DECODINGS"].flatMap { Int($0) } ?? 1_000
        let numbers = Self.environment["CONVOY_DECODING"].flatMap { Int($0) }.map { [$0] } ?? Array(0..<count)
        var (own, faults, calls) = (0, 0, 0)
        for number in numbers {
            let caseSeed = seed ^ UInt64(number) &* 0x9E37_79B9_7F4A_7C15
            var random = RandomDocument(seed: caseSeed)
            let valid = random.text()
            let isBroken = number % 4 == 3
            let text = Data(isBroken ? random.mutated(valid) : valid)
            let type = DecodingScript.Scripted.self
            let outcome = DecodingScript.run(seed: caseSeed) { try $0.decodePlain(type, from: text, maximumDepth: 512) }
            let expected = DecodingScript.run(seed: caseSeed) { try $0.decode(type, from: text) }
            own += outcome == nil ? 0 : 1
            calls += outcome?.count ?? 0
            // The decoder passes an invalid text to Foundation, unless the text is still valid.
            if (outcome ?? (isBroken ? expected : nil)) == expected, numbers.count > 1 { continue }
            // Foundation reads `0e9` as an integer, but refuses it as a floating-point number.
            if expected?.contains("another error") == true, String(decoding: text, as: UTF8.self).contains(/\b0[eE][0-9]/) {
                continue
            }
            let same = zip(outcome ?? [], expected ?? []).prefix { $0 == $1 }.count
            if (outcome ?? (isBroken ? expected : nil)) != expected { faults += 1 }
            print(
                """
                decoding \(number): \(String(decoding: text, as: UTF8.self))
                \((outcome ?? []).prefix(same).map { "    \($0)" }.joined(separator: "\n"))
                own  \(outcome?.dropFirst(same).first ?? "left to Foundation")
                not  \(expected?.dropFirst(same).first ?? "nothing")
                """)
            if faults > 5 { break }
        }
        print("decodings: \(own) of \(numbers.count) with \(calls) results, CONVOY_SEED=\(seed)")
        #expect(faults == 0, "CONVOY_SEED=\(seed)")
        #expect(numbers.count < 100 || (own > numbers.count / 2 && calls > 4 * own))
    }
}
