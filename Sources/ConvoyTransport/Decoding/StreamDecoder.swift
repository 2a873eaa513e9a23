/// Undoes one coding, step by step.
protocol StreamDecoder: AnyObject {
    /// Whether the body may end after what has been consumed.
    var isComplete: Bool { get }

    /// Decodes what fits.
    ///
    /// It stops when the output is full or the input used up, at the latest. Where the output was filled, there may be
    /// more of it without more input. With input and room for output, it gets on with at least one of them, or throws.
    ///
    /// - Parameters:
    ///   - input: what comes next; empty to ask for what an earlier step had no room for.
    ///   - output: not empty.
    func step(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(DecodingFailure) -> DecodingStep
}

/// How far one step of a decoder has got, in bytes.
struct DecodingStep {
    var consumed = 0
    var produced = 0

    static func + (one: DecodingStep, other: DecodingStep) -> DecodingStep {
        DecodingStep(consumed: one.consumed + other.consumed, produced: one.produced + other.produced)
    }
}

extension ContentCoding {
    /// What undoes this coding, at the start of a body.
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
