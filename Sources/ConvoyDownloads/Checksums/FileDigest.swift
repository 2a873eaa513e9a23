import ConvoySecurity
import ConvoySupport
import Foundation

/// Computes the digests of a file while it is being written: of its contiguous beginning as that grows.
///
/// It reads what was written, so that it makes no difference in which order the bytes have come, and that what an earlier
/// process has left is checked with the rest. It works on a thread of its own.
final class FileDigest: @unchecked Sendable {
    private struct Reading {
        var algorithms: [ChecksumAlgorithm] = []
        /// Up to where the file may be read.
        var limit: Int64 = 0
        var isRunning = false
        var isStopped = false
        /// Changes when what was hashed is void.
        var generation = 0
        /// Up to where it was read when the last work ended.
        var position: Int64 = 0
        var completion: DigestHandler?
    }

    typealias DigestHandler = @Sendable (Result<[Checksum], FileWritingError>) -> Void

    private let file: DownloadFile
    private let state = Locked(Reading())
    // Used by the one thread that runs.
    private var digests: [MessageDigest] = []
    private var position: Int64 = 0
    private var generation = -1
    private static let blockSize = 256 << 10
    /// How many bytes are worth waking a thread.
    private static let leastWork: Int64 = 4 << 20

    init(file: DownloadFile) { self.file = file }

    /// Which digests are computed, from the beginning.
    func begin(_ algorithms: [ChecksumAlgorithm]) {
        state.withLock { state in
            state.algorithms = algorithms
            (state.limit, state.position) = (0, 0)
            state.generation += 1
            state.isStopped = false
        }
    }

    /// The beginning of the file is there up to a position.
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

    /// Computes the digests of the whole file, and calls `then` on a thread that may block.
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

    /// Stops computing, for now. `finish` calls back early then, without digests.
    func stop() { state.withLock { $0.isStopped = true } }

    /// Goes on after `stop()`.
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
            // The completion is taken at the moment when the work ends: one that comes later begins it anew.
            let (isOver, completion) = state.withLock { state -> (Bool, DigestHandler?) in
                // Something has changed since.
                guard state.generation == generation, state.limit == limit, state.isStopped == isStopped else {
                    return (false, nil)
                }
                (state.isRunning, state.position) = (false, position)
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
    /// The digest of a range of a file that is there; nil if OpenSSL failed. Blocks.
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

    /// Reads a block of a file into digests. Returns how many bytes it has.
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
