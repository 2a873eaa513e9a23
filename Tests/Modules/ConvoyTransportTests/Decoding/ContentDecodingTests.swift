import ConvoyTestSupport
import Dispatch
import Synchronization
import Testing

@testable import ConvoyTransport

/// Tests that decoded bytes equal the original ones for any division of the input and any consumer.
@Suite struct ContentDecodingTests {
    private static let small = pageLike(300, seed: 1)
    private static let large = pageLike(700_000, seed: 2)

    @Test(arguments: EncodedForm.allCases)
    func `a body is decoded wherever it is split`(form: EncodedForm) throws {
        let body = try form.encode(Self.small)
        for cut in 0...body.count {
            let probe = try DecoderProbe(form.codings)
            try probe.feed(Array(body[..<cut]))
            try probe.feed(Array(body[cut...]))
            try probe.decoder.finish()
            #expect(probe.output == Self.small, "cut at \(cut)")
            #expect(probe.decoder.encodedByteCount == body.count)
            #expect(probe.decoder.decodedByteCount == Self.small.count)
        }
    }

    @Test(arguments: EncodedForm.allCases)
    func `a body is decoded in pieces of any size`(form: EncodedForm) throws {
        let body = try form.encode(Self.large)
        for size in [100, 1000, 16 << 10, 1 << 20] {
            let probe = try DecoderProbe(form.codings)
            #expect(try probe.decode(body, pieceSize: size) == Self.large, "pieces of \(size)")
            #expect(probe.blockSizes.allSatisfy { 1...ContentDecoder.blockSize ~= $0 })
        }
    }

    @Test(arguments: EncodedForm.allCases)
    func `no bytes and an encoded empty body both decode to an empty body`(form: EncodedForm) throws {
        let nothing = try DecoderProbe(form.codings)
        #expect(try nothing.decode([]).isEmpty)
        try nothing.feed([])
        #expect(nothing.failureAtFinish == nil)

        let empty = try DecoderProbe(form.codings)
        #expect(try empty.decode(try form.encode([]), pieceSize: 1).isEmpty)
        #expect(empty.blockSizes.isEmpty)
    }

    @Test(
        arguments: [
            [.gzip], [.deflate], [.brotli], [.zstd], [.gzip, .brotli], [.zstd, .deflate, .gzip],
        ] as [[ContentCoding]])
    func `flushed data is decoded before the rest arrives`(codings: [ContentCoding]) throws {
        let events = (0..<50).map { pageLike($0 * 37 + 1, seed: UInt64($0)) }
        let pieces = try codings.reduce(events) { try Encoders.flushing($0, $1) }
        let probe = try DecoderProbe(codings)
        for (event, piece) in zip(events, pieces) {
            let before = probe.output.count
            #expect(probe.failureAtFinish?.reason == (before == 0 ? nil : .endsEarly))
            try probe.feed(piece)
            #expect(probe.output[before...].elementsEqual(event))
        }
        try probe.decoder.finish()
        #expect(probe.output == events.flatMap { $0 })
    }

    // MARK: Consuming

    @Test(arguments: EncodedForm.allCases)
    func `a sink that accepts one block per call receives all blocks`(form: EncodedForm) throws {
        let body = try form.encode(Self.large)
        for size in [500, 16 << 10, 1 << 20] {
            let probe = try DecoderProbe(form.codings)
            probe.refuses = true
            var start = 0
            while start < body.count || probe.decoder.hasPending {
                let before = probe.blockSizes.count
                if probe.decoder.hasPending {
                    try probe.resume()
                } else {
                    let end = min(start + size, body.count)
                    try probe.feed(Array(body[start..<end]))
                    start = end
                }
                #expect(probe.blockSizes.count <= before + 1)
            }
            try probe.decoder.finish()
            #expect(probe.output == Self.large)
            #expect(probe.decoder.encodedByteCount == body.count)
        }
    }

    @Test(arguments: EncodedForm.allCases)
    func `new bytes are queued behind pending ones`(form: EncodedForm) throws {
        let body = try form.encode(Self.large)
        let probe = try DecoderProbe(form.codings)
        probe.refuses = true
        let first = body.count * 3 / 4
        try probe.feed(Array(body[..<first]))
        #expect(probe.decoder.hasPending)
        for start in stride(from: first, to: body.count, by: 10_000) {
            try probe.feed(Array(body[start..<min(start + 10_000, body.count)]))
            #expect(probe.blockSizes.count <= 1, "The sink was called although it had suspended delivery.")
            #expect(probe.decoder.encodedByteCount < body.count)
        }
        #expect(probe.decoder.hasPending)
        #expect(probe.failureAtFinish?.reason == .endsEarly)
        probe.refuses = false
        try probe.resume()
        #expect(!probe.decoder.hasPending)
        try probe.decoder.finish()
        #expect(probe.output == Self.large)
    }

