import CZlib
import Foundation
import Testing

/// Decompresses a gzip file with zlib.
func inflate(_ data: Data) throws -> Data {
    var stream = z_stream()
    try #require(inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK)
    defer { inflateEnd(&stream) }
    var input = Array(data)
    var output = Data()
    var block = [UInt8](repeating: 0, count: 1 << 16)
    var status = Z_OK
    input.withUnsafeMutableBufferPointer { bytes in
        stream.next_in = bytes.baseAddress
        stream.avail_in = uInt(bytes.count)
        while status == Z_OK {
            block.withUnsafeMutableBufferPointer { buffer in
                stream.next_out = buffer.baseAddress
                stream.avail_out = uInt(buffer.count)
                status = CZlib.inflate(&stream, Z_NO_FLUSH)
                output.append(contentsOf: buffer[..<(buffer.count - Int(stream.avail_out))])
            }
        }
    }
    try #require(status == Z_STREAM_END && stream.avail_in == 0)
    return output
}
