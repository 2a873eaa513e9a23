/// Undoes `deflate`: the zlib format (RFC 1950), as RFC 9110 has it, or the bare data (RFC 1951), as many servers do.
///
/// The first two bytes tell which. Those of the zlib format are divisible by 31 as a number, and the first one's low
/// half is 8. Bare data that begins so would be a stored block with padding that is not zero, which no encoder
/// writes. So there is no need to try one and then the other, as others do, and the answer is the same wherever the
/// network cut the data.
///
/// What follows the end of the zlib format is ignored, as browsers do: its checksum has told that the body is whole.
/// Bare data has none, and damage or another coding can look like it for a while. Four bytes may follow it, because
/// some servers send a checksum there all the same; more is an error. So it is with curl.
final class DeflateDecoder: StreamDecoder {
    private static let trailerLimit = 4

    private var firstByte: UInt8?
    private var inflater: Inflater?
    private var isBare = false
    /// How many bytes have followed the end.
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
        // In neither format is one byte enough to end with, or for a byte of output.
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
