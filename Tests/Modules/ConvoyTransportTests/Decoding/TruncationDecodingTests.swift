import Testing

@testable import ConvoyTransport

/// Tests that truncated bodies are never accepted as complete.
@Suite struct TruncationDecodingTests {
    /// Returns the lengths at which a prefix of a body is a complete body.
    private func completeCounts(_ form: EncodedForm, _ text: [UInt8]) throws -> Set<Int> {
        var count = 0
        var counts: Set = [0]
        for part in try form.parts(text) {
            count += part.count
            counts.insert(count)
        }
        return counts
    }

    @Test(arguments: EncodedForm.allCases, [0, 1, 400])
    func `a body truncated at any byte is incomplete`(form: EncodedForm, length: Int) throws {
        let text = pageLike(length, seed: 3)
        let body = try form.encode(text)
        let complete = try completeCounts(form, text)
        for count in 0...body.count {
            for pieceSize in [1, 3, Int.max] {
                let failure = decodingFailure { () throws(DecodingFailure) in
                    try DecoderProbe(form.codings).decode(Array(body[..<count]), pieceSize: pieceSize)
                }
                #expect(
                    failure?.reason == (complete.contains(count) ? nil : .endsEarly),
                    "\(count) of \(body.count) bytes in pieces of \(pieceSize)")
            }
        }
    }

    @Test(arguments: EncodedForm.allCases)
    func `a large body is incomplete after each byte except the last`(form: EncodedForm) throws {
        let text = pageLike(20_000, seed: 4)
        let body = try form.encode(text)
        let complete = try completeCounts(form, text)
        let probe = try DecoderProbe(form.codings)
        for (index, byte) in body.enumerated() {
            try probe.feed([byte])
            let reason = probe.failureAtFinish?.reason
            #expect(reason == (complete.contains(index + 1) ? nil : .endsEarly), "after \(index + 1) of \(body.count)")
        }
        #expect(probe.output == text)
    }

    @Test func `the error names the outermost incomplete coding`() throws {
        let inner = try Encoders.gzip(pageLike(100, seed: 5))
        let cutInside = try Encoders.brotli(Array(inner.dropLast()))
        let inside = decodingFailure { () throws(DecodingFailure) in
            try DecoderProbe([.gzip, .brotli]).decode(cutInside)
        }
        #expect(inside == DecodingFailure(coding: .gzip, reason: .endsEarly))
        let outside = decodingFailure { () throws(DecodingFailure) in
            try DecoderProbe([.gzip, .brotli]).decode(Array(cutInside.dropLast()))
        }
        #expect(outside == DecodingFailure(coding: .brotli, reason: .endsEarly))
    }

    @Test func `an empty body in one coding is not an empty body in another`() throws {
        let nothing = try Encoders.gzip([])
        let failure = decodingFailure { () throws(DecodingFailure) in
            try DecoderProbe([.brotli, .gzip]).decode(nothing)
        }
        #expect(failure == DecodingFailure(coding: .brotli, reason: .endsEarly))
    }
}
