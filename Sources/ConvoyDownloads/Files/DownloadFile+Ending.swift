import CEpoll
import ConvoySupport
import Foundation

/// Commits the file under its final name, or closes or removes the files.
extension DownloadFile {
    /// Writes all bytes to the disk, so that only the rename is left. Otherwise, a power failure could replace an
    /// existing file with an incomplete one. If nothing was written, the file is empty. This method can be called
    /// repeatedly.
    ///
    /// - Parameters:
    ///   - synchronizes: Whether the committed file and its directory must survive a power failure.
    ///   - total: The required length.
    package func secure(synchronizes: Bool, total: Int64) throws(FileWritingError) {
        if synchronizes, state.withLock({ $0.folder < 0 }) {
            let folder = try openDirectory()
            state.withLock { $0.folder = folder }
        }
        if !secureUnnamed(synchronizes: synchronizes, total) { try securePartial(synchronizes: synchronizes, total) }
        state.withLock { $0.isSecured = true }
    }

    private func securePartial(synchronizes: Bool, _ total: Int64) throws(FileWritingError) {
        if !state.withLock({ $0.isPrepared }) { try prepare() }
        guard try size() == total else { throw FileWritingError(.partialIsShared, path, EBUSY) }
        if let modified = state.withLock({ $0.modified }) { _ = calls.setModificationTime(descriptor, modified) }
        if !secures(descriptor, synchronizes ? calls.synchronize : calls.synchronizeData), synchronizes {
            throw FileWritingError(.cannotWrite, path, errno)
        }
        if let code = state.withLock({ $0.lossCode }) { throw FileWritingError(.cannotWrite, path, code) }
        if !isOnLocalFileSystem { try closeEarly() }
    }

    /// Moves the file to its final name, and removes the journal.
    ///
    /// - Parameters:
    ///   - replaces: Whether to replace an existing file with that name. If false, an existing file is an error.
    ///   - synchronizes: Whether the file and its directory must be on the disk when this returns.
    ///   - total: The required length.
    package func commit(
        as name: String, replaces: Bool, synchronizes: Bool, total: Int64
    ) throws(FileWritingError) {
        if !state.withLock({ $0.isSecured }) { try secure(synchronizes: synchronizes, total: total) }
        defer { closeFolder() }
        if state.withLock({ $0.unnamed >= 0 }) {
            if !replaces, try nameUnnamed(name) { return synchronizes ? try synchronizeFolder() : () }
            dropUnnamed()
            try securePartial(synchronizes: synchronizes, total)
        }
        endJournal()
        let path = path
        if let code = state.withLock({ $0.lossCode }) { throw FileWritingError(.cannotWrite, path, code) }
        guard FileIdentity(directory) != nil else { throw FileWritingError(.cannotWrite, directory, ENOENT) }
        let identity = state.withLock { $0.file.identity }
        guard identity != nil, identity == FileIdentity(path) else { throw FileWritingError(.partialIsShared, path, EBUSY) }
        try FileRenaming(calls: calls).rename(path, to: name, replaces: replaces)
        state.withLock { ($0.file.identity, $0.claimed) = (nil, 0) }
        defer { closeFiles(removingKept: true) }
        if synchronizes { try synchronizeFolder() }
        closeJournal(removing: true)
    }

    private func synchronizeFolder() throws(FileWritingError) { try synchronize(folder: state.withLock { $0.folder }) }

    private func closeFolder() {
        let folder = state.withLock { state in
            defer { state.folder = -1 }
            return state.folder
        }
        if folder >= 0 { _ = calls.close(folder) }
    }

    /// Closes the file through a duplicate descriptor, because some file systems report a lack of space only on
    /// closing.
    private func closeEarly() throws(FileWritingError) {
        // The duplicate keeps the lock, so that no other download can take over the partial file before the rename or
        // after a failure.
        let held = calls.duplicate(descriptor)
        guard held >= 0 else { throw FileWritingError(.cannotWrite, path, errno) }
        let closing = state.withLock { state in
            defer { state.file.descriptor = held }
            return state.file.descriptor
        }
        // Even an interrupted `close` closes the descriptor.
        guard calls.close(closing) == 0 || errno == EINTR else { throw FileWritingError(.cannotWrite, path, errno) }
    }

