import CZstd
import ConvoySupport

/// zstd's state, reused for one body after another.
///
/// For a body of 2 kB, making a new one takes 15 of 18 µs: it takes 96 KB, which the system has to zero. Those of zlib
/// and Brotli cost 0.1 µs, and are not reused.
struct ZstdContext: @unchecked Sendable {
    // Owned by one decoder, or by `idle`.
    let pointer: OpaquePointer

    private static let idle = Locked<[ZstdContext]>([])
    /// With `memoryLimit` for each, at most 2 MiB are kept.
    private static let idleLimit = 8
    private static let memoryLimit = 256 << 10
    /// The logarithm: 2 to the power of 23 is 8 MiB.
    private static let windowLimit: Int32 = 23

    /// An idle or new context, ready for a body; nil if there is no memory.
    static func idleOrNew() -> ZstdContext? {
        if let context = idle.withLock({ $0.popLast() }) { return context }
        guard let pointer = ZSTD_createDCtx() else { return nil }
        guard ZSTD_isError(ZSTD_DCtx_setParameter(pointer, ZSTD_d_windowLogMax, windowLimit)) == 0 else {
            ZSTD_freeDCtx(pointer)
            return nil
        }
        return ZstdContext(pointer: pointer)
    }

    /// Gives the context back, wherever its decoder stopped.
    func giveBack() {
        // Large windows are rare, and not worth keeping.
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
