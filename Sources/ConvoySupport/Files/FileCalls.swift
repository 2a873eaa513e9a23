import CEpoll
import Foundation

/// The system calls of those who write files, which tests replace to make each of them fail. They set `errno`.
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
    /// Releases the lock, whoever else has a duplicate of the descriptor.
    package var unlock: @Sendable (_ descriptor: Int32) -> Int32 = { flock($0, LOCK_UN) }
    package var duplicate: @Sendable (_ descriptor: Int32) -> Int32 = { fcntl($0, F_DUPFD_CLOEXEC, 0) }
    package var close: @Sendable (_ descriptor: Int32) -> Int32 = { Glibc.close($0) }
    package var rename: @Sendable (_ path: String, _ newPath: String) -> Int32 = { Glibc.rename($0, $1) }
    /// Like `rename`, but fails with `EEXIST` if the new name is taken.
    package var renameWithoutReplacing: @Sendable (_ path: String, _ newPath: String) -> Int32 = {
        cepoll_rename_without_replacing($0, $1)
    }
    package var link: @Sendable (_ path: String, _ newPath: String) -> Int32 = { Glibc.link($0, $1) }
    package var writeAt: @Sendable (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int64) -> Int = {
        pwrite($0, $1.baseAddress, $1.count, off_t($2))
    }
    package var readAt: @Sendable (_ descriptor: Int32, _ bytes: UnsafeMutableRawBufferPointer, _ offset: Int64) -> Int = {
        pread($0, $1.baseAddress, $1.count, off_t($2))
    }
    package var truncate: @Sendable (_ descriptor: Int32, _ length: Int64) -> Int32 = { ftruncate($0, off_t($1)) }
    /// Reserves space for a file, without changing its length.
    package var allocate: @Sendable (_ descriptor: Int32, _ length: Int64) -> Int32 = { cepoll_allocate($0, $1) }
    /// Waits until the bytes of a file are on the disk, and what is needed to read them.
    package var synchronizeData: @Sendable (_ descriptor: Int32) -> Int32 = { fdatasync($0) }
    /// Waits until a file or a directory is on the disk.
    package var synchronize: @Sendable (_ descriptor: Int32) -> Int32 = { fsync($0) }
    /// Sets when the file was last modified, in seconds since 1970.
    package var setModificationTime: @Sendable (_ descriptor: Int32, _ seconds: Int64) -> Int32 = { descriptor, seconds in
        let time = timespec(tv_sec: Int(seconds), tv_nsec: 0)
        return futimens(descriptor, [time, time])
    }
    /// Sets the permissions of an open file, whatever the process's umask is.
    package var setMode: @Sendable (_ descriptor: Int32, _ mode: mode_t) -> Int32 = { fchmod($0, $1) }
    package var unlink: @Sendable (_ path: String) -> Int32 = { Glibc.unlink($0) }
    /// What tells an open file from others on its disk; see `FileIdentity`.
    package var mark: @Sendable (_ descriptor: Int32) -> String? = { FileIdentity.mark(of: $0) }

    /// The real system calls.
    package init() {}
}
