import CEpoll
import Foundation

/// The system calls for writing files. Tests replace them to simulate failures. Each sets `errno` on failure.
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
    /// Locks the file, without waiting.
    package var lock: @Sendable (_ descriptor: Int32) -> Int32 = { flock($0, LOCK_EX | LOCK_NB) }
    /// Releases the lock, even if a duplicate of the descriptor is still open.
    package var unlock: @Sendable (_ descriptor: Int32) -> Int32 = { flock($0, LOCK_UN) }
    package var duplicate: @Sendable (_ descriptor: Int32) -> Int32 = { fcntl($0, F_DUPFD_CLOEXEC, 0) }
    package var close: @Sendable (_ descriptor: Int32) -> Int32 = { Glibc.close($0) }
    package var rename: @Sendable (_ path: String, _ newPath: String) -> Int32 = { Glibc.rename($0, $1) }
    /// Renames a file like `rename`, but fails with `EEXIST` if the new name already exists.
    package var renameWithoutReplacing: @Sendable (_ path: String, _ newPath: String) -> Int32 = {
        cepoll_rename_without_replacing($0, $1)
    }
    package var link: @Sendable (_ path: String, _ newPath: String) -> Int32 = { Glibc.link($0, $1) }
    /// Gives an open unnamed file its first name. Fails with `EEXIST` if the name already exists.
    package var name: @Sendable (_ descriptor: Int32, _ path: String) -> Int32 = { cepoll_name_file($0, $1) }
    package var writeAt: @Sendable (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int64) -> Int = {
        pwrite($0, $1.baseAddress, $1.count, off_t($2))
    }
    package var readAt: @Sendable (_ descriptor: Int32, _ bytes: UnsafeMutableRawBufferPointer, _ offset: Int64) -> Int = {
        pread($0, $1.baseAddress, $1.count, off_t($2))
    }
    package var truncate: @Sendable (_ descriptor: Int32, _ length: Int64) -> Int32 = { ftruncate($0, off_t($1)) }
    /// Reserves space for a file, without changing its length.
    package var allocate: @Sendable (_ descriptor: Int32, _ length: Int64) -> Int32 = { cepoll_allocate($0, $1) }
    /// Waits until a file's bytes, and the metadata needed to read them, are on disk.
    package var synchronizeData: @Sendable (_ descriptor: Int32) -> Int32 = { fdatasync($0) }
    /// Waits until a file or a directory is on disk.
    package var synchronize: @Sendable (_ descriptor: Int32) -> Int32 = { fsync($0) }
    /// Sets the modification time of a file, in seconds since 1970.
    package var setModificationTime: @Sendable (_ descriptor: Int32, _ seconds: Int64) -> Int32 = { descriptor, seconds in
        let time = timespec(tv_sec: Int(seconds), tv_nsec: 0)
        return futimens(descriptor, [time, time])
    }
    /// Sets the permissions of an open file, regardless of the process's umask.
    package var setMode: @Sendable (_ descriptor: Int32, _ mode: mode_t) -> Int32 = { fchmod($0, $1) }
    package var unlink: @Sendable (_ path: String) -> Int32 = { Glibc.unlink($0) }
    /// A string that identifies an open file on its disk; see `FileIdentity`.
    package var mark: @Sendable (_ descriptor: Int32) -> String? = { FileIdentity.mark(of: $0) }

    /// Creates the real system calls.
    package init() {}
}

/// The error of a system call.
package struct SystemError: Error, Hashable, Sendable {
    /// The `errno` of the call.
    package let code: Int32

    /// - Parameter code: The `errno`; by default, the one of this thread's last failed system call.
    package init(code: Int32 = errno) { self.code = code }

    /// Whether the process or the system has run out of file descriptors.
    package var lacksDescriptor: Bool { code == EMFILE || code == ENFILE }

    /// The system's error message.
    package var text: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Returns the error in `NSPOSIXErrorDomain`, with the path of the file.
    package func error(path: String?) -> NSError {
        var userInfo: [String: Any] = [NSLocalizedDescriptionKey: text]
        userInfo[NSFilePathErrorKey] = path
        return NSError(domain: NSPOSIXErrorDomain, code: Int(code), userInfo: userInfo)
    }
}

