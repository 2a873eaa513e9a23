import ConvoySecurity
import ConvoySupport
import Foundation

/// The digests of a file, computed while the file is being written, as its contiguous prefix grows.
///
/// The bytes are read back from the file, so they may arrive in any order, and bytes stored by an earlier process are
/// included. Hashing runs on a separate thread.
final class FileDigest: @unchecked Sendable {
    private struct Reading {
        var algorithms: [ChecksumAlgorithm] = []
        /// The end of the readable prefix.
        var limit: Int64 = 0
        var isRunning = false
        var isStopped = false
        /// A number that changes when the digests computed so far become invalid.
        var generation = 0
        /// The position reached when the last run ended.
        var position: Int64 = 0
        var completion: DigestHandler?
    }

    typealias DigestHandler = @Sendable (Result<[Checksum], FileWritingError>) -> Void

    private let file: DownloadFile
    private let state = Locked(Reading())
    // The following properties are used only by the thread that computes the digests.
    private var digests: [MessageDigest] = []
    private var position: Int64 = 0
    private var generation = -1
    private static let blockSize = 256 << 10
    /// The minimum number of new bytes that justifies waking a thread.
    private static let leastWork: Int64 = 4 << 20

    init(file: DownloadFile) { self.file = file }

    /// Starts computing digests from the beginning of the file.
    func begin(_ algorithms: [ChecksumAlgorithm]) {
        state.withLock { state in
            state.algorithms = algorithms
            state.limit = 0
            state.position = 0
            state.generation += 1
            state.isStopped = false
        }
    }

    /// Reports that the file is readable up to a position.
    func advance(to limit: Int64) {
        let starts = state.withLock { state -> Bool in
            state.limit = limit
            guard !state.algorithms.isEmpty, !state.isRunning, !state.isStopped, limit - state.position >= Self.leastWork
            else { return false }
            state.isRunning = true
            return true
        }
        if starts { BlockingWorkers.shared.perform { self.run() } }
    }

    /// Computes the digests of the complete file, and calls `then` on a thread that may block.
    func finish(_ total: Int64, then: @escaping DigestHandler) {
        let starts = state.withLock { state in
            state.limit = total
            state.isStopped = false
            state.completion = then
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if starts { BlockingWorkers.shared.perform { self.run() } }
    }

    /// Pauses the computation. A pending `finish` then calls back early, without digests.
    func stop() { state.withLock { $0.isStopped = true } }

    /// Allows computing again after `stop()`.
    func goOn() { state.withLock { $0.isStopped = false } }

    private func run() {
        var buffer = [UInt8](repeating: 0, count: Self.blockSize)
        while true {
            let (wanted, algorithms, limit, isStopped) = state.withLock {
                ($0.generation, $0.algorithms, $0.limit, $0.isStopped)
            }
            if wanted != generation {
                digests = algorithms.map { MessageDigest($0) }
                position = 0
                generation = wanted
            }
            if position < limit, !isStopped, !digests.isEmpty {
                do throws(FileWritingError) {
                    position += try Self.read(file, at: position, upTo: limit, into: digests, by: &buffer)
                } catch {
                    return fail(error)
                }
                continue
            }
            let checksums = isStopped ? [] : digests.compactMap { Checksum(of: $0) }
            // Take the completion under the same lock that ends the run, because a completion set later starts a new
            // run.
            let (isOver, completion) = state.withLock { state -> (Bool, DigestHandler?) in
                // Continue if the state has changed in the meantime.
                guard state.generation == generation, state.limit == limit, state.isStopped == isStopped else {
                    return (false, nil)
                }
                state.isRunning = false
                state.position = position
                return (true, state.completion.take())
            }
            if isOver {
                completion?(.success(checksums))
                return
            }
        }
    }

    private func fail(_ error: FileWritingError) {
        let completion = state.withLock { state in
            state.isRunning = false
            return state.completion.take()
        }
        completion?(.failure(error))
    }
}

extension FileDigest {
    /// Computes the digest of a range of a file; nil if OpenSSL failed. Blocks.
    static func checksum(
        _ algorithm: ChecksumAlgorithm, of range: Range<Int64>, in file: DownloadFile
    ) throws(FileWritingError) -> Checksum? {
        let digest = MessageDigest(algorithm)
        var buffer = [UInt8](repeating: 0, count: blockSize)
        var position = range.lowerBound
        while position < range.upperBound {
            position += try read(file, at: position, upTo: range.upperBound, into: [digest], by: &buffer)
        }
        return Checksum(of: digest)
    }

    /// Reads a block of a file and adds it to the digests. Returns the number of bytes read.
    private static func read(
        _ file: DownloadFile, at position: Int64, upTo end: Int64, into digests: [MessageDigest], by buffer: inout [UInt8]
    ) throws(FileWritingError) -> Int64 {
        let count = Int(min(Int64(buffer.count), end - position))
        let result = buffer.withUnsafeMutableBytes { bytes in
            Result { () throws(FileWritingError) -> Int in
                let bytes = UnsafeMutableRawBufferPointer(rebasing: bytes[..<count])
                let found = try file.read(into: bytes, at: position)
                for digest in digests { digest.update(UnsafeRawBufferPointer(rebasing: bytes[..<found])) }
                return found
            }
        }
        let found = try result.get()
        guard found > 0 else { throw FileWritingError(.cannotRead, file.path, EIO) }
        return Int64(found)
    }
}
