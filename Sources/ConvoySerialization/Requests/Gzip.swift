import CZlib
import Foundation

/// The gzip format (RFC 1952), by zlib.
enum Gzip {
    /// The compressed data, or nil for empty data.
    static func compress(_ data: Data) throws -> Data? {
        if data.isEmpty { return nil }
        var stream = z_stream()
        // 15 bits of window; adding 16 selects gzip's header and trailer instead of zlib's.
        guard
            deflateInit2_(
                &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { throw failure }
        defer { deflateEnd(&stream) }

        var output = Data()
        var block = [UInt8](repeating: 0, count: 64 * 1024)
        try data.withUnsafeBytes { (input: UnsafeRawBufferPointer) in
            var offset = 0
            var status = Z_OK
            repeat {
                // zlib counts in 32 bits, so a large body is passed in slices.
                let slice = min(input.count - offset, 1 << 30)
                stream.next_in = UnsafeMutableRawPointer(mutating: input.baseAddress)?
                    .assumingMemoryBound(to: Bytef.self).advanced(by: offset)
                stream.avail_in = uInt(slice)
                offset += slice
                let flush = offset == input.count ? Z_FINISH : Z_NO_FLUSH
                repeat {
                    try block.withUnsafeMutableBufferPointer { buffer in
                        stream.next_out = buffer.baseAddress
                        stream.avail_out = uInt(buffer.count)
                        status = deflate(&stream, flush)
                        guard status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR else { throw failure }
                        output.append(contentsOf: buffer[..<(buffer.count - Int(stream.avail_out))])
                    }
                } while stream.avail_out == 0
            } while status != Z_STREAM_END && offset < input.count
        }
        return output
    }

    private static var failure: NSError {
        .request(.compressionFailed, "The body could not be compressed.")
    }
}
