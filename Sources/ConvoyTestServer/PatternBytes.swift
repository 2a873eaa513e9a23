import Foundation

/// Bytes that can be generated and verified at any offset without being stored: the byte at offset n is n modulo 251.
///
/// 251 is prime, so it divides no block, page or chunk size, and a lost or repeated block is detected.
public enum PatternBytes {
    /// The period, in bytes.
    package static let period = 251

    private static let table: [UInt8] = (0..<(period * 512)).map { UInt8($0 % period) }

    /// Returns the byte at this offset. A negative offset gives 0.
    public static func byte(at offset: Int) -> UInt8 {
        UInt8(reduced(offset))
    }

    /// Returns the smallest offset from which the pattern continues in the same way; 0 for a negative offset.
    static func reduced(_ offset: Int) -> Int { max(0, offset) % period }

    /// Returns `count` bytes beginning at `offset`; a negative offset counts as 0.
    public static func data(count: Int, offset: Int = 0) -> Data {
        var bytes: [UInt8] = []
        append(count: count, offset: offset, to: &bytes)
        return Data(bytes)
    }

    /// Returns whether the given bytes are the pattern beginning at `offset`.
    public static func matches(_ bytes: UnsafeRawBufferPointer, offset: Int) -> Bool {
        guard offset >= 0 else { return bytes.isEmpty }
        return table.withUnsafeBytes { table in
            var done = 0
            while done < bytes.count {
                let start = (reduced(offset) + done) % period
                let part = min(bytes.count - done, table.count - start)
                guard let a = bytes.baseAddress, let b = table.baseAddress,
                    memcmp(a + done, b + start, part) == 0
                else { return false }
                done += part
            }
            return true
        }
    }

    static func append(count: Int, offset: Int, to output: inout [UInt8]) {
        var done = 0
        while done < count {
            let start = (reduced(offset) + done) % period
            let part = min(count - done, table.count - start)
            output.append(contentsOf: table[start..<(start + part)])
            done += part
        }
    }
}

/// A 64-bit checksum for bodies that are too large to keep. It detects accidental errors, not attacks.
///
/// It processes eight bytes per step, so that it keeps up with loopback uploads even in a debug build. The value does
/// not depend on how the bytes are split.
package struct BodyChecksum: Hashable, Sendable, CustomStringConvertible {
    private var hash: UInt64 = 0x9E37_79B9_7F4A_7C15
    private var tail: UInt64 = 0
    private var count: UInt64 = 0

    /// Creates the checksum of an empty body.
    package init() {}

    /// Returns the checksum of a body that is completely in memory.
    package static func of(_ data: Data) -> BodyChecksum {
        var checksum = BodyChecksum()
        checksum.update(data)
        return checksum
    }

    /// Adds bytes to the checksum.
    package mutating func update(_ data: Data) {
        data.withUnsafeBytes { update($0) }
    }

    /// Adds bytes to the checksum.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var index = 0
        while index < bytes.count, count & 7 != 0 { take(bytes[index]); index += 1 }
        while index + 8 <= bytes.count {
            mix(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
            index += 8
            count &+= 8
        }
        while index < bytes.count { take(bytes[index]); index += 1 }
    }

    /// The checksum of all bytes so far.
    package var value: UInt64 {
        var end = self
        end.mix(tail)
        end.mix(count)
        return end.hash
    }

    package var description: String { String(value, radix: 16) }

    package static func == (left: BodyChecksum, right: BodyChecksum) -> Bool { left.value == right.value }

    package func hash(into hasher: inout Hasher) { hasher.combine(value) }

    private mutating func take(_ byte: UInt8) {
        tail |= UInt64(byte) << ((count & 7) &* 8)
        count &+= 1
        if count & 7 == 0 {
            mix(tail)
            tail = 0
        }
    }

    private mutating func mix(_ word: UInt64) {
        hash = (hash ^ word) &* 0xBF58_476D_1CE4_E5B9
        hash ^= hash &>> 29
    }
}
