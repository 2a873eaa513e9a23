import Foundation

/// Bytes that can be generated and checked at any offset without being stored: the byte at offset n is n modulo 251.
///
/// 251 is a prime, so it divides no block, page or chunk size, and a lost or repeated block is detected.
public enum PatternBytes {
    /// The period, in bytes.
    public static let period = 251

    private static let table: [UInt8] = (0..<(period * 512)).map { UInt8($0 % period) }

    /// The byte at this offset. A negative offset gives 0.
    public static func byte(at offset: Int) -> UInt8 {
        UInt8(reduced(offset))
    }

    /// The first offset at which the pattern continues in the same way; 0 for a negative one.
    static func reduced(_ offset: Int) -> Int { max(0, offset) % period }

    /// `count` bytes beginning at `offset`; a negative offset is 0.
    public static func data(count: Int, offset: Int = 0) -> Data {
        var bytes: [UInt8] = []
        append(count: count, offset: offset, to: &bytes)
        return Data(bytes)
    }

    /// Whether these bytes are the pattern beginning at `offset`.
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
