/// Decodes one coding, step by step.
protocol StreamDecoder: AnyObject {
    /// Whether the body may end after what has been consumed.
    var isComplete: Bool { get }

    /// Decodes as much as fits.
    ///
    /// It stops at the latest when the output is full or the input is used up. If the output was filled, there may be
    /// more of it without more input. Given input and room for output, it consumes or produces at least one byte, or
    /// throws.
    ///
    /// - Parameters:
    ///   - input: the next bytes; empty to get output for which an earlier step had no room.
    ///   - output: not empty.
    func step(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(DecodingFailure) -> DecodingStep
}

/// The bytes that one step of a decoder has consumed and produced.
struct DecodingStep {
    var consumed = 0
    var produced = 0

    static func + (one: DecodingStep, other: DecodingStep) -> DecodingStep {
        DecodingStep(consumed: one.consumed + other.consumed, produced: one.produced + other.produced)
    }
}

extension ContentCoding {
    /// A new decoder for this coding.
    func makeDecoder() throws(DecodingFailure) -> any StreamDecoder {
        switch self {
        case .gzip: try GzipDecoder()
        case .deflate: DeflateDecoder()
        case .brotli: try BrotliDecoder()
        case .zstd: try ZstdDecoder()
        case .unknown: throw DecodingFailure(coding: self, reason: .unknownCoding)
        }
    }
}
