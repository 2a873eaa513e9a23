#if Images
/// A body to be read at any offset. Reading past its end throws ``ImageFault/truncated``.
struct ImageBytes {
    private let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var count: Int { bytes.count }

    /// Throws unless so many bytes follow an offset.
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

    /// A number of four bytes, little-endian and signed.
    func signed(at offset: Int) throws(ImageFault) -> Int {
        Int(Int32(truncatingIfNeeded: try number(4, at: offset)))
    }

    func starts(with prefix: [UInt8], at offset: Int = 0) -> Bool {
        guard offset >= 0, offset <= bytes.count, bytes.count - offset >= prefix.count else { return false }
        return prefix.indices.allSatisfy { bytes[offset + $0] == prefix[$0] }
    }

    /// Where a byte comes next, at an offset or after it.
    func first(_ byte: UInt8, from offset: Int) throws(ImageFault) -> Int {
        guard offset <= bytes.count, let found = bytes[offset...].firstIndex(of: byte) else { throw .truncated }
        return found
    }

    /// A part of the bytes as text; what is not ASCII is replaced.
    func text(_ range: Range<Int>) -> Substring {
        Substring(decoding: UnsafeRawBufferPointer(rebasing: bytes[range.clamped(to: 0..<bytes.count)]), as: UTF8.self)
    }

    /// An array of fixed-size bytes that a part of the body is.
    func array(_ range: Range<Int>) throws(ImageFault) -> [UInt8] {
        try require(range.count, at: range.lowerBound)
        return Array(bytes[range])
    }
}
#endif
