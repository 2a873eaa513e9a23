import Foundation

/// A 64-bit checksum for bodies that are too large to keep. It detects accidental errors, not attacks.
///
/// It processes eight bytes per step, so that it keeps up with loopback uploads even in a debug build. The value does
/// not depend on how the bytes are divided.
public struct BodyChecksum: Hashable, Sendable, CustomStringConvertible {
    private var hash: UInt64 = 0x9E37_79B9_7F4A_7C15
    private var tail: UInt64 = 0
    private var count: UInt64 = 0

    /// The checksum of no bytes.
    public init() {}

    /// The checksum of these bytes.
    public static func of(_ data: Data) -> BodyChecksum {
        var checksum = BodyChecksum()
        checksum.update(data)
        return checksum
    }

    /// Adds bytes at the end.
    public mutating func update(_ data: Data) {
        data.withUnsafeBytes { update($0) }
    }

    /// Adds bytes at the end.
    public mutating func update(_ bytes: UnsafeRawBufferPointer) {
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
    public var value: UInt64 {
        var end = self
        end.mix(tail)
        end.mix(count)
        return end.hash
    }

    public var description: String { String(value, radix: 16) }

    public static func == (left: BodyChecksum, right: BodyChecksum) -> Bool { left.value == right.value }

    public func hash(into hasher: inout Hasher) { hasher.combine(value) }

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
