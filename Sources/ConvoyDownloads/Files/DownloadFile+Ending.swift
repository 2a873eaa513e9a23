import CEpoll
import ConvoySupport
import Foundation

/// The end: the file gets its name, or the files are closed or removed.
extension DownloadFile {
    /// Brings the bytes onto the disk, so that nothing is left but to give the file its name: there may be an old file, which
    /// a power cut must not turn into half of a new one. If nothing was written, the file is empty. Can be repeated.
    ///
    /// - Parameters:
    ///   - synchronizes: whether the file and its directory are on the disk when it has been committed.
    ///   - total: the length that it must have.
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
            throw failure(.cannotWrite, path)
        }
        if let code = state.withLock({ $0.lossCode }) { throw FileWritingError(.cannotWrite, path, code) }
        if !isOnLocalFileSystem { try closeEarly() }
    }

    /// Gives the file its final name, and removes the journal.
    ///
    /// - Parameters:
    ///   - replaces: whether a file with that name is replaced; otherwise that is an error.
    ///   - synchronizes: whether the file and its directory are on the disk when this returns.
    ///   - total: the length that it must have.
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

    /// Closes the file under another descriptor. Some file systems report a lack of space only then.
    private func closeEarly() throws(FileWritingError) {
        // The duplicate keeps the lock, so that no other download can take over the partial file before the rename, and
        // what is left of this one after a failure.
        let held = calls.duplicate(descriptor)
        guard held >= 0 else { throw failure(.cannotWrite, path) }
        let closing = state.withLock { state in
            defer { state.file.descriptor = held }
            return state.file.descriptor
        }
        // Even if interrupted, it is closed.
        guard calls.close(closing) == 0 || errno == EINTR else { throw failure(.cannotWrite, path) }
    }

    /// Ends the use of the files. What the journal claims stays for a later download; all else is removed.
    package func close() {
        dropUnnamed()
        closeFolder()
        state.withLock { ($0.keepsInMemory, $0.memory, $0.claim) = (false, [], nil) }
        guard descriptor >= 0 else { return closeJournal(removing: false) }
        endJournal()
        let (isKept, identity, isUseful) = state.withLock { state in
            defer { state.file.identity = nil }
            return (state.kept != nil, state.file.identity, state.journal >= 0 && state.claimed > 0)
        }
        // Before the lock is released.
        if isKept || !isUseful, let identity, identity == FileIdentity(path) { _ = calls.unlink(path) }
        closeJournal(removing: !isUseful)
        closeFiles(removingKept: !isUseful)
    }

    /// Ends the use of the files, and removes what is written. What that was to replace stays.
    package func discard() {
        state.withLock { if $0.kept == nil { ($0.claimed, $0.claimsWrongBytes) = (0, false) } }
        close()
    }

    /// From now on no entry is written, and no file gets the name of the partial file. One that is being written may be
    /// waited for.
    private func endJournal() { journalLock.withLock { _ in state.withLock { $0.isEnding = true } } }

    private func closeJournal(removing: Bool) {
        let journal = state.withLock { state in
            defer { (state.journal, state.isEnding) = (-1, true) }
            return state.journal
        }
        guard journal >= 0 else { return }
        // By now its name may be that of another download's journal.
        if removing, let own = FileIdentity(journal), own == FileIdentity(paths.journal) {
            _ = calls.unlink(paths.journal)
        }
        _ = calls.close(journal)
    }

    /// Closes the file that is written, and the partial file that it was to replace, which may be removed.
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

    /// Unlocks a file, and closes it. A synchronization that is under way has a duplicate, which would keep the lock until
    /// it is over.
    func release(_ file: OpenFile) {
        guard file.descriptor >= 0 else { return }
        _ = calls.unlock(file.descriptor)
        _ = calls.close(file.descriptor)
    }

    /// Says when the file was last modified, in seconds since 1970. Where that cannot be set, it is when it was written.
    package func setModificationTime(_ time: Int64) { state.withLock { $0.modified = time } }

    /// Stores an extended attribute, made of what the system says of the file. Where there are no attributes, nothing
    /// happens.
    package func storeAttribute(_ name: String, _ value: (stat) -> [UInt8]) {
        let descriptor = descriptor
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return }
        let bytes = value(information)
        _ = cepoll_set_attribute(descriptor, name, bytes, bytes.count)
    }

    /// How many bytes there is room for, with those that the partial file has and does not keep; nil if the system does not
    /// tell.
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
