import CBrotli

/// Decodes `br` (RFC 7932).
///
/// A Brotli stream marks its end, and several cannot be concatenated. Bytes after it are an error, as for curl: no
/// server is known to send any.
///
/// libbrotlidec cannot reset a decoder; a new one costs 0.1 µs. It allocates memory as the data needs it, at most 16
/// MiB for the window.
final class BrotliDecoder: StreamDecoder {
    private(set) var isComplete = false
    private let state: OpaquePointer

    init() throws(DecodingFailure) {
        guard let state = BrotliDecoderCreateInstance(nil, nil, nil) else {
            throw DecodingFailure(coding: .brotli, reason: .noMemory)
        }
        self.state = state
    }

    deinit { BrotliDecoderDestroyInstance(state) }

    func step(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(DecodingFailure) -> DecodingStep {
        if isComplete {
            if input.isEmpty { return DecodingStep() }
            throw DecodingFailure(coding: .brotli, reason: .corrupt("there are bytes after its end"))
        }
        var nextInput = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
        var unused = input.count
        var nextOutput = output.baseAddress?.assumingMemoryBound(to: UInt8.self)
        var room = output.count
        switch BrotliDecoderDecompressStream(state, &unused, &nextInput, &room, &nextOutput, nil) {
        case BROTLI_DECODER_RESULT_SUCCESS: isComplete = true
        case BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT, BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT: break
        default: throw failure
        }
        return DecodingStep(consumed: input.count - unused, produced: output.count - room)
    }

    private var failure: DecodingFailure {
        let code = BrotliDecoderGetErrorCode(state)
        let allocationFailures =
            BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES.rawValue...BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES.rawValue
        if allocationFailures.contains(code.rawValue) { return DecodingFailure(coding: .brotli, reason: .noMemory) }
        let words = BrotliDecoderErrorString(code).map { String(cString: $0) } ?? "Brotli error \(code.rawValue)"
        return DecodingFailure(coding: .brotli, reason: .corrupt(words))
    }
}
