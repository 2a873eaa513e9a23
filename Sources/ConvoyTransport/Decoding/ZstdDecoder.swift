import CZstd

/// Undoes `zstd` (RFC 8878): one frame or several in a row, skippable ones among them.
///
/// A window of more than 8 MiB is an error (RFC 9659, section 3), and so is anything else that follows a frame.
final class ZstdDecoder: StreamDecoder {
    private(set) var isComplete = false
    private var isAtStartOfFrame = true
    private let context: ZstdContext

    init() throws(DecodingFailure) {
        guard let context = ZstdContext.idleOrNew() else {
            throw DecodingFailure(coding: .zstd, reason: .noMemory)
        }
        self.context = context
    }

    deinit { context.giveBack() }

    func step(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(DecodingFailure) -> DecodingStep {
        if isAtStartOfFrame, let first = input.first {
            // The library may have been built to read zstd as it was before its format was settled, too.
            guard first == 0x28 || 0x50...0x5F ~= first else {
                throw DecodingFailure(coding: .zstd, reason: .corrupt("Unknown frame descriptor"))
            }
        }
        var source = ZSTD_inBuffer(src: input.baseAddress, size: input.count, pos: 0)
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
        let result = ZSTD_decompressStream(context.pointer, &target, &source)
        if ZSTD_isError(result) != 0 { throw Self.failure(result) }
        if result == 0 {
            // A frame has ended, and all of it has been handed out.
            isComplete = true
            isAtStartOfFrame = true
        } else if source.pos > 0 {
            isComplete = false
            isAtStartOfFrame = false
        }
        return DecodingStep(consumed: source.pos, produced: target.pos)
    }

    private static func failure(_ result: Int) -> DecodingFailure {
        if ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation {
            return DecodingFailure(coding: .zstd, reason: .noMemory)
        }
        let words = ZSTD_getErrorName(result).map { String(cString: $0) } ?? "zstd error \(result)"
        return DecodingFailure(coding: .zstd, reason: .corrupt(words))
    }
}
