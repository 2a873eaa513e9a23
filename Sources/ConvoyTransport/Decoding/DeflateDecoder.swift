/// Decodes `deflate`: the zlib format (RFC 1950) that RFC 9110 specifies, or the raw data (RFC 1951) that many servers
/// send.
///
/// The first two bytes tell which. In the zlib format, they form a number that is divisible by 31, and the low half of
/// the first one is 8. Raw data with such a beginning would be a stored block with non-zero padding, which no encoder
/// writes. So there is no need to try one format and then the other, and the result does not depend on how the network
/// splits the data.
///
/// Bytes after the end of the zlib format are ignored, as by browsers: its checksum has shown that the body is
/// complete. Raw data has no checksum, and damaged data or another coding can look like it for a while. Up to four
/// bytes may follow it, because some servers send a checksum nevertheless; more are an error, as for curl.
final class DeflateDecoder: StreamDecoder {
    private static let trailerLimit = 4

    private var firstByte: UInt8?
    private var inflater: Inflater?
    private var isBare = false
    /// How many bytes came after the end.
    private var trailingCount = 0

    var isComplete: Bool { inflater?.hasEnded ?? false }

    func step(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(DecodingFailure) -> DecodingStep {
        if let inflater {
            if inflater.hasEnded { return try skip(input) }
            return try inflater.step(input, into: output)
        }
        guard let next = input.first else { return DecodingStep() }
        guard let firstByte else {
            firstByte = next
            return DecodingStep(consumed: 1)
        }
        isBare = !Self.isZlib(firstByte, next)
        let inflater = try Inflater(isBare ? .none : .zlib, coding: .deflate)
        self.inflater = inflater
        // In neither format can one byte complete the data, or produce output.
        _ = try withUnsafeBytes(of: firstByte) { first throws(DecodingFailure) in
            try inflater.step(first, into: output)
        }
        return try inflater.step(input, into: output)
    }

    private func skip(_ input: UnsafeRawBufferPointer) throws(DecodingFailure) -> DecodingStep {
        trailingCount += input.count
        guard !isBare || trailingCount <= Self.trailerLimit else {
            throw DecodingFailure(coding: .deflate, reason: .corrupt("there are bytes after its end"))
        }
        return DecodingStep(consumed: input.count)
    }

    /// RFC 1950, section 2.2.
    private static func isZlib(_ first: UInt8, _ second: UInt8) -> Bool {
        first & 0x0F == 8 && first >> 4 <= 7 && (Int(first) << 8 | Int(second)) % 31 == 0
    }
}
