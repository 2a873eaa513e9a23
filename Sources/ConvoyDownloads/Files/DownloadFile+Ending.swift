import CEpoll
import ConvoySupport
import Foundation

/// The end: the file gets its name, or the files are closed or removed.
extension DownloadFile {
    /// Gives the file its final name, and removes the journal. If nothing was written, the file is empty.
    ///
    /// - Parameters:
    ///   - replaces: whether a file with that name is replaced; otherwise that is an error.
    ///   - synchronizes: whether the file and its directory are on the disk when this returns.
    ///   - total: the length that it must have.
    package func commit(
        as name: String, replaces: Bool, synchronizes: Bool, total: Int64
    ) throws(FileWritingError) {
        guard descriptor >= 0 else { throw FileWritingError(.cannotWrite, path, EBADF) }
        if !state.withLock({ $0.isPrepared }) { try prepare() }
        guard try size() == total else { throw FileWritingError(.partialIsShared, path, EBUSY) }
        if synchronizes, !secures(descriptor, calls.synchronize) { throw failure(.cannotWrite, path) }
        if let code = state.withLock({ $0.lossCode }) { throw FileWritingError(.cannotWrite, path, code) }
        guard FileIdentity(directory) != nil else { throw FileWritingError(.cannotWrite, directory, ENOENT) }
        guard identity != nil, identity == FileIdentity(path) else { throw FileWritingError(.partialIsShared, path, EBUSY) }
        if !isOnLocalFileSystem { try closeEarly() }
        try FileRenaming(calls: calls).rename(path, to: name, replaces: replaces)
        identity = nil
        defer { closeDescriptor() }
        if synchronizes { try synchronizeDirectory() }
        closeJournal(removing: true)
    }

    /// Closes the file under another descriptor. Some file systems report a lack of space only then.
    func closeEarly() throws(FileWritingError) {
        // The duplicate keeps the lock, so that no other download can take over the partial file before the rename, and
        // what is left of this one after a failure.
        let held = calls.duplicate(descriptor)
        guard held >= 0 else { throw failure(.cannotWrite, path) }
        let closing = state.withLock { state in
            defer { state.descriptor = held }
            return state.descriptor
        }
        // Even if interrupted, it is closed.
        guard calls.close(closing) == 0 || errno == EINTR else { throw failure(.cannotWrite, path) }
    }

    /// Ends the use of the files. What was written stays for a later download, if its journal can say what it is;
    /// otherwise it is removed.
    package func close() {
        guard descriptor >= 0 else { return closeJournal(removing: false) }
        journalLock.withLock { _ in if state.withLock({ $0.unclaimed > 0 }) { try? writeEntry() } }
        let (hasJournal, isOld) = state.withLock { ($0.journal >= 0, $0.hasOldContents) }
        let isUseful = hasJournal && (isOld || state.withLock { !$0.written.isEmpty && $0.representation != nil })
        // Before the lock is released.
        if !isUseful, let identity, identity == FileIdentity(path) { _ = calls.unlink(path) }
        identity = nil
        closeJournal(removing: !isUseful)
        closeDescriptor()
    }

    /// Ends the use of the files, and removes them.
    package func discard() {
        state.withLock { ($0.written, $0.representation, $0.hasOldContents) = (ByteRanges(), nil, false) }
        close()
    }

    func closeJournal(removing: Bool) {
        // A synchronization may be about to write an entry, and to make a journal for it.
        journalLock.withLock { _ in
            let journal = state.withLock { state in
                defer { (state.journal, state.hasEnded) = (-1, true) }
                return state.journal
            }
            guard journal >= 0 else { return }
            // By now its name may be that of another download's journal.
            if removing, let own = FileIdentity(journal), own == FileIdentity(journalPath) {
                _ = calls.unlink(journalPath)
            }
            _ = calls.close(journal)
        }
    }

    func closeDescriptor() {
        let closing = state.withLock { state in
            defer { state.descriptor = -1 }
            return state.descriptor
        }
        guard closing >= 0 else { return }
        // A synchronization that is under way has a duplicate, which would keep the lock until it is over.
        _ = calls.unlock(closing)
        _ = calls.close(closing)
    }

    func failure(_ reason: FileWritingError.Reason, _ path: String) -> FileWritingError {
        FileWritingError(reason, path, errno)
    }

    /// Says when the file was last modified, in seconds since 1970. Where that cannot be set, it is when it was written.
    package func setModificationTime(_ time: Int64) { _ = calls.setModificationTime(descriptor, time) }

    /// Stores an extended attribute, made of the length of the file and of the time when it was last modified, in seconds
    /// since 1970. Where there are no attributes, nothing happens.
    package func storeAttribute(_ name: String, _ value: (_ length: Int64, _ time: Int64) -> [UInt8]) {
        let descriptor = descriptor
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return }
        let bytes = value(Int64(information.st_size), Int64(information.st_mtim.tv_sec))
        _ = cepoll_set_attribute(descriptor, name, bytes, bytes.count)
    }

    /// How many bytes there is room for, with those that the partial file has; nil if the system does not tell.
    package var availableSpace: Int64? {
        let descriptor = descriptor
        var information = stat()
        guard let free = FileSystem.freeSpace(descriptor), fstat(descriptor, &information) == 0 else { return nil }
        return free.addingReportingOverflow(Int64(information.st_blocks) * 512).partialValue
    }
}
