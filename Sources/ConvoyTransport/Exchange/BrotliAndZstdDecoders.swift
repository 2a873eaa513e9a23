import CBrotli
import CZstd
import ConvoySupport

/// A decoder of `zstd` (RFC 8878): one or more frames, including skippable ones.
///
/// A window larger than 8 MiB is an error (RFC 9659, section 3), as is anything other than a frame after a frame.
final class ZstdDecoder: StreamDecoder {
    private(set) var isComplete = false
    /// The beginning of the frame, up to the length of the longest possible header.
    private var header: [UInt8] = []
    /// The number of bytes decoded from the frame.
    private var contentCount: UInt64 = 0
    private let context: ZstdContext

    /// The maximum length of a frame header (RFC 8878, section 3.1.1).
    private static let headerLimit = 18
    /// The end of the descriptor, after the magic number: the last byte that can make a header invalid.
    private static let descriptorEnd = 5

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
        // The library may have been built with support for formats from before the standard, and searches its current
        // input for them, even if that begins in the middle of a header that it rejects.
        for (index, byte) in zip(header.count..<max(header.count, Self.descriptorEnd), input) {
            guard isExpected(byte, at: index, behind: header.first ?? input[0]) else {
                throw DecodingFailure(coding: .zstd, reason: .corrupt("Unknown frame descriptor"))
            }
        }
        // Pass in a frame's first byte separately. The library is stricter if it receives an entire frame at once, but
        // the result must not depend on how the network splits the body. This costs 0.2 µs.
        let offered = header.isEmpty ? min(1, input.count) : input.count
        var source = ZSTD_inBuffer(src: input.baseAddress, size: offered, pos: 0)
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
        let result = ZSTD_decompressStream(context.pointer, &target, &source)
        if ZSTD_isError(result) != 0 { throw Self.failure(result) }
        header.append(contentsOf: input[..<min(source.pos, Self.headerLimit - header.count)])
        contentCount += UInt64(target.pos)
        if result == 0 {
            // The frame has ended, and all of its output was produced.
            try verifyContentCount()
            isComplete = true
            header.removeAll(keepingCapacity: true)
            contentCount = 0
        } else if source.pos > 0 {
            isComplete = false
        }
        return DecodingStep(consumed: source.pos, produced: target.pos)
    }

    /// Returns whether a frame, skippable or not, that begins with `first` may have this byte at the index (RFC 8878,
    /// sections 3.1.1 and 3.1.2).
    private func isExpected(_ byte: UInt8, at index: Int, behind first: UInt8) -> Bool {
        let isSkippable = first & 0xF0 == 0x50
        return switch index {
        case 0: byte == 0x28 || isSkippable
        case 1: byte == (isSkippable ? 0x2A : 0xB5)
        case 2: byte == (isSkippable ? 0x4D : 0x2F)
        case 3: byte == (isSkippable ? 0x18 : 0xFD)
        // The reserved bit must be 0.
        default: isSkippable || byte & 0x08 == 0
        }
    }

    /// Compares the decoded length with the length that the header declares. The library does the same, except for a
    /// frame whose last block is empty.
    private func verifyContentCount() throws(DecodingFailure) {
        let declared = ZSTD_getFrameContentSize(header, header.count)
        // libzstd returns the two largest numbers for an unknown length and for bytes that are not a header.
        guard declared < UInt64.max - 1, declared != contentCount else { return }
        throw DecodingFailure(
            coding: .zstd, reason: .corrupt("a frame declares \(declared) bytes but has \(contentCount)"))
    }

    private static func failure(_ result: Int) -> DecodingFailure {
        if ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation {
            return DecodingFailure(coding: .zstd, reason: .noMemory)
        }
        let words = ZSTD_getErrorName(result).map { String(cString: $0) } ?? "zstd error \(result)"
        return DecodingFailure(coding: .zstd, reason: .corrupt(words))
    }
}

/// A zstd context, reused for successive bodies.
///
/// For a body of 2 kB, creating a context takes 15 of 18 µs, because it has 96 KB that the system must zero. The
/// contexts of zlib and Brotli take 0.1 µs, and are not reused.
struct ZstdContext: @unchecked Sendable {
    // The pointer is owned by one decoder, or by `idle`.
    let pointer: OpaquePointer

    private static let idle = Locked<[ZstdContext]>([])
    /// The maximum number of idle contexts. With `memoryLimit` for each, they use at most 2 MiB.
    private static let idleLimit = 8
    private static let memoryLimit = 256 << 10
    /// The base-2 logarithm of the window size: 23 for 8 MiB.
    private static let windowLimit: Int32 = 23

    /// Returns an idle or new context, ready for a body; nil if there is not enough memory.
    static func idleOrNew() -> ZstdContext? {
        if let context = idle.withLock({ $0.popLast() }) { return context }
        guard let pointer = ZSTD_createDCtx() else { return nil }
        guard ZSTD_isError(ZSTD_DCtx_setParameter(pointer, ZSTD_d_windowLogMax, windowLimit)) == 0 else {
            ZSTD_freeDCtx(pointer)
            return nil
        }
        return ZstdContext(pointer: pointer)
    }

    /// Gives the context back for reuse, wherever its decoder stopped.
    func giveBack() {
        // Large windows are rare and not worth keeping.
        let isKept =
            ZSTD_sizeof_DCtx(pointer) <= Self.memoryLimit
            && ZSTD_isError(ZSTD_DCtx_reset(pointer, ZSTD_reset_session_only)) == 0
            && Self.idle.withLock { idle in
                guard idle.count < Self.idleLimit else { return false }
                idle.append(self)
                return true
            }
        if !isKept { ZSTD_freeDCtx(pointer) }
    }
}

/// A decoder of `br` (RFC 7932).
///
/// A Brotli stream marks its end, and streams cannot be concatenated. Bytes after the end are an error, as in curl; no
/// server is known to send any.
///
/// libbrotlidec cannot reset a decoder; creating one takes 0.1 µs. It allocates memory as needed, at most 16 MiB for
/// the window.
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
            throw DecodingFailure(coding: .brotli, reason: .corrupt("trailing data"))
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