    /// Closes the files. Bytes claimed by the journal are kept for a later download; everything else is removed.
    package func close() {
        dropUnnamed()
        closeFolder()
        state.withLock { ($0.keepsInMemory, $0.memory) = (false, []) }
        guard descriptor >= 0 else { return closeJournal(removing: false) }
        endJournal()
        let (isKept, identity, isUseful) = state.withLock { state in
            defer { state.file.identity = nil }
            return (state.kept != nil, state.file.identity, state.journal >= 0 && state.claimed > 0)
        }
        // Unlink while the lock is still held.
        if isKept || !isUseful, let identity, identity == FileIdentity(path) { _ = calls.unlink(path) }
        closeJournal(removing: !isUseful)
        closeFiles(removingKept: !isUseful)
    }

    /// Closes the files and removes the written bytes. A partial file that was about to be replaced is kept.
    package func discard() {
        state.withLock { if $0.kept == nil { ($0.claimed, $0.claimsWrongBytes) = (0, false) } }
        close()
    }

    /// Prevents all later journal entries, and all later renames to the partial file. May wait for an entry that is
    /// being written.
    private func endJournal() { journalLock.withLock { _ in state.withLock { $0.isEnding = true } } }

    private func closeJournal(removing: Bool) {
        let journal = state.withLock { state in
            defer {
                state.journal = -1
                state.isEnding = true
            }
            return state.journal
        }
        guard journal >= 0 else { return }
        // The path may already belong to another download's journal.
        if removing, let own = FileIdentity(journal), own == FileIdentity(paths.journal) {
            _ = calls.unlink(paths.journal)
        }
        _ = calls.close(journal)
    }

    /// Closes the file being written, and the partial file that it would have replaced, which is removed on request.
    func closeFiles(removingKept: Bool = false) {
        let (file, kept) = state.withLock { state in
            defer { state.file = OpenFile() }
            return (state.file, state.kept.take())
        }
        release(file)
        guard let kept else { return }
        if removingKept, let identity = kept.identity, identity == FileIdentity(paths.partial) {
            _ = calls.unlink(paths.partial)
        }
        release(kept)
    }

    /// Unlocks a file and closes it. Without the unlock, a running synchronization would keep the lock through its
    /// duplicate descriptor.
    func release(_ file: OpenFile) {
        guard file.descriptor >= 0 else { return }
        _ = calls.unlock(file.descriptor)
        _ = calls.close(file.descriptor)
    }

    /// Sets the modification time of the file, in seconds since 1970. If the file system cannot store it, the file
    /// keeps the time of its last write.
    package func setModificationTime(_ time: Int64) { state.withLock { $0.modified = time } }

    /// Stores an extended attribute computed from the file's status. Has no effect if the file system does not support
    /// attributes.
    package func storeAttribute(_ name: String, _ value: (stat) -> [UInt8]) {
        let descriptor = descriptor
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return }
        let bytes = value(information)
        _ = cepoll_set_attribute(descriptor, name, bytes, bytes.count)
    }

    /// The available space in bytes, including that used by a partial file that will not be kept; nil if the system
    /// does not report it.
    package var availableSpace: Int64? {
        let (descriptor, isKept) = state.withLock {
            ($0.file.descriptor, !$0.isPrepared && $0.claimed > 0 && $0.kept == nil)
        }
        guard descriptor >= 0 else { return FileSystem.freeSpace(at: directory) }
        var information = stat()
        guard let free = FileSystem.freeSpace(descriptor), fstat(descriptor, &information) == 0 else { return nil }
        if isKept { return free }
        return free.addingReportingOverflow(Int64(information.st_blocks) * 512).partialValue
    }
}