    @Test func `a sink that refuses the last block leaves nothing pending`() throws {
        let probe = try DecoderProbe([.gzip])
        probe.refuses = true
        try probe.feed(try Encoders.gzip(Self.small))
        #expect(!probe.decoder.hasPending)
        try probe.resume()
        try probe.decoder.finish()
        #expect(probe.output == Self.small && probe.blockSizes.count == 1)
    }

    @Test(arguments: [true, false])
    func `a sink may feed and resume the decoder that calls it`(refuses: Bool) throws {
        let body = try Encoders.gzip(Self.large)
        let cut = body.count / 2
        let probe = try DecoderProbe([.gzip])
        probe.refuses = refuses
        probe.inSink = { [unowned probe] in
            try probe.feed(Array(body[cut...]))
            try probe.resume()
            #expect(probe.blockSizes.count == 1)
        }
        try probe.feed(Array(body[..<cut]))
        #expect(probe.decoder.hasPending == refuses)
        probe.refuses = false
        try probe.resume()
        try probe.decoder.finish()
        #expect(probe.output == Self.large)
    }

    @Test func `a random order of feeding, refusing and resuming produces the same bytes`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("orders of feeding: seed \(seed)")
        var generator = SplitMix64(seed: seed)
        for round in 0..<60 {
            let form = try #require(EncodedForm.allCases.randomElement(using: &generator))
            let text = pageLike(Int.random(in: 0...200_000, using: &generator), seed: generator.next())
            let body = try form.encode(text)
            let probe = try DecoderProbe(form.codings)
            var start = 0
            while start < body.count || probe.decoder.hasPending {
                probe.refuses = Bool.random(using: &generator)
                if start < body.count, Bool.random(using: &generator) {
                    let end = min(start + Int.random(in: 0...40_000, using: &generator), body.count)
                    try probe.feed(Array(body[start..<end]))
                    start = end
                } else {
                    try probe.resume()
                }
            }
            try probe.decoder.finish()
            #expect(probe.output == text, "round \(round), \(form), seed \(seed)")
        }
    }

    @Test func `decoders on several threads share no state`() throws {
        let texts = (0..<8).map { pageLike(5_000 * ($0 + 1), seed: UInt64($0)) }
        let bodies = try texts.map { try Encoders.zstd($0) }
        let wrong = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 400) { round in
            let index = round % bodies.count
            // Some decoders stop halfway, with an unfinished state.
            let isCut = round % 3 == 0
            let body = isCut ? Array(bodies[index].dropLast(20)) : bodies[index]
            let probe = try? DecoderProbe([.zstd])
            let output = try? probe?.decode(body, pieceSize: 700)
            if output != (isCut ? nil : texts[index]) { wrong.add(1, ordering: .relaxed) }
        }
        #expect(wrong.load(ordering: .relaxed) == 0)
    }

    // MARK: Codings

    @Test func `unknown codings, too many codings and an empty list are errors`() throws {
        #expect(try DecoderProbe(Array(repeating: .gzip, count: 5)).decode([]).isEmpty)
        #expect(
            decodingFailure { () throws(DecodingFailure) in
                try DecoderProbe(Array(repeating: .gzip, count: 6))
            }?.reason == .tooManyLayers(6))
        for codings in [[], [.unknown("pack200-gzip")], [.gzip, .unknown("compress")]] as [[ContentCoding]] {
            let failure = decodingFailure { () throws(DecodingFailure) in try DecoderProbe(codings) }
            #expect(failure?.reason == .unknownCoding)
        }
    }

    @Test func `a failure describes its cause`() {
        let reasons: [DecodingFailure.Reason] = [
            .corrupt("incorrect data check"), .endsEarly, .expandsTooMuch(encoded: 12, decoded: 34), .tooManyLayers(9),
            .unknownCoding, .noMemory,
        ]
        let words = ["incorrect data check", "incomplete", "produced 34", "9 content codings", "Unsupported", "memory"]
        for (reason, words) in zip(reasons, words) {
            #expect(DecodingFailure(coding: .gzip, reason: reason).description.contains(words))
        }
    }
}
