import ConvoySupport
import Foundation

/// The body of a stored response in an open file. The bytes stay readable when the file is removed.
///
/// A checksum of each block is in the index, so that any part can be read, and none is handed out that is not what was
/// stored.
final class BodyFile: Sendable {
    static let blockSize = 1 << 16

    let length: Int
    private let descriptor: Int32
    private let checksums: [UInt64]
    private static let queue = DispatchQueue(label: "Convoy.Cache.reading", qos: .userInitiated)

    /// Opens the file of a body.
    ///
    /// - Returns: nil if it is not there, is not a plain file of this user's, or has another length than the body.
    /// - Throws: if the system opens no file now, as with too many open ones. That says nothing about this one.
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
        // The last one to close a removed file frees its blocks, which takes time that a network thread does not have.
        Self.queue.async { [descriptor] in _ = close(descriptor) }
    }

    static func blockCount(_ length: Int) -> Int { (length + blockSize - 1) / blockSize }

    /// Reads bytes within the body, on a queue of its own.
    func read(_ range: Range<Int>, _ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void) {
        Self.queue.async { then(Result { try self.read(range) }) }
    }

    /// Reads bytes within the body, and blocks.
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
