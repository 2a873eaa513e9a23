import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// Tests of valid bodies with random damage, and of noise, from a printed seed.
///
/// Runs 5,000 bodies by default. `CONVOY_DECODING_ROUNDS` sets a different number, and `CONVOY_DECODING_SEED` a printed
/// seed.
@Suite struct RandomDamageDecodingTests {
    private static func number(_ name: String) -> UInt64? {
        ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
    }
    private static let rounds = Int(clamping: number("CONVOY_DECODING_ROUNDS") ?? 5_000)
    private static let seed = number("CONVOY_DECODING_SEED") ?? .random(in: 0...UInt64.max)

    private struct Sample {
        let form: EncodedForm
        let text: [UInt8]
        let body: [UInt8]
    }

    private enum Outcome: Equatable {
        case decoded([UInt8])
        case failed(DecodingFailure)

        var isSuccess: Bool {
            if case .decoded = self { true } else { false }
        }
    }

    private func outcome(_ body: [UInt8], _ codings: [ContentCoding], pieceSize: Int) -> Outcome {
        do throws(DecodingFailure) {
            return .decoded(try DecoderProbe(codings, limit: 250).decode(body, pieceSize: pieceSize))
        } catch {
            return .failed(error)
        }
    }

    @Test func `random damage has the same outcome for any division of the body`() throws {
        print("random damage: \(Self.rounds) bodies, seed \(Self.seed)")
        var generator = SplitMix64(seed: Self.seed)
        var samples: [Sample] = []
        for form in EncodedForm.allCases {
            for size in [0, 20, 900, 20_000] {
                let text = pageLike(size, seed: generator.next())
                samples.append(Sample(form: form, text: text, body: try form.encode(text)))
            }
        }
        var successes = 0
        for round in 0..<Self.rounds {
            let sample = samples[Int.random(in: 0..<samples.count, using: &generator)]
            let damaged = damage(sample.body, with: samples, using: &generator)
            let size = Int.random(in: 1...50, using: &generator)
            let whole = outcome(damaged, sample.form.codings, pieceSize: .max)
            let pieces = outcome(damaged, sample.form.codings, pieceSize: size)
            // If there are several errors, either may be detected first.
            let areEqual = whole == pieces || !whole.isSuccess && !pieces.isSuccess
            #expect(areEqual, "round \(round), \(sample.form), pieces of \(size), seed \(Self.seed)")
            if whole.isSuccess { successes += 1 }
        }
        print("random damage: \(successes) of \(Self.rounds) were decoded")
        #expect(successes < Self.rounds)
    }

    @Test func `a body with a checksum never decodes to other bytes after a change`() throws {
        var generator = SplitMix64(seed: Self.seed)
        for form in [EncodedForm.gzip, .gzipStored, .zlib, .gzipInBrotli, .gzipInGzip] {
            let text = pageLike(2_000, seed: generator.next())
            let body = try form.encode(text)
            // Without its header, the zlib format looks like raw data, which has no checksum.
            for index in body.indices.dropFirst(form == .zlib ? 2 : 0) {
                var damaged = body
                damaged[index] ^= UInt8.random(in: 1...255, using: &generator)
                let outcome = outcome(damaged, form.codings, pieceSize: .max)
                // A gzip header has irrelevant bytes, such as the time.
                guard case .decoded(let other) = outcome, other != text else { continue }
                // Adler-32 is so weak that it may stay the same if the distance of a copy changes.
                let isCollision = form == .zlib && Self.adler32(other) == Self.adler32(text)
                #expect(isCollision, "\(form), byte \(index), seed \(Self.seed)")
            }
        }
    }

    /// Returns the Adler-32 checksum of the zlib format (RFC 1950, section 8.2).
    private static func adler32(_ bytes: [UInt8]) -> UInt32 {
        var (sum, sums) = (UInt32(1), UInt32(0))
        for byte in bytes {
            sum = (sum + UInt32(byte)) % 65521
            sums = (sums + sum) % 65521
        }
        return sums << 16 | sum
    }

    private func damage(_ body: [UInt8], with samples: [Sample], using generator: inout SplitMix64) -> [UInt8] {
        func number(_ range: Range<Int>) -> Int { Int.random(in: range, using: &generator) }
        if number(0..<20) == 0 { return Array(generator.data(count: number(0..<300))) }
        var body = body
        for _ in 0..<number(1..<4) where !body.isEmpty {
            // Damage the first bytes more often, because they hold the headers.
            let place = number(0..<2) == 0 ? number(0..<min(24, body.count)) : number(0..<body.count)
            switch number(0..<8) {
            case 0: body[place] = UInt8(truncatingIfNeeded: generator.next())
            case 1, 2: body[place] ^= 1 << UInt8(number(0..<8))
            case 3: body.removeSubrange(place...)
            case 4: body.remove(at: place)
            case 5: body.insert(contentsOf: generator.data(count: number(1..<9)), at: place)
            case 6: body.append(contentsOf: body[place...])
            default: body.append(contentsOf: samples[number(0..<samples.count)].body)
            }
        }
        return body
    }
}
