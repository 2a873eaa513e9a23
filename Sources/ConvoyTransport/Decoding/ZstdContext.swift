import CZstd
import ConvoySupport

/// zstd's state, used for one body after the other.
///
/// Measured with a body of 2 kB, a new one costs 15 of 18 µs: it takes 96 KB, which the system has to clear. zlib's
/// and Brotli's cost 0.1 µs, and are not kept.
struct ZstdContext: @unchecked Sendable {
    // Belongs to one decoder, or to the idle ones.
    let pointer: OpaquePointer

    private static let idle = Locked<[ZstdContext]>([])
    /// With the limit of memory for each, 2 MiB are kept at most.
    private static let idleLimit = 8
    private static let memoryLimit = 256 << 10
    /// Two to the power of 23 is 8 MiB.
    private static let windowLimit: Int32 = 23

    /// One that nobody uses, ready for a body; nil where the system has no memory.
    static func idleOrNew() -> ZstdContext? {
        if let context = idle.withLock({ $0.popLast() }) { return context }
        guard let pointer = ZSTD_createDCtx() else { return nil }
        guard ZSTD_isError(ZSTD_DCtx_setParameter(pointer, ZSTD_d_windowLogMax, windowLimit)) == 0 else {
            ZSTD_freeDCtx(pointer)
            return nil
        }
        return ZstdContext(pointer: pointer)
    }

    /// The decoder is done with it, wherever it stopped.
    func giveBack() {
        // A great window is rare, and not worth holding on to.
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
