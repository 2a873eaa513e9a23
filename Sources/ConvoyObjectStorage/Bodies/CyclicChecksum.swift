import Foundation

/// A cyclic redundancy check that Amazon's S3 and compatible servers store with objects.
struct CyclicChecksum {
    /// The polynomial of a check, in reversed bit order.
    enum Polynomial: UInt64 {
        /// CRC-32 (ISO 3309), as in zip files.
        case crc32 = 0xEDB8_8320
        /// CRC-32C (RFC 3720, appendix B.4).
        case crc32c = 0x82F6_3B78
        /// CRC-64/NVME, the default of Amazon's S3.
        case crc64nvme = 0x9A6C_9329_AC4B_C9B5
    }

    private let size: Int
    private let table: [UInt64]
    private var remainder: UInt64

    init(_ polynomial: Polynomial) {
        switch polynomial {
        case .crc32:
            size = 4
            table = Self.crc32
        case .crc32c:
            size = 4
            table = Self.crc32c
        case .crc64nvme:
            size = 8
            table = Self.crc64nvme
        }
        remainder = size == 4 ? 0xFFFF_FFFF : .max
    }

    /// The checksum of the bytes so far, with the most significant byte first.
    var value: Data {
        let value = ~remainder
        return Data((0..<size).reversed().map { UInt8(truncatingIfNeeded: value >> UInt64($0 * 8)) })
    }

    /// Adds bytes, eight at a time with one table for each of them.
    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var position = 0
        table.withUnsafeBufferPointer { table in
            while position + 8 <= bytes.count {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self)) ^ remainder
                var next: UInt64 = 0
                for index in 0..<8 {
                    next ^= table[(7 - index) << 8 | Int(truncatingIfNeeded: word >> UInt64(index * 8) & 0xFF)]
                }
                remainder = next
                position += 8
            }
            for byte in bytes[position...] {
                remainder = table[Int(truncatingIfNeeded: remainder & 0xFF) ^ Int(byte)] ^ remainder >> 8
            }
        }
    }

    private static let crc32 = tables(.crc32)
    private static let crc32c = tables(.crc32c)
    private static let crc64nvme = tables(.crc64nvme)

    /// Returns eight tables of 256 remainders: of one byte, and of one byte followed by one to seven zeros.
    private static func tables(_ polynomial: Polynomial) -> [UInt64] {
        var table = [UInt64](repeating: 0, count: 8 << 8)
        for byte in 0..<256 {
            var value = UInt64(byte)
            for _ in 0..<8 { value = value & 1 == 1 ? value >> 1 ^ polynomial.rawValue : value >> 1 }
            table[byte] = value
        }
        for index in 256..<table.count {
            let earlier = table[index - 256]
            table[index] = table[Int(truncatingIfNeeded: earlier & 0xFF)] ^ earlier >> 8
        }
        return table
    }
}
