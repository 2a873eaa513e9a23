import CEpoll
import Foundation

/// The system calls that a ``FileWriter`` makes, which tests replace to make each of them fail. They set `errno`.
package struct FileCalls: Sendable {
    package var open: @Sendable (_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 = { path, flags, mode in
        Glibc.open(path, flags, mode)
    }
    package var write: @Sendable (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int = { descriptor, bytes in
        Glibc.write(descriptor, bytes.baseAddress, bytes.count)
    }
    /// Truncates the file to zero bytes, and seeks to its start.
    package var empty: @Sendable (_ descriptor: Int32) -> Int32 = { descriptor in
        ftruncate(descriptor, 0) == 0 && lseek(descriptor, 0, SEEK_SET) == 0 ? 0 : -1
    }
    /// Locks the file, if that is possible without waiting.
    package var lock: @Sendable (_ descriptor: Int32) -> Int32 = { flock($0, LOCK_EX | LOCK_NB) }
    package var duplicate: @Sendable (_ descriptor: Int32) -> Int32 = { fcntl($0, F_DUPFD_CLOEXEC, 0) }
    package var close: @Sendable (_ descriptor: Int32) -> Int32 = { Glibc.close($0) }
    package var rename: @Sendable (_ path: String, _ newPath: String) -> Int32 = { Glibc.rename($0, $1) }
    /// Like `rename`, but fails with `EEXIST` if the new name is taken.
    package var renameWithoutReplacing: @Sendable (_ path: String, _ newPath: String) -> Int32 = {
        cepoll_rename_without_replacing($0, $1)
    }
    package var link: @Sendable (_ path: String, _ newPath: String) -> Int32 = { Glibc.link($0, $1) }
    package var unlink: @Sendable (_ path: String) -> Int32 = { Glibc.unlink($0) }

    /// The real system calls.
    package init() {}
}
