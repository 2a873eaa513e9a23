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

    /// Writes the whole text.
    static func write(_ text: String, to descriptor: Int32) throws(SystemError) {
        var text = text
        let result = text.withUTF8 { bytes in
            Result { () throws(SystemError) in try write(UnsafeRawBufferPointer(bytes), to: descriptor) }
        }
        try result.get()
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
