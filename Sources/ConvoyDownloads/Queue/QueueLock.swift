import ConvoySupport
import Foundation

/// The lock by which only one queue at a time has a directory: a file that is locked while it is open, and that says which
/// process that is. The system releases it with the process, however that ends.
final class QueueLock: Sendable {
    private let descriptor: Locked<Int32>

    /// - Throws: ``DownloadQueueError/inUse(_:process:)``, or `cannotOpen` where there are no locks.
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
            guard error.code == EWOULDBLOCK else { throw .cannotOpen("\(path) cannot be locked: \(error.text)") }
            throw .inUse(directory, process: Self.process(opened))
        }
        // Only for the error of others: without it they know no less that the queue is in use.
        let text = Array("\(getpid())\n".utf8)
        if ftruncate(opened, 0) == 0 { _ = pwrite(opened, text, text.count, 0) }
        descriptor = Locked(opened)
    }

    deinit { release() }

    /// Lets others open the directory.
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
