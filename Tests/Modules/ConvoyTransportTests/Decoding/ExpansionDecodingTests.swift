import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// Tests that decompression bombs are rejected before they take memory or time.
@Suite(.serialized) struct ExpansionDecodingTests {
    private static let size = 64 << 20

    struct Bomb: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let codings: [ContentCoding]
        let body: [UInt8]
    }

    private static let bombs = Result {
        let zeros = [UInt8](repeating: 0, count: size)
        let gzip = try Encoders.gzip(zeros)
        let member = try Encoders.gzip([UInt8](repeating: 0, count: 1 << 20))
        let members = Array(repeating: member, count: 64).flatMap { $0 }
        return try [
            Bomb(testDescription: "gzip", codings: [.gzip], body: gzip),
            Bomb(testDescription: "gzip members", codings: [.gzip], body: members),
            Bomb(
                testDescription: "gzip in gzip in gzip", codings: [.gzip, .gzip, .gzip],
                body: Encoders.gzip(Encoders.gzip(gzip))),
            Bomb(
                testDescription: "deflate", codings: [.deflate], body: Encoders.deflate(zeros, windowBits: -15)),
            Bomb(testDescription: "br", codings: [.brotli], body: Encoders.brotli(zeros, quality: 2)),
            Bomb(testDescription: "zstd", codings: [.zstd], body: Encoders.zstd(zeros)),
            Bomb(
                testDescription: "zstd, window of 8 MiB", codings: [.zstd], body: Encoders.zstd(zeros, windowLog: 23)),
            // The result is empty, because the inner body is a single skippable frame.
            Bomb(
                testDescription: "gzip of a skippable frame", codings: [.zstd, .gzip],
                body: Encoders.gzip(Encoders.skippableFrame(zeros))),
        ]
    }

    @Test func `decoding a bomb in any coding stops after 4 MiB, in bounded memory`() throws {
        for bomb in try Self.bombs.get() {
            // The windows of zstd and Brotli cannot be reduced; the bomb is 64 MiB.
            try expectGrowth(below: 24 << 10, of: bomb) {
                let probe = try DecoderProbe(bomb.codings, limit: 250)
                probe.gathers = false
                let failure = decodingFailure { () throws(DecodingFailure) in try probe.decode(bomb.body) }
                guard case .expandsTooMuch(let encoded, let decoded)? = failure?.reason else {
                    Issue.record("\(bomb.testDescription): \(String(describing: failure))")
                    return
                }
                #expect(decoded > ExpansionLimit.allowance && decoded <= 4 << 20 + ContentDecoder.blockSize)
                #expect(Double(decoded) > 250 * Double(encoded))
                #expect(probe.decoder.decodedByteCount <= 4 << 20 + ContentDecoder.blockSize)
            }
        }
    }

    @Test func `a bomb is decoded in blocks and bounded memory if there is no limit`() throws {
        for bomb in try Self.bombs.get() {
            try expectGrowth(below: 40 << 10, of: bomb) {
                let probe = try DecoderProbe(bomb.codings)
                probe.gathers = false
                probe.refuses = true
                _ = try probe.decode(bomb.body, pieceSize: 16 << 10)
                let isSkipped = bomb.codings.first == .zstd && bomb.codings.count > 1
                #expect(probe.decoder.decodedByteCount == (isSkipped ? 0 : Self.size))
                #expect(probe.blockSizes.allSatisfy { $0 <= ContentDecoder.blockSize })
            }
        }
    }

    /// Expects that decoding a bomb needs less memory than a limit. Uses the minimum of several attempts, because
    /// concurrent tests allocate memory as well.
    private func expectGrowth(below limit: Int, of bomb: Bomb, decode: () throws -> Void) throws {
        var least = Int.max
        for _ in 0..<20 where least >= limit {
            let memory = PeakMemory()
            try decode()
            least = min(least, memory.grownKilobytes)
        }
        #expect(least < limit, "\(bomb.testDescription)")
    }

    // MARK: The limit

    @Test func `a body of 4 MiB passes at any limit, and a larger one does not`() throws {
        let zeros = [UInt8](repeating: 0, count: 4 << 20)
        let forms = EncodedForm.allCases
        let bodies = try forms.map { try $0.encode(zeros) }
        let more = try Encoders.gzip(zeros + [0])
        for limit in [0, 1, -5, -Double.infinity, .nan, 1e-300] {
            for (form, body) in zip(forms, bodies) where form != .gzipStored {
                let probe = try DecoderProbe(form.codings, limit: limit)
                probe.gathers = false
                #expect(throws: Never.self, "\(form)") { try probe.decode(body) }
                #expect(probe.decoder.decodedByteCount == zeros.count)
            }
            let failure = decodingFailure { () throws(DecodingFailure) in
                try DecoderProbe([.gzip], limit: limit).decode(more)
            }
            guard case .expandsTooMuch(_, 4_194_305)? = failure?.reason else {
                Issue.record("\(limit): \(String(describing: failure))")
                continue
            }
        }
        #expect(try DecoderProbe([.gzip], limit: .infinity).decode(try Encoders.gzip(zeros + zeros)).count == 8 << 20)
    }

    @Test(arguments: [EncodedForm.gzip, .brotli, .zstd, .gzipInBrotli])
    func `a body passes at exactly its expansion and fails at a lower limit`(form: EncodedForm) throws {
        let text = [UInt8](repeating: 7, count: 5 << 20) + pageLike(1 << 20, seed: 8)
        let body = try form.encode(text)
        let unlimited = try DecoderProbe(form.codings)
        _ = try unlimited.decode(body)
        let needed = unlimited.greatestExpansion
        #expect(needed > 1)
        #expect(try DecoderProbe(form.codings, limit: needed).decode(body) == text)
        let failure = decodingFailure { () throws(DecodingFailure) in
            try DecoderProbe(form.codings, limit: needed * 0.999).decode(body)
        }
        guard case .expandsTooMuch? = failure?.reason else {
            Issue.record("\(String(describing: failure))")
            return
        }
    }

    @Test func `the limit is based on the encoded bytes read so far, not on all received bytes`() throws {
        // Append an incompressible megabyte to a bomb, which would raise the limit for the bomb by 250 MB.
        let ballast = Array(SplitMix64.bytes(1 << 20, seed: 9))
        let body = try Encoders.gzip([UInt8](repeating: 0, count: 32 << 20)) + Encoders.gzip(ballast)
        let failure = decodingFailure { () throws(DecodingFailure) in
            try DecoderProbe([.gzip], limit: 250).decode(body)
        }
        guard case .expandsTooMuch(let encoded, _)? = failure?.reason else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(encoded < 100_000)
    }

    @Test func `a body is allowed to reach the limit exactly`() {
        let limit = ExpansionLimit(factor: 2.5)
        #expect(!limit.isExceeded(encoded: 2_000_000, decoded: 5_000_000))
        #expect(limit.isExceeded(encoded: 2_000_000, decoded: 5_000_001))
        #expect(!limit.isExceeded(encoded: 0, decoded: 4 << 20))
        #expect(limit.isExceeded(encoded: 0, decoded: 4 << 20 + 1))
        #expect(limit.isExceeded(encoded: 1, decoded: .max))
        #expect(!ExpansionLimit(factor: nil).isExceeded(encoded: 0, decoded: .max))
    }
}

/// The growth of the peak resident memory since a moment.
private struct PeakMemory {
    private let before = ProcessMeters.residentKilobytes
    private let isMeasured: Bool

    init() {
        let isSanitized = ProcessMeters.holdsOnToFreedMemory
        isMeasured = !isSanitized && ProcessMeters.resetPeak()
        if isSanitized { print("memory is not measured: the address sanitizer retains freed memory") }
        if !isSanitized, !isMeasured { print("memory is not measured: the kernel cannot reset the peak") }
    }

    var grownKilobytes: Int { isMeasured ? ProcessMeters.peakResidentKilobytes - before : 0 }
}

extension SplitMix64 {
    fileprivate static func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
        var generator = SplitMix64(seed: seed)
        return Array(generator.data(count: count))
    }
}
