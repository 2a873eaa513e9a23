import ConvoySupport
import Foundation

/// A lock that allows only one queue to have a directory open: a locked file that contains the identifier of the
/// process. The system releases the lock when the process ends for any reason.
final class QueueLock: Sendable {
    private let descriptor: Locked<Int32>

    /// Acquires the lock of a directory.
    ///
    /// - Throws: ``DownloadQueueError/inUse(_:process:)``, or `cannotOpen` if the file system does not support locks.
    init(_ path: String, directory: URL) throws(DownloadQueueError) {
        let opened: Int32
        do throws(PrivateFile.Failure) {
            opened = try PrivateFile.openOrCreate(path)
        } catch {
            throw DownloadQueueError(error, path)
        }
        var result: Int32
        repeat { result = flock(opened, LOCK_EX | LOCK_NB) } while result != 0 && errno == EINTR
        guard result == 0 else {
            let error = SystemError()
            defer { close(opened) }
            guard error.code == EWOULDBLOCK else { throw .cannotOpen("Cannot lock \(path): \(error.text)") }
            throw .inUse(directory, process: Self.process(opened))
        }
        // The identifier is used only in an error thrown by another queue, so ignore a failure to write it.
        let text = Array("\(getpid())\n".utf8)
        if ftruncate(opened, 0) == 0 { _ = pwrite(opened, text, text.count, 0) }
        descriptor = Locked(opened)
    }

    deinit { release() }

    /// Releases the lock, so that others can open the directory.
    func release() {
        let closing = descriptor.withLock { descriptor in
            defer { descriptor = -1 }
            return descriptor
        }
        if closing >= 0 { close(closing) }
    }

    private static func process(_ descriptor: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { return nil }
        let digits = bytes[..<count].prefix { ASCII.isDigit($0) }
        return Int32(String(decoding: digits, as: UTF8.self))
    }
}
