import CZstd

/// Decodes `zstd` (RFC 8878): one or more frames, including skippable ones.
///
/// A window of more than 8 MiB is an error (RFC 9659, section 3), and so is anything but a frame after a frame.
final class ZstdDecoder: StreamDecoder {
    private(set) var isComplete = false
    /// The beginning of the frame: up to the longest possible header.
    private var header: [UInt8] = []
    /// How many bytes were decoded from the frame.
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
            // The library may have been built to read legacy zstd formats too.
            guard first == 0x28 || 0x50...0x5F ~= first else {
                throw DecodingFailure(coding: .zstd, reason: .corrupt("Unknown frame descriptor"))
            }
        }
        // A frame's first byte is passed in separately: the library is stricter if it sees a whole frame at once, and
        // the result must not depend on how the network splits the body. That costs 0.2 µs.
        let offered = header.isEmpty ? min(1, input.count) : input.count
        var source = ZSTD_inBuffer(src: input.baseAddress, size: offered, pos: 0)
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
        let result = ZSTD_decompressStream(context.pointer, &target, &source)
        if ZSTD_isError(result) != 0 { throw Self.failure(result) }
        header.append(contentsOf: input[..<min(source.pos, Self.headerLimit - header.count)])
        contentCount += UInt64(target.pos)
        if result == 0 {
            // A frame has ended, and all of its output was produced.
            try verifyContentCount()
            isComplete = true
            header.removeAll(keepingCapacity: true)
            contentCount = 0
        } else if source.pos > 0 {
            isComplete = false
        }
        return DecodingStep(consumed: source.pos, produced: target.pos)
    }

    /// Compares the length with the one that the header declares. The library does that too, but not for a frame whose
    /// last block is empty.
    private func verifyContentCount() throws(DecodingFailure) {
        let declared = ZSTD_getFrameContentSize(header, header.count)
        // The two largest numbers mean "unknown" and "not a header".
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
