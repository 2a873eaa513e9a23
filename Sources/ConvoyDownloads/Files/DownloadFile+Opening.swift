import CEpoll
import ConvoySupport
import Foundation

/// Opening the existing partial file and its journal.
extension DownloadFile {
    /// Opens and locks the partial file, or creates it. Its contents remain until the first byte is written.
    ///
    /// - Returns: The bytes that the journal claims, and their representation; nil if the journal claims no bytes.
    package func open() throws(FileWritingError) -> (representation: Representation, written: ByteRanges)? {
        let isNew = try openPartial()
        isOnLocalFileSystem = FileSystem.isLocal(descriptor)
        let entry: JournalEntry?
        do throws(FileWritingError) {
            entry = try openJournal(beside: isNew)
            if hasLock { try removeReplacement() }
        } catch {
            // Keep the file: the journal may be readable the next time.
            if !isNew { state.withLock { $0.file.identity = nil } }
            throw error
        }
        let now = clock()
        state.withLock { ($0.opened, $0.nextSynchronization) = (now, now &+ Self.shortestPause) }
        guard let entry else { return nil }
        let length = try size()
        var bytes = entry.bytes
        bytes.remove(length..<Int64.max)
        state.withLock { ($0.safe, $0.claimed) = (bytes, bytes.count) }
        guard !bytes.isEmpty else { return nil }
        return (entry.representation, bytes)
    }

    /// Removes the replacement left by a killed process. No other process uses it, because only the holder of the lock
    /// may use its name.
    func removeReplacement() throws(FileWritingError) {
        guard calls.unlink(paths.replacement) == 0 || errno == ENOENT else {
            throw FileWritingError(.cannotCreate, paths.replacement, errno)
        }
    }

    /// Opens the partial file. Returns whether it was created.
    func openPartial() throws(FileWritingError) -> Bool {
        // Do not follow a link, and do not wait for the reader of a pipe.
        let flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
        for _ in 0..<16 {
            var isNew = true
            let path = paths.partial
            closeFiles()
            var descriptor = opened(path, flags | O_CREAT | O_EXCL)
            if descriptor < 0, errno == EEXIST {
                isNew = false
                descriptor = opened(path, flags)
                // Another process has just moved the file to its final name.
                if descriptor < 0, errno == ENOENT { continue }
            }
            guard descriptor >= 0 else { throw FileWritingError(.cannotCreate, path, errno) }
            let opened = descriptor
            state.withLock { $0.file.descriptor = opened }
            guard let found = FileIdentity(descriptor) else { throw FileWritingError(.partialIsShared, path, EEXIST) }
            // The file has another hard link, for example in a backup, and must stay unchanged under that name.
            if found.isOwn, !found.isPlain, found.isRegular, found == FileIdentity(path) {
                if calls.lock(descriptor) != 0, errno == EWOULDBLOCK {
                    throw FileWritingError(.partialIsShared, path, EBUSY)
                }
                guard calls.unlink(path) == 0 || errno == ENOENT else { throw FileWritingError(.cannotCreate, path, errno) }
                continue
            }
            // A file owned by another user would be committed as that user's file.
            guard found.isPlain && (isNew || found.isOwn) || found != FileIdentity(path) else {
                throw FileWritingError(.partialIsShared, path, EEXIST)
            }
            hasLock = calls.lock(descriptor) == 0
            if !hasLock, errno == EWOULDBLOCK { throw FileWritingError(.partialIsShared, path, EBUSY) }
            if found.isPlain, isNew || found.isOwn, found == FileIdentity(path) {
                if hasLock || isNew {
                    state.withLock { $0.file.identity = found }
                    return isNew
                }
                // Without locks, the file may still be in use. Leave it to its user, but free its name.
                guard calls.unlink(path) == 0 || errno == ENOENT else { throw FileWritingError(.cannotCreate, path, errno) }
            }
            // Another process has renamed or removed the file in the meantime.
        }
        throw FileWritingError(.partialIsShared, paths.partial, EBUSY)
    }

    func opened(_ path: String, _ flags: Int32) -> Int32 {
        var opened: Int32
        repeat { opened = calls.open(path, flags, 0o666) } while opened < 0 && errno == EINTR
        return opened
    }

