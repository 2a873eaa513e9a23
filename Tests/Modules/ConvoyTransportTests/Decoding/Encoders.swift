import CBrotliEncoder
import CZlib
import CZstd
import Foundation
import Testing

/// One-shot encoders of zlib, Brotli and zstd.
enum Encoders {
    /// - Parameter windowBits: The value for zlib: 31 for gzip, 15 for the zlib format, -15 for raw data.
    static func deflate(_ bytes: [UInt8], windowBits: Int32, level: Int32 = 6) throws -> [UInt8] {
        var stream = z_stream()
        try #require(
            deflateInit2_(
                &stream, level, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                Int32(MemoryLayout<z_stream>.size)) == Z_OK)
        defer { deflateEnd(&stream) }
        var input = bytes
        var output = [UInt8](repeating: 0, count: Int(deflateBound(&stream, uLong(bytes.count))))
        let result = input.withUnsafeMutableBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                stream.next_in = input.baseAddress
                stream.avail_in = uInt(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = uInt(output.count)
                return CZlib.deflate(&stream, Z_FINISH)
            }
        }
        try #require(result == Z_STREAM_END)
        return Array(output.dropLast(Int(stream.avail_out)))
    }

    static func gzip(_ bytes: [UInt8], level: Int32 = 6) throws -> [UInt8] {
        try deflate(bytes, windowBits: 31, level: level)
    }

    static func brotli(_ bytes: [UInt8], quality: Int32 = 5) throws -> [UInt8] {
        var count = BrotliEncoderMaxCompressedSize(bytes.count)
        var output = [UInt8](repeating: 0, count: count)
        try #require(
            BrotliEncoderCompress(quality, 22, BROTLI_MODE_GENERIC, bytes.count, bytes, &count, &output) != 0)
        return Array(output[..<count])
    }

    /// - Parameter windowLog: The base-2 logarithm of the window size; 0 for the library's choice.
    static func zstd(_ bytes: [UInt8], hasChecksum: Bool = true, windowLog: Int32 = 0) throws -> [UInt8] {
        let context = try #require(ZSTD_createCCtx())
        defer { ZSTD_freeCCtx(context) }
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, hasChecksum ? 1 : 0)
        if windowLog > 0 {
            ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, windowLog)
            // Omit the content size, because the window of the frame would otherwise equal its content.
            ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0)
        }
        var output = [UInt8](repeating: 0, count: ZSTD_compressBound(bytes.count))
        let count = ZSTD_compress2(context, &output, output.count, bytes, bytes.count)
        try #require(ZSTD_isError(count) == 0)
        return Array(output[..<count])
    }

    /// Returns a frame without content (RFC 8878, section 3.1.2).
    static func skippableFrame(_ bytes: [UInt8]) -> [UInt8] {
        let count = UInt32(bytes.count)
        return [0x5A, 0x2A, 0x4D, 0x18] + (0..<4).map { UInt8(truncatingIfNeeded: count >> ($0 * 8)) } + bytes
    }
}
