import ConvoySupport
import Foundation
import Synchronization

/// How many descriptors the program may have open.
enum DescriptorLimit {
    /// Raises the soft limit as far as it may be, so that many transfers at a time are not short of descriptors: a shell
    /// gives 1024.
    static func raise() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        // More is of no use, and some systems have a hard limit of a thousand millions.
        let wanted = min(limit.rlim_max, 65_536)
        guard limit.rlim_cur < wanted else { return }
        limit.rlim_cur = wanted
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}

/// Functions for the descriptors of standard input, output and error.
enum StandardStreams {
    /// Opens `/dev/null` for each of them that was closed when the program was started. Called before anything else.
    ///
    /// Otherwise the next file or socket would get that number, and messages for standard error might be written into a
    /// request.
    static func openClosed() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            // The number is free, and all lower ones are taken.
            guard open("/dev/null", O_RDWR) == descriptor else { _exit(ExitStatus.failure.rawValue) }
        }
    }

    /// Writes the whole text. Waits for a reader, but not much longer when the program has been interrupted: it must end.
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

    /// Writes all bytes. Waits for a reader, if it must.
    ///
    /// - Parameter isWanted: whether to go on waiting; asked ten times a second. If not, the error is `ECANCELED`.
    static func write(
        _ bytes: UnsafeRawBufferPointer, to descriptor: Int32, while isWanted: () -> Bool
    ) throws(SystemError) {
        var rest = bytes
        var information = stat()
        let isFile = fstat(descriptor, &information) == 0 && information.st_mode & S_IFMT == S_IFREG
        while !rest.isEmpty {
            if !isFile { try waitForRoom(descriptor, while: isWanted) }
            // A pipe or a terminal with room takes as much without waiting, during which nobody could be asked.
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

    private static func waitForRoom(_ descriptor: Int32, while isWanted: () -> Bool) throws(SystemError) {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        while true {
            let count = poll(&waiting, 1, 100)
            // An error is told by writing.
            if count > 0 || count < 0 && errno != EINTR { return }
            guard isWanted() else { throw SystemError(code: ECANCELED) }
        }
    }

    /// Whether a little can be written without blocking: a terminal may be paused, or a pipe may have no reader.
    static func hasRoom(_ descriptor: Int32) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&waiting, 1, 0) == 1 && waiting.revents & Int16(POLLOUT) != 0
    }
}
