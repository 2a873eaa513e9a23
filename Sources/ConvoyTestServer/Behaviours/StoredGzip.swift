import Foundation

/// Gzip (RFC 1952) with stored blocks (RFC 1951, section 3.2.4), which needs no zlib.
enum StoredGzip {
    /// One member with these bytes.
    static func member(_ data: Data) -> Data {
        var bytes: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]
        bytes.reserveCapacity(data.count + data.count / 60_000 * 5 + 32)
        var start = 0
        repeat {
            let count = min(data.count - start, 60_000)
            bytes.append(start + count == data.count ? 1 : 0)
            append(UInt32(count) | UInt32(~UInt16(count)) << 16, to: &bytes)
            data.withUnsafeBytes { bytes.append(contentsOf: $0[start..<(start + count)]) }
            start += count
        } while start < data.count
        append(checksum(data), to: &bytes)
        append(UInt32(truncatingIfNeeded: data.count), to: &bytes)
        return Data(bytes)
    }

    private static func append(_ number: UInt32, to bytes: inout [UInt8]) {
        for shift in stride(from: UInt32(0), to: 32, by: 8) { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
    }

    /// CRC-32 (RFC 1952, section 8).
    private static func checksum(_ data: Data) -> UInt32 {
        table.withUnsafeBufferPointer { table in
            data.withUnsafeBytes { bytes in
                var value: UInt32 = 0xFFFF_FFFF
                for byte in bytes { value = table[Int((value ^ UInt32(byte)) & 0xFF)] ^ (value >> 8) }
                return ~value
            }
        }
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
    }
}
