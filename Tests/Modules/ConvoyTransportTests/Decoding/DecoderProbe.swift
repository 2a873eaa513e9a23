import ConvoyTestSupport

@testable import ConvoyTransport

/// A decoder with a sink that collects the bytes and can suspend delivery after each block.
final class DecoderProbe {
    let decoder: ContentDecoder
    private(set) var output: [UInt8] = []
    private(set) var blockSizes: [Int] = []
    /// The greatest expansion at the end of a block after the allowance.
    private(set) var greatestExpansion = 0.0
    var refuses = false
    var gathers = true
    /// A closure that the sink calls once.
    var inSink: (() throws -> Void)?

    init(_ codings: [ContentCoding], limit: Double? = nil) throws(DecodingFailure) {
        decoder = try ContentDecoder(codings, maximumExpansion: limit)
    }

    func feed(_ bytes: [UInt8]) throws(DecodingFailure) {
        try bytes.withUnsafeBufferPointer { bytes throws(DecodingFailure) in
            try decoder.decode(UnsafeRawBufferPointer(bytes), into: take)
        }
    }

    func resume() throws(DecodingFailure) { try decoder.resume(into: take) }

    /// Decodes in pieces, resuming until nothing is pending, and finishes.
    func decode(_ bytes: [UInt8], pieceSize: Int = .max) throws(DecodingFailure) -> [UInt8] {
        var start = 0
        while start < bytes.count {
            let end = start + min(pieceSize, bytes.count - start)
            try feed(Array(bytes[start..<end]))
            while decoder.hasPending { try resume() }
            start = end
        }
        try decoder.finish()
        return output
    }

    /// The error that `finish` throws now.
    var failureAtFinish: DecodingFailure? {
        do throws(DecodingFailure) {
            try decoder.finish()
            return nil
        } catch {
            return error
        }
    }

    private func take(_ block: UnsafeRawBufferPointer) -> Bool {
        blockSizes.append(block.count)
        if gathers { output.append(contentsOf: block) }
        if decoder.decodedByteCount > ExpansionLimit.allowance {
            let expansion = Double(decoder.decodedByteCount) / Double(decoder.encodedByteCount)
            greatestExpansion = max(greatestExpansion, expansion)
        }
        if let inSink {
            self.inSink = nil
            do { try inSink() } catch { output.append(contentsOf: Array("\(error)".utf8)) }
        }
        return !refuses
    }
}

/// Returns the error of a call that should throw; nil if it does not.
func decodingFailure(_ body: () throws(DecodingFailure) -> some Any) -> DecodingFailure? {
    do throws(DecodingFailure) {
        _ = try body()
        return nil
    } catch {
        return error
    }
}

/// Returns text that compresses about as well as a web page, determined by the seed.
func pageLike(_ count: Int, seed: UInt64) -> [UInt8] {
    var generator = SplitMix64(seed: seed)
    let words = (0..<64).map { _ in
        let length = Int.random(in: 2..<12, using: &generator)
        return (0..<length).map { _ in UInt8.random(in: 97...122, using: &generator) } + [32]
    }
    var bytes: [UInt8] = []
    while bytes.count < count {
        bytes.append(contentsOf: words[Int.random(in: 0..<words.count, using: &generator)])
        if Int.random(in: 0..<9, using: &generator) == 0 { bytes.append(.random(in: .min ... .max, using: &generator)) }
    }
    return Array(bytes.prefix(count))
}