/// The identity of a file, independent of its name.
package struct FileIdentity: Equatable {
    private let device: dev_t
    private let number: ino_t
    package let isRegular: Bool
    /// Whether the file is a regular file with only one hard link.
    package let isPlain: Bool
    /// Whether the file belongs to the current user or to root.
    package let isOwn: Bool
    /// The reason the file cannot be trusted as a private file; nil if it can.
    package let flaw: PrivateFileProblem?

    /// Reads the identity of an open file. Returns nil if `fstat` fails.
    package init?(_ descriptor: Int32) {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return nil }
        self.init(information)
    }

    /// Reads the identity of the file at a path, without following links. Returns nil if the file does not exist.
    package init?(_ path: String) {
        var information = stat()
        guard lstat(path, &information) == 0 else { return nil }
        self.init(information)
    }

    private init(_ information: stat) {
        device = information.st_dev
        number = information.st_ino
        isRegular = information.st_mode & S_IFMT == S_IFREG
        isPlain = isRegular && information.st_nlink == 1
        isOwn = information.st_uid == geteuid() || information.st_uid == 0
        flaw = PrivateFileProblem(ofFile: information)
    }

    package static func == (one: Self, other: Self) -> Bool {
        one.device == other.device && one.number == other.number
    }

    /// Returns a string that identifies an open file among all files on its disk, even after the disk is detached and
    /// reattached: the inode number and the creation time, which another user cannot predict. If the file system does
    /// not record creation times, the device number is used instead. Returns nil if `fstat` fails.
    package static func mark(of descriptor: Int32) -> String? {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return nil }
        let time = cepoll_birth_time(descriptor)
        return "\(information.st_ino) \(time != 0 ? "made \(time)" : "on \(information.st_dev)")"
    }
}

/// Properties of the file system of an open file.
package enum FileSystem {
    /// Returns whether the file system is on a local disk or in memory, so that writing does not wait for another
    /// program or machine.
    package static func isLocal(_ descriptor: Int32) -> Bool { local.contains(type(of: descriptor)) }

    /// Returns whether reserving space is cheap. It is expensive on in-memory file systems, which fill the space with
    /// zeros.
    package static func reserves(_ descriptor: Int32) -> Bool {
        let type = type(of: descriptor)
        return local.contains(type) && type != tmpfs && type != ramfs
    }

    /// Returns the number of bytes available to users other than root, or nil if the system call fails.
    package static func freeSpace(_ descriptor: Int32) -> Int64? {
        var information = statvfs()
        return fstatvfs(descriptor, &information) == 0 ? freeSpace(information) : nil
    }

    /// Returns the number of bytes available to users other than root on the file system of a directory.
    package static func freeSpace(at path: String) -> Int64? {
        var information = statvfs()
        return statvfs(path, &information) == 0 ? freeSpace(information) : nil
    }

    private static func freeSpace(_ information: statvfs) -> Int64? {
        let (bytes, isTooMany) = UInt64(information.f_bavail).multipliedReportingOverflow(by: UInt64(information.f_frsize))
        return isTooMany ? .max : Int64(clamping: bytes)
    }

    private static func type(of descriptor: Int32) -> UInt64 { UInt64(cepoll_file_system_type(descriptor)) }

    private static let tmpfs: UInt64 = 0x0102_1994
    private static let ramfs: UInt64 = 0x8584_58F6

    /// The magic numbers of local file systems in `statfs(2)`: ext2 to ext4, XFS, Btrfs, tmpfs, ramfs, overlayfs, F2FS,
    /// ZFS, bcachefs.
    private static let local: Set<UInt64> = [
        0xEF53, 0x5846_5342, 0x9123_683E, tmpfs, ramfs, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E,
    ]
}
