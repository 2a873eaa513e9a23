import CEpoll
import Foundation

/// A file that is being written: in its place, or under the name of a partial file until it is whole.
///
/// A partial file is created, and nobody else's is written to: no link is followed, and who else takes it over while it
/// is written finds it locked, where the file system has locks. `commit()` closes it and gives it its name in one step,
/// over no other file unless it may replace one. Not committed, it is removed when it is discarded or let go of.
///
/// It belongs to one thread at a time, which may have to wait for a disk or another machine.
package final class FileWriter {
    /// The file.
    package let path: String
    /// Where the bytes are until `commit()`; nil for a file that is written in its place.
    package let partialPath: String?
    private let replaces: Bool
    private let mode: mode_t
    private let calls: FileCalls
    private var descriptor: Int32 = -1
    /// The partial file that was opened, as long as it has its name from here.
    private var partial: FileIdentity?
    private var hasLock = false
    /// Whether it was closed: it is not opened again.
    private var isOver = false

    package var isOpen: Bool { descriptor >= 0 }

    /// A file that is written in its place. It is not open yet.
    package init(inPlace path: String, calls: FileCalls = FileCalls()) {
        (self.path, partialPath, replaces, mode, self.calls) = (path, nil, true, 0o666, calls)
    }

    /// A file that is written under another name first, in the same directory. It is not open yet.
    ///
    /// - Parameters:
    ///   - replaces: whether it may take the place of another file, and of a partial file that nobody writes any more.
    ///   - mode: its rights, less those that the process's mask forbids.
    package init(
        path: String, partialPath: String, replaces: Bool, mode: mode_t = 0o666, calls: FileCalls = FileCalls()
    ) {
        (self.path, self.partialPath, self.replaces, self.mode, self.calls) = (path, partialPath, replaces, mode, calls)
    }

    deinit { discard() }

    // MARK: Opening

    /// Opens the file, and creates it if it is not there.
    ///
    /// - Parameter keepsContents: whether a file that is written in its place keeps what it holds, to be written over.
    ///   A partial file never does.
    package func open(keepsContents: Bool = false) throws(FileWritingError) {
        guard !isOpen else { return }
        guard !isOver else { throw FileWritingError(.cannotWrite, path, EBADF) }
        guard let partialPath else {
            descriptor = try opened(path, keepsContents ? 0 : O_TRUNC)
            return
        }
        do throws(FileWritingError) {
            try openPartial(partialPath)
        } catch {
            discard()
            throw error
        }
    }

    private func openPartial(_ path: String) throws(FileWritingError) {
        // Not through a link, and without waiting for a reader of a pipe.
        let flags = O_NOFOLLOW | O_NONBLOCK
        do throws(FileWritingError) {
            descriptor = try opened(path, flags | O_EXCL)
            partial = FileIdentity(descriptor)
        } catch {
            guard error.reason == .exists else { throw error }
            guard replaces else { throw FileWritingError(.partialExists, path, error.cause.code) }
            descriptor = try opened(path, flags)
        }
        let isNew = partial != nil
        let found = FileIdentity(descriptor)
        guard let found, found.isPlain, lock() != .heldByAnother, found == FileIdentity(path) else {
            // Another run that was told to replace the file writes it, or has given it its name meanwhile.
            partial = nil
            throw shared(path)
        }
        partial = found
        if isNew { return }
        if hasLock { return try rewind() }
        // Nobody can tell whether it is still being written: it is left to whoever does, without its name.
        partial = nil
        _ = calls.close(descriptor)
        descriptor = -1
        guard calls.unlink(path) == 0 else { throw failure(.cannotCreate, path) }
        do throws(FileWritingError) {
            descriptor = try opened(path, flags | O_EXCL)
        } catch {
            throw error.reason == .exists ? shared(path) : error
        }
        partial = FileIdentity(descriptor)
    }

    private enum Lock { case ours, heldByAnother, unsupported }

    /// Locks the file until its last descriptor is closed.
    private func lock() -> Lock {
        hasLock = calls.lock(descriptor) == 0
        return hasLock ? .ours : errno == EWOULDBLOCK ? .heldByAnother : .unsupported
    }

    private func shared(_ path: String) -> FileWritingError {
        FileWritingError(.partialIsShared, path, EBUSY)
    }

    private func opened(_ path: String, _ flags: Int32) throws(FileWritingError) -> Int32 {
        let flags = flags | O_WRONLY | O_CREAT | O_CLOEXEC
        var opened: Int32
        repeat { opened = calls.open(path, flags, mode) } while opened < 0 && errno == EINTR
        if opened < 0 { throw failure(.cannotCreate, path) }
        return opened
    }

    // MARK: Writing

    /// Writes as much of it as one call takes. Returns how much that is.
    package func writeSome(_ bytes: UnsafeRawBufferPointer) throws(FileWritingError) -> Int {
        while true {
            let count = calls.write(descriptor, bytes)
            if count >= 0 { return count }
            if errno != EINTR { throw failure(.cannotWrite, writtenPath) }
        }
    }

    /// Writes all of it, however many calls that takes.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(FileWritingError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = try writeSome(rest)
            guard count > 0 else { throw FileWritingError(.cannotWrite, writtenPath, EIO) }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
        }
    }

    /// Empties the file, and writes on from its start.
    package func rewind() throws(FileWritingError) {
        guard calls.empty(descriptor) == 0 else { throw failure(.cannotWrite, writtenPath) }
    }

    private var writtenPath: String { partialPath ?? path }

    // MARK: Ending

    /// Closes a file that is written in its place. Some file systems report only now that there was no room.
    package func close() throws(FileWritingError) { try checkedClose(writtenPath) }

    /// The file is whole: closes it and gives it its name. It need not have been opened; then it is empty.
    ///
    /// After an error nothing has its name, and the partial file is there until it is discarded.
    package func commit() throws(FileWritingError) {
        try open()
        guard let partialPath else { return try close() }
        guard partial != nil, partial == FileIdentity(partialPath) else { throw shared(partialPath) }
        // What is closed is not what is locked: until the file has its name, no other run may take over the partial one.
        let held = calls.duplicate(descriptor)
        defer { if held >= 0 { _ = calls.close(held) } }
        try checkedClose(partialPath)
        if replaces {
            guard calls.rename(partialPath, path) == 0 else { throw failure(.cannotCreate, path) }
        } else {
            try nameWithoutReplacing(partialPath)
        }
        partial = nil
    }

    /// Closes the file, and removes the partial file if there is one that is not somebody else's.
    package func discard() {
        // Before the lock ends.
        if let partial, let partialPath, partial == FileIdentity(partialPath) { _ = calls.unlink(partialPath) }
        partial = nil
        isOver = true
        try? checkedClose(writtenPath)
    }

    private func nameWithoutReplacing(_ partialPath: String) throws(FileWritingError) {
        if calls.renameWithoutReplacing(partialPath, path) == 0 { return }
        guard [EINVAL, ENOSYS, ENOTSUP].contains(errno) else { throw failure(.cannotCreate, path) }
        // A file system that cannot do that: a second name, then without the first.
        if calls.link(partialPath, path) == 0 {
            _ = calls.unlink(partialPath)
            return
        }
        guard [EPERM, ENOTSUP, ENOSYS, EMLINK].contains(errno) else { throw failure(.cannotCreate, path) }
        // Nor hard links: an empty file reserves the name, and is replaced.
        let reserved = try opened(path, O_EXCL | O_NOFOLLOW)
        _ = calls.close(reserved)
        guard calls.rename(partialPath, path) == 0 else {
            let failure = failure(.cannotCreate, path)
            _ = calls.unlink(path)
            throw failure
        }
    }

    private func checkedClose(_ path: String) throws(FileWritingError) {
        guard isOpen else { return }
        let closing = descriptor
        (descriptor, isOver) = (-1, true)
        // Interrupted, it is closed all the same.
        guard calls.close(closing) == 0 || errno == EINTR else { throw failure(.cannotWrite, path) }
    }

    private func failure(_ reason: FileWritingError.Reason, _ path: String) -> FileWritingError {
        let code = errno
        return FileWritingError(code == EEXIST ? .exists : reason, path, code)
    }

    // MARK: Facts

    /// How many bytes an open file holds; nil for what is no plain file, or if the system does not say.
    package var plainSize: Int64? {
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int64(information.st_size)
    }

    /// Whether an open file is a plain one on a disk or in the memory of this machine: then writing waits for no other
    /// program and no other machine.
    package var isOnLocalDisk: Bool {
        plainSize != nil && Self.localFileSystems.contains(UInt64(cepoll_file_system_type(descriptor)))
    }

    /// The magic numbers of `statfs(2)`: ext2 to ext4, XFS, Btrfs, tmpfs, ramfs, overlayfs, F2FS, ZFS, bcachefs.
    private static let localFileSystems: Set<UInt64> = [
        0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x8584_58F6, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E,
    ]
}
