import ConvoySupport
import Foundation

/// The location of the bytes of a stored body.
enum StoredBody: Sendable {
    case memory([UInt8])
    /// The body is in a row of the index, and has not been read.
    case row
    /// The body is in a file that has not been opened.
    case file
    /// The body is in an open file.
    case open(BodyFile)

    var bytes: [UInt8]? {
        guard case .memory(let bytes) = self else { return nil }
        return bytes
    }

    /// Whether the body can be served without first reading a row or opening a file.
    var isReady: Bool {
        switch self {
        case .memory, .open: true
        case .row, .file: false
        }
    }
}

/// A stored response, and the location of its body.
struct CacheEntry: Sendable {
    var record: CacheRecord
    var body: StoredBody

    /// The estimated size in memory, in bytes.
    var cost: Int { record.cost + (body.bytes?.count ?? 0) }
}

/// The reason why the body of a stored response cannot be read. The entry has been removed; a new request goes to the
/// network.
package enum CacheError: Error, Sendable, Hashable {
    /// The file is missing, or the system cannot read it.
    case unreadable(reason: String)
    /// The file is too short, or its bytes differ from those that were stored.
    case damaged
}

/// The body of a stored response in an open file. Its bytes stay readable after the file is removed.
///
/// The index has a checksum of each block, so that any part can be read and verified on its own.
final class BodyFile: Sendable {
    static let blockSize = 1 << 16

    let length: Int
    private let descriptor: Int32
    private let checksums: [UInt64]
    private static let queue = DispatchQueue(label: "Convoy.Cache.reading", qos: .userInitiated)

    /// Opens the file of a body.
    ///
    /// - Returns: Nil if the file does not exist, or is not a regular file of this user with the length of the body.
    /// - Throws: An error if the system cannot open any file now, for example because too many are open. The file may
    ///   be intact.
    init?(path: String, length: Int, checksums: [UInt64]) throws(SystemError) {
        let descriptor: Int32
        do throws(PrivateFile.Failure) {
            descriptor = try PrivateFile.open(path)
        } catch {
            if case .system(let error) = error, [EMFILE, ENFILE, ENOMEM].contains(error.code) { throw error }
            return nil
        }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, Int(facts.st_size) == length,
            checksums.count == BodyFile.blockCount(length)
        else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
        self.length = length
        self.checksums = checksums
    }

    deinit {
        // Closing a removed file may free its blocks, which is too slow for a network thread.
        Self.queue.async { [descriptor] in _ = close(descriptor) }
    }

    static func blockCount(_ length: Int) -> Int { (length + blockSize - 1) / blockSize }

    /// Reads bytes of the body on a background queue shared by all bodies.
    func read(_ range: Range<Int>, _ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void) {
        Self.queue.async { then(Result { try self.read(range) }) }
    }

    /// Reads bytes of the body. Blocks.
    func read(_ range: Range<Int>) throws(CacheError) -> [UInt8] {
        let blocks = range.lowerBound / Self.blockSize...(range.upperBound - 1) / Self.blockSize
        let start = blocks.lowerBound * Self.blockSize
        let end = min((blocks.upperBound + 1) * Self.blockSize, length)
        var failure: CacheError?
        let bytes = [UInt8](unsafeUninitializedCapacity: end - start) { buffer, count in
            failure = fill(UnsafeMutableRawBufferPointer(buffer), from: start)
            count = failure == nil ? end - start : 0
        }
        if let failure { throw failure }
        for block in blocks {
            let offset = block * Self.blockSize - start
            let isSound =
                bytes.withUnsafeBytes { bytes in
                    let block = bytes[offset..<min(offset + Self.blockSize, bytes.count)]
                    return XXHash64.hash(UnsafeRawBufferPointer(rebasing: block))
                } == checksums[block]
            guard isSound else { throw .damaged }
        }
        guard start != range.lowerBound || end != range.upperBound else { return bytes }
        return Array(bytes[range.lowerBound - start..<range.upperBound - start])
    }

    private func fill(_ buffer: UnsafeMutableRawBufferPointer, from start: Int) -> CacheError? {
        var done = 0
        while done < buffer.count {
            let count = pread(
                descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(start + done))
            if count < 0 {
                let error = SystemError()
                if error.code == EINTR { continue }
                return .unreadable(reason: error.text)
            }
            if count == 0 { return .damaged }
            done += count
        }
        return nil
    }
}

/// The 64-bit xxHash, which detects damage to stored bytes. It detects accidents, not an attacker who can write the
/// files.
enum XXHash64 {
    private static let (p1, p2, p3, p4, p5): (UInt64, UInt64, UInt64, UInt64, UInt64) = (
        0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x85EB_CA77_C2B2_AE63,
        0x27D4_EB2F_1656_67C5
    )

    static func hash(_ bytes: [UInt8]) -> UInt64 { bytes.withUnsafeBytes { hash($0) } }

    static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var offset = 0
        var hash: UInt64
        if bytes.count >= 32 {
            var lanes: (UInt64, UInt64, UInt64, UInt64) = (p1 &+ p2, p2, 0, 0 &- p1)
            while offset + 32 <= bytes.count {
                lanes.0 = round(lanes.0, word(bytes, offset))
                lanes.1 = round(lanes.1, word(bytes, offset + 8))
                lanes.2 = round(lanes.2, word(bytes, offset + 16))
                lanes.3 = round(lanes.3, word(bytes, offset + 24))
                offset += 32
            }
            hash = rotate(lanes.0, 1) &+ rotate(lanes.1, 7) &+ rotate(lanes.2, 12) &+ rotate(lanes.3, 18)
            hash = merge(merge(merge(merge(hash, lanes.0), lanes.1), lanes.2), lanes.3)
        } else {
            hash = p5
        }
        hash &+= UInt64(bytes.count)
        while offset + 8 <= bytes.count {
            hash = rotate(hash ^ round(0, word(bytes, offset)), 27) &* p1 &+ p4
            offset += 8
        }
        if offset + 4 <= bytes.count {
            let half = UInt64(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
            hash = rotate(hash ^ (half &* p1), 23) &* p2 &+ p3
            offset += 4
        }
        while offset < bytes.count {
            hash = rotate(hash ^ (UInt64(bytes[offset]) &* p5), 11) &* p1
            offset += 1
        }
        hash = (hash ^ (hash >> 33)) &* p2
        hash = (hash ^ (hash >> 29)) &* p3
        return hash ^ (hash >> 32)
    }

    @inline(__always) private static func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    @inline(__always) private static func rotate(_ value: UInt64, _ bits: UInt64) -> UInt64 {
        value << bits | value >> (64 - bits)
    }

    @inline(__always) private static func round(_ lane: UInt64, _ word: UInt64) -> UInt64 {
        rotate(lane &+ word &* p2, 31) &* p1
    }

    @inline(__always) private static func merge(_ hash: UInt64, _ lane: UInt64) -> UInt64 {
        (hash ^ round(0, lane)) &* p1 &+ p4
    }
}
