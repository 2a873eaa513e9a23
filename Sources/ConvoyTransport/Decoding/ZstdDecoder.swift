import CZstd

/// Undoes `zstd` (RFC 8878): one frame or several in a row, skippable ones among them.
///
/// A window of more than 8 MiB is an error (RFC 9659, section 3), and so is anything else that follows a frame.
final class ZstdDecoder: StreamDecoder {
    private(set) var isComplete = false
    /// What has been consumed of the frame, as far as its header can go.
    private var header: [UInt8] = []
    /// How many bytes the frame has become.
    private var contentCount: UInt64 = 0
    private let context: ZstdContext

    /// RFC 8878, section 3.1.1.
    private static let headerLimit = 18

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
        if header.isEmpty, let first = input.first {
            // The library may have been built to read zstd as it was before its format was settled, too.
            guard first == 0x28 || 0x50...0x5F ~= first else {
                throw DecodingFailure(coding: .zstd, reason: .corrupt("Unknown frame descriptor"))
            }
        }
        // A frame's first byte goes in by itself: where the library sees a frame whole, it is stricter than otherwise,
        // and the same body must not be right or wrong as the network cut it. That costs 0.2 µs.
        let offered = header.isEmpty ? min(1, input.count) : input.count
        var source = ZSTD_inBuffer(src: input.baseAddress, size: offered, pos: 0)
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
        let result = ZSTD_decompressStream(context.pointer, &target, &source)
        if ZSTD_isError(result) != 0 { throw Self.failure(result) }
        header.append(contentsOf: input[..<min(source.pos, Self.headerLimit - header.count)])
        contentCount += UInt64(target.pos)
        if result == 0 {
            // A frame has ended, and all of it has been handed out.
            try verifyContentCount()
            isComplete = true
            header.removeAll(keepingCapacity: true)
            contentCount = 0
        } else if source.pos > 0 {
            isComplete = false
        }
        return DecodingStep(consumed: source.pos, produced: target.pos)
    }

    /// The library compares the length with the one that the header declares, but for a frame whose last block is empty.
    private func verifyContentCount() throws(DecodingFailure) {
        let declared = ZSTD_getFrameContentSize(header, header.count)
        // The greatest two numbers say that there is none, and that this is no header.
        guard declared < UInt64.max - 1, declared != contentCount else { return }
        throw DecodingFailure(
            coding: .zstd, reason: .corrupt("a frame of \(contentCount) bytes declares \(declared)"))
    }

    private static func failure(_ result: Int) -> DecodingFailure {
        if ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation {
            return DecodingFailure(coding: .zstd, reason: .noMemory)
        }
        let words = ZSTD_getErrorName(result).map { String(cString: $0) } ?? "zstd error \(result)"
        return DecodingFailure(coding: .zstd, reason: .corrupt(words))
    }
}
