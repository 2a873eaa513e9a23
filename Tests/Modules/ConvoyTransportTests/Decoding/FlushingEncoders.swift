import CBrotliEncoder
import CZlib
import CZstd
import Testing

@testable import ConvoyTransport

extension Encoders {
    /// Returns the encoded form of each piece of a body, from a server that flushes after each piece, as for an event
    /// stream.
    static func flushing(_ pieces: [[UInt8]], _ coding: ContentCoding) throws -> [[UInt8]] {
        switch coding {
        case .gzip: try flushingDeflate(pieces, windowBits: 31)
        case .deflate: try flushingDeflate(pieces, windowBits: 15)
        case .brotli: try flushingBrotli(pieces)
        case .zstd: try flushingZstd(pieces)
        case .unknown: []
        }
    }

    /// Returns a buffer for a piece and the overhead of flushing.
    private static func room(_ piece: [UInt8]) -> [UInt8] { [UInt8](repeating: 0, count: piece.count * 2 + 1024) }

    private static func flushingDeflate(_ pieces: [[UInt8]], windowBits: Int32) throws -> [[UInt8]] {
        var stream = z_stream()
        try #require(
            deflateInit2_(
                &stream, 6, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                Int32(MemoryLayout<z_stream>.size)) == Z_OK)
        defer { deflateEnd(&stream) }
        return try pieces.enumerated().map { index, piece in
            var input = piece
            var output = room(piece)
            let isLast = index == pieces.count - 1
            let result = input.withUnsafeMutableBufferPointer { input in
                output.withUnsafeMutableBufferPointer { output in
                    stream.next_in = input.baseAddress
                    stream.avail_in = uInt(input.count)
                    stream.next_out = output.baseAddress
                    stream.avail_out = uInt(output.count)
                    return CZlib.deflate(&stream, isLast ? Z_FINISH : Z_SYNC_FLUSH)
                }
            }
            try #require(result == (isLast ? Z_STREAM_END : Z_OK) && stream.avail_in == 0)
            return Array(output.dropLast(Int(stream.avail_out)))
        }
    }

    private static func flushingBrotli(_ pieces: [[UInt8]]) throws -> [[UInt8]] {
        let state = try #require(BrotliEncoderCreateInstance(nil, nil, nil))
        defer { BrotliEncoderDestroyInstance(state) }
        return try pieces.enumerated().map { index, piece in
            var output = room(piece)
            var unused = piece.count
            var free = output.count
            let operation = index == pieces.count - 1 ? BROTLI_OPERATION_FINISH : BROTLI_OPERATION_FLUSH
            let isDone = piece.withUnsafeBufferPointer { input in
                output.withUnsafeMutableBufferPointer { output in
                    var nextInput = input.baseAddress
                    var nextOutput = output.baseAddress
                    return BrotliEncoderCompressStream(
                        state, operation, &unused, &nextInput, &free, &nextOutput, nil)
                }
            }
            try #require(isDone != 0 && unused == 0 && BrotliEncoderHasMoreOutput(state) == 0)
            return Array(output.dropLast(free))
        }
    }

    private static func flushingZstd(_ pieces: [[UInt8]]) throws -> [[UInt8]] {
        let context = try #require(ZSTD_createCCtx())
        defer { ZSTD_freeCCtx(context) }
        return try pieces.enumerated().map { index, piece in
            var output = room(piece)
            let count = try piece.withUnsafeBufferPointer { input in
                try output.withUnsafeMutableBufferPointer { output in
                    var source = ZSTD_inBuffer(src: input.baseAddress, size: input.count, pos: 0)
                    var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
                    let end = index == pieces.count - 1 ? ZSTD_e_end : ZSTD_e_flush
                    try #require(ZSTD_compressStream2(context, &target, &source, end) == 0)
                    return target.pos
                }
            }
            return Array(output[..<count])
        }
    }
}
