import ConvoySupport
import Foundation
import Synchronization

/// Functions that prepare and write to the descriptors of standard input, output and error.
enum StandardStreams {
    /// Opens `/dev/null` for each standard stream that was closed when the program started. Call this method before
    /// anything else.
    ///
    /// Otherwise the next file or socket would get the descriptor of a closed stream, and messages for standard error
    /// might be written into a request.
    static func openClosed() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            // All lower descriptors are in use, so `open` returns the descriptor that was closed.
            guard open("/dev/null", O_RDWR) == descriptor else { _exit(ExitStatus.failure.rawValue) }
        }
    }

    /// Writes the whole string. Waits for a reader, but only briefly after an interruption, so that the program can
    /// end.
    static func write(_ text: String, to descriptor: Int32) throws(SystemError) {
        var text = text
        let result = text.withUTF8 { bytes in
            Result { () throws(SystemError) in
                var end: MonotonicTime?
                try write(UnsafeRawBufferPointer(bytes), to: descriptor) {
                    guard Interruption.shared.status != nil else { return true }
                    end = end ?? MonotonicClock.now + 500_000_000
                    return MonotonicClock.now < end ?? 0
                }
            }
        }
        try result.get()
    }

    /// Writes all bytes, waiting for a reader if necessary.
    ///
    /// - Parameter isWanted: Whether to keep waiting; called ten times per second. If it returns false, the error is
    ///   `ECANCELED`.
    static func write(
        _ bytes: UnsafeRawBufferPointer, to descriptor: Int32, while isWanted: () -> Bool
    ) throws(SystemError) {
        var rest = bytes
        var information = stat()
        let isFile = fstat(descriptor, &information) == 0 && information.st_mode & S_IFMT == S_IFREG
        while !rest.isEmpty {
            if !isFile { try waitForRoom(descriptor, while: isWanted) }
            // A write of at most `PIPE_BUF` bytes does not block if there is room, so that `isWanted` is checked
            // regularly.
            let length = isFile ? rest.count : min(rest.count, Int(PIPE_BUF))
            let count = Glibc.write(descriptor, rest.baseAddress, length)
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if count == 0 {
                throw SystemError(code: EIO)
            } else if errno != EAGAIN, errno != EINTR {
                throw SystemError()
            }
        }
    }

    /// Writes data in the same way. Uses a `Result`, because the closure of `withUnsafeBytes` cannot throw typed errors.
    static func write(_ data: Data, to descriptor: Int32, while isWanted: () -> Bool) throws(SystemError) {
        let result = data.withUnsafeBytes { bytes in
            Result { () throws(SystemError) in try write(bytes, to: descriptor, while: isWanted) }
        }
        try result.get()
    }

    private static func waitForRoom(_ descriptor: Int32, while isWanted: () -> Bool) throws(SystemError) {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        while true {
            let count = poll(&waiting, 1, 100)
            // Errors are reported by the following write.
            if count > 0 || count < 0 && errno != EINTR { return }
            guard isWanted() else { throw SystemError(code: ECANCELED) }
        }
    }

    /// Returns whether a short string can be written without blocking. A terminal may be paused, or a pipe may have no
    /// reader.
    static func hasRoom(_ descriptor: Int32) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&waiting, 1, 0) == 1 && waiting.revents & Int16(POLLOUT) != 0
    }
}
