#if Images
/// The bytes of a body. Reading past the end throws ``ImageFault/truncated``.
struct ImageBytes {
    private let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var count: Int { bytes.count }

    /// Throws unless there are `count` bytes at an offset.
    func require(_ count: Int, at offset: Int) throws(ImageFault) {
        guard offset >= 0, count >= 0, offset <= bytes.count, count <= bytes.count - offset else { throw .truncated }
    }

    func byte(_ offset: Int) throws(ImageFault) -> Int {
        try require(1, at: offset)
        return Int(bytes[offset])
    }

    /// An unsigned number of one to four bytes.
    func number(_ size: Int, at offset: Int, bigEndian: Bool = false) throws(ImageFault) -> Int {
        try require(size, at: offset)
        var value = 0
        for index in 0..<size { value = value << 8 | Int(bytes[offset + (bigEndian ? index : size - 1 - index)]) }
        return value
    }

    /// A signed little-endian number of four bytes.
    func signed(at offset: Int) throws(ImageFault) -> Int {
        Int(Int32(truncatingIfNeeded: try number(4, at: offset)))
    }

    func starts(with prefix: [UInt8], at offset: Int = 0) -> Bool {
        guard offset >= 0, offset <= bytes.count, bytes.count - offset >= prefix.count else { return false }
        return prefix.indices.allSatisfy { bytes[offset + $0] == prefix[$0] }
    }

    /// The first offset of a byte, from a given offset on.
    func first(_ byte: UInt8, from offset: Int) throws(ImageFault) -> Int {
        guard offset <= bytes.count, let found = bytes[offset...].firstIndex(of: byte) else { throw .truncated }
        return found
    }

    /// A part of the bytes as text; invalid UTF-8 is replaced.
    func text(_ range: Range<Int>) -> Substring {
        Substring(decoding: UnsafeRawBufferPointer(rebasing: bytes[range.clamped(to: 0..<bytes.count)]), as: UTF8.self)
    }

    /// A part of the bytes as an array.
    func array(_ range: Range<Int>) throws(ImageFault) -> [UInt8] {
        try require(range.count, at: range.lowerBound)
        return Array(bytes[range])
    }
}
#endif