    /// Opens the journal if it exists. Removes it if it does not belong to this partial file, or if another user could
    /// have written it.
    func openJournal(beside isNew: Bool) throws(FileWritingError) -> JournalEntry? {
        let journal = opened(paths.journal, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard journal >= 0 else {
            if errno == ENOENT { return nil }
            if errno != ELOOP { throw FileWritingError(.cannotCreate, paths.journal, errno) }
            try removeJournal()
            return nil
        }
        let entry: JournalEntry?
        do throws(FileWritingError) {
            let isOfPartial = !isNew && hasLock && FileIdentity(journal).map { $0.flaw == nil } == true
            let mark = isOfPartial ? calls.mark(descriptor) : nil
            entry = if let mark { JournalLayout.latest(in: try contents(of: journal), of: mark) } else { nil }
        } catch {
            _ = calls.close(journal)
            throw error
        }
        guard let entry else {
            _ = calls.close(journal)
            try removeJournal()
            return nil
        }
        state.withLock { ($0.journal, $0.entryNumber) = (journal, entry.number) }
        return entry
    }

    /// Removes the journal of a file that was committed by a process that was killed before it could remove the journal.
    ///
    /// - Returns: The location of the file's resource; nil if there is no such journal.
    @discardableResult
    package func removeJournal(ofCommittedFileAt path: String) -> ResourcePlace? {
        guard FileIdentity(paths.journal) != nil, FileIdentity(paths.partial) == nil,
            let (entry, length) = entry(ofFileAt: path), entry.representation.total == length
        else { return nil }
        _ = calls.unlink(paths.journal)
        return entry.representation.place
    }

    /// Returns the journal entry for a file, which may no longer be the partial file, and the length of the file; nil
    /// if the journal does not claim any of its bytes.
    func entry(ofFileAt path: String) -> (entry: JournalEntry, length: Int64)? {
        let file = opened(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { _ = calls.close(file) }
        let journal = opened(paths.journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard journal >= 0 else { return nil }
        defer { _ = calls.close(journal) }
        var information = stat()
        guard FileIdentity(journal)?.flaw == nil, let mark = calls.mark(file), fstat(file, &information) == 0,
            let bytes = try? contents(of: journal), let entry = JournalLayout.latest(in: bytes, of: mark)
        else { return nil }
        return (entry, Int64(information.st_size))
    }

    func contents(of journal: Int32) throws(FileWritingError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: JournalLayout.placeCount * JournalLayout.placeSize)
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { bytes in
                calls.readAt(journal, UnsafeMutableRawBufferPointer(rebasing: bytes[filled...]), Int64(filled))
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw FileWritingError(.cannotWrite, paths.journal, errno) }
            if count == 0 { break }
            filled += count
        }
        return Array(bytes[..<filled])
    }

    /// Removes a journal durably, so that it cannot reappear beside a different partial file.
    func removeJournal() throws(FileWritingError) {
        // Open the directory before changing anything, because no descriptor may be available later.
        let folder = try openDirectory()
        defer { _ = calls.close(folder) }
        guard calls.unlink(paths.journal) == 0 || errno == ENOENT else {
            throw FileWritingError(.cannotCreate, paths.journal, errno)
        }
        try synchronize(folder: folder)
    }

    func openDirectory() throws(FileWritingError) -> Int32 {
        let folder = opened(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { throw FileWritingError(.cannotWrite, directory, errno) }
        return folder
    }

    func synchronizeDirectory() throws(FileWritingError) {
        let folder = try openDirectory()
        defer { _ = calls.close(folder) }
        try synchronize(folder: folder)
    }

    func synchronize(folder: Int32) throws(FileWritingError) {
        // Some file systems cannot synchronize directories.
        guard calls.synchronize(folder) == 0 || errno == EINVAL || errno == EROFS else {
            throw FileWritingError(.cannotWrite, directory, errno)
        }
    }

    func size() throws(FileWritingError) -> Int64 {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw FileWritingError(.cannotWrite, path, errno) }
        return Int64(information.st_size)
    }
}
