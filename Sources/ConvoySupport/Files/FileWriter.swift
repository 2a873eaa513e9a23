import Foundation

/// Writes a file: in place, or under the name of a partial file until it is complete.
///
/// A partial file is never shared with another writer: links are not followed, files of other users are rejected, and
/// the file is locked during writing if the file system supports locks. `commit()` closes it and renames it atomically,
/// replacing an existing file only if `replaces` is set. If the writer is discarded or deallocated without a commit,
/// the partial file is removed.
///
/// A writer is not thread-safe. Calls may block on a disk or on another machine.
package final class FileWriter {
    /// The path of the file.
    package let path: String
    /// The path of the partial file; nil if the file is written in place.
    package private(set) var partialPath: String?
    /// The path with links resolved.
    private var target: String
    private let replaces: Bool
    private let mode: mode_t
    /// Whether the partial file must be newly created with exactly mode 0600, regardless of the umask, and synchronized
    /// before the rename.
    private let isPrivate: Bool
    private let calls: FileCalls
    private var descriptor: Int32 = -1
    /// The identity of the open partial file, while this writer may rename or remove it.
    private var partial: FileIdentity?
    private var hasLock = false
    /// Whether the writer has been closed permanently.
    private var isOver = false
    /// Whether all written bytes are on disk.
    private var isSynchronized = false

    package var isOpen: Bool { descriptor >= 0 }

    /// Creates a writer that writes a file in place, without opening the file.
    package init(inPlace path: String, calls: FileCalls = FileCalls()) {
        self.path = path
        partialPath = nil
        replaces = true
        mode = 0o666
        self.calls = calls
        target = path
        isPrivate = false
    }

    /// Creates a writer for a file that only its owner may read, without opening the file.
    ///
    /// The partial file has a random name in the same directory. Another user can therefore not prepare it in advance,
    /// and no existing file of the current user is overwritten. After `commit()`, both the file and its name are on
    /// disk.
    ///
    /// - Parameter replaces: Whether an existing file may be replaced.
    package init(private path: String, replaces: Bool = true, calls: FileCalls = FileCalls()) {
        let digits = [UInt64.random(in: .min ... .max), .random(in: .min ... .max)].map { String($0, radix: 36) }
        partialPath = PathText.join(PathText.directory(of: path), ".\(digits.joined()).convoy")
        self.path = path
        self.replaces = replaces
        mode = PrivateFile.mode
        isPrivate = true
        self.calls = calls
        target = path
    }

    /// Creates a writer that uses a temporary name in the same directory until the file is complete. Opens no file.
    ///
    /// - Parameter replaces: Whether an existing file may be replaced. The same applies to a partial file, unless
    ///   another writer has locked it.
    package init(path: String, partialPath: String, replaces: Bool, calls: FileCalls = FileCalls()) {
        self.path = path
        self.partialPath = partialPath
        self.replaces = replaces
        mode = 0o666
        self.calls = calls
        target = path
        isPrivate = false
    }

    deinit { discard() }

    // MARK: Opening

    /// Opens and empties the file, or creates it.
    ///
    /// - Parameter waits: Whether to wait for a reader if the file is a pipe that is written in place.
    package func open(waits: Bool = true) throws(FileWritingError) {
        guard !isOpen else { return }
        guard !isOver else { throw FileWritingError(.cannotWrite, path, EBADF) }
        guard partialPath != nil else {
            descriptor = try opened(path, waits ? O_TRUNC : O_TRUNC | O_NONBLOCK)
            return
        }
        if replaces { try followLink() }
        guard let partialPath else { return }
        do throws(FileWritingError) {
            try openPartial(partialPath)
        } catch {
            // If no descriptor was available, no file was opened, and the caller can retry.
            if !error.cause.lacksDescriptor { discard() }
            throw error
        }
    }

    /// Opens a file that is written in place, without changing it. Returns false if it does not exist but can be
    /// created.
    package func openExisting() throws(FileWritingError) -> Bool {
        guard !isOver else { throw FileWritingError(.cannotWrite, path, EBADF) }
        do throws(FileWritingError) {
            descriptor = try opened(path, 0, creates: false)
            return true
        } catch {
            guard error.cause.code == ENOENT, !path.isEmpty else { throw error }
            // The target of a link may be in another directory, which is not checked here.
            guard isLink || access(PathText.directory(of: path), W_OK | X_OK) == 0 else {
                throw failure(.cannotCreate, path)
            }
            return false
        }
    }

    private var isLink: Bool {
        var information = stat()
        return lstat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFLNK
    }

    /// Moves the partial file's path to the directory of the link's target, which may be on a different disk than the
    /// link.
    private func followLink() throws(FileWritingError) {
        target = try FileRenaming.target(of: path)
        let directory = PathText.directory(of: target)
        guard let partialPath, PathText.directory(of: path) != directory else { return }
        self.partialPath = PathText.join(directory, PathText.name(of: partialPath))
    }

    private func openPartial(_ path: String) throws(FileWritingError) {
        // Do not follow links, and do not wait for the reader of a pipe.
        let flags = O_NOFOLLOW | O_NONBLOCK
        do throws(FileWritingError) {
            descriptor = try opened(path, flags | O_EXCL)
            partial = FileIdentity(descriptor)
        } catch {
            guard error.reason == .exists, !isPrivate else { throw error }
            guard replaces else { throw FileWritingError(.partialExists, path, error.cause.code) }
            descriptor = try opened(path, flags)
        }
        let isNew = partial != nil
        let found = FileIdentity(descriptor)
        guard let found, found.isPlain, isNew || found.isOwn, isPrivate || lock() != .heldByAnother,
            found == FileIdentity(path)
        else {
            // Another writer is using the partial file or has just renamed it, or it belongs to another user.
            partial = nil
            throw shared(path)
        }
        partial = found
        if isPrivate, calls.setMode(descriptor, mode) != 0 { throw failure(.cannotCreate, path) }
        if isNew { return }
        if hasLock { return try rewind() }
        // The file system does not support locks, so another writer may still be using the file. That writer keeps its
        // open file, but the name is removed.
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

    private func opened(_ path: String, _ flags: Int32, creates: Bool = true) throws(FileWritingError) -> Int32 {
        let flags = flags | O_WRONLY | (creates ? O_CREAT : 0) | O_CLOEXEC
        var opened: Int32
        repeat { opened = calls.open(path, flags, mode) } while opened < 0 && errno == EINTR
        if opened < 0 { throw failure(.cannotCreate, path) }
        return opened
    }

    // MARK: Writing

    /// Writes as many bytes as a single call accepts, and returns their number.
    package func writeSome(_ bytes: UnsafeRawBufferPointer) throws(FileWritingError) -> Int {
        isSynchronized = false
        while true {
            let count = calls.write(descriptor, bytes)
            if count >= 0 { return count }
            if errno != EINTR { throw failure(.cannotWrite, writtenPath) }
        }
    }

    /// Writes all bytes, with as many calls as needed.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(FileWritingError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = try writeSome(rest)
            guard count > 0 else { throw FileWritingError(.cannotWrite, writtenPath, EIO) }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
        }
    }

    /// Writes an array. Uses a `Result`, because the closure of `withUnsafeBytes` cannot throw typed errors.
    package func write(_ bytes: [UInt8]) throws(FileWritingError) {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(FileWritingError) in try write(bytes) }
        }
        try result.get()
    }

    /// Truncates the file and continues writing at its start.
    package func rewind() throws(FileWritingError) {
        isSynchronized = false
        guard calls.empty(descriptor) == 0 else { throw failure(.cannotWrite, writtenPath) }
    }

    private var writtenPath: String { partialPath ?? path }

    // MARK: Ending

    /// Closes a file that is written in place. Some file systems report a lack of space only at this point.
    package func close() throws(FileWritingError) { try checkedClose(writtenPath) }

    /// Closes the complete file and gives it its final name. Creates an empty file if the writer was never opened.
    ///
    /// If this fails, no new file exists under the final name, and the partial file remains until it is discarded.
    package func commit() throws(FileWritingError) {
        try open()
        guard let partialPath else { return try close() }
        guard partial != nil, partial == FileIdentity(partialPath) else { throw shared(partialPath) }
        try synchronize()
        // The duplicated descriptor keeps the lock, so that no other writer can take over the partial file before the
        // rename. If no descriptor is available, the file is closed after the rename instead. A private file needs no
        // lock, because no other writer uses its random name.
        let held = isPrivate ? -1 : calls.duplicate(descriptor)
        defer { if held >= 0 { _ = calls.close(held) } }
        let isClosed = isPrivate || held >= 0
        if isClosed { try checkedClose(partialPath) }
        try FileRenaming(calls: calls).rename(partialPath, to: target, replaces: replaces, keepsMode: !isPrivate)
        partial = nil
        if !isClosed { try checkedClose(target) }
        if isPrivate { synchronizeDirectory() }
    }

    /// Waits until all written bytes are on disk. `commit()` calls this, so that a power failure cannot leave wrong
    /// bytes under the name of the replaced file.
    package func synchronize() throws(FileWritingError) {
        try open()
        while !isSynchronized, (isPrivate ? calls.synchronize : calls.synchronizeData)(descriptor) != 0 {
            // Some file systems do not support synchronization.
            if [EINVAL, ENOSYS, ENOTSUP, EROFS].contains(errno) { break }
            if errno != EINTR { throw failure(.cannotWrite, writtenPath) }
        }
        isSynchronized = true
    }

    /// Synchronizes the directory. Without this, a power failure may restore the old file. Failures are ignored, as the
    /// new file is complete.
    private func synchronizeDirectory() {
        let folder = calls.open(PathText.directory(of: target), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        guard folder >= 0 else { return }
        defer { _ = calls.close(folder) }
        _ = calls.synchronize(folder)
    }

    /// Closes the file, and removes the partial file if it belongs to this writer.
    package func discard() {
        // Remove the file while the lock is still held.
        if let partial, let partialPath, partial == FileIdentity(partialPath) { _ = calls.unlink(partialPath) }
        partial = nil
        isOver = true
        try? checkedClose(writtenPath)
    }

    private func checkedClose(_ path: String) throws(FileWritingError) {
        guard isOpen else { return }
        let closing = descriptor
        descriptor = -1
        isOver = true
        // A `close` that fails with `EINTR` has still closed the descriptor.
        guard calls.close(closing) == 0 || errno == EINTR else { throw failure(.cannotWrite, path) }
    }

    private func failure(_ reason: FileWritingError.Reason, _ path: String) -> FileWritingError {
        let code = errno
        return FileWritingError(code == EEXIST ? .exists : reason, path, code)
    }

    // MARK: Properties

    /// The size of an open regular file; nil for other files, or if `fstat` fails.
    package var plainSize: Int64? {
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int64(information.st_size)
    }

    /// Whether an open file is a regular file on a local disk or in memory, so that writing does not wait for another
    /// program or machine.
    package var isOnLocalDisk: Bool { plainSize != nil && FileSystem.isLocal(descriptor) }

    /// Whether the directory of a file that does not exist yet is on a local disk or in memory.
    package var isFolderOnLocalDisk: Bool {
        let folder = calls.open(PathText.directory(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        guard folder >= 0 else { return false }
        defer { _ = calls.close(folder) }
        return !isLink && FileSystem.isLocal(folder)
    }
}
