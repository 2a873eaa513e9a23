import ConvoySupport
import Foundation
import Synchronization

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
                var rest = UnsafeRawBufferPointer(bytes)
                while !rest.isEmpty {
                    try waitForRoom(descriptor)
                    // A pipe or a terminal with room takes as much without waiting.
                    let count = min(rest.count, Int(PIPE_BUF))
                    try write(UnsafeRawBufferPointer(rebasing: rest.prefix(count)), to: descriptor)
                    rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
                }
            }
        }
        try result.get()
    }

    /// How long text waits for room after an interruption, in milliseconds.
    private static let lastPatience: Int32 = 500

    private static func waitForRoom(_ descriptor: Int32) throws(SystemError) {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        while true {
            let isOver = Interruption.shared.status != nil
            let count = poll(&waiting, 1, isOver ? lastPatience : 100)
            // An error is told by writing.
            if count > 0 || count < 0 && errno != EINTR { return }
            if count == 0, isOver { throw SystemError(code: ETIMEDOUT) }
        }
    }

    /// Writes all bytes. Waits for a reader, if it must.
    static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) throws(SystemError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if count == 0 {
                throw SystemError(code: EIO)
            } else if errno == EAGAIN {
                var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&waiting, 1, -1)
            } else if errno != EINTR {
                throw SystemError()
            }
        }
    }

    /// Whether a little can be written without blocking: a terminal may be paused, or a pipe may have no reader.
    static func hasRoom(_ descriptor: Int32) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&waiting, 1, 0) == 1 && waiting.revents & Int16(POLLOUT) != 0
    }
}
