import CEpoll
import ConvoySupport
import Foundation

/// The files of one download: the partial file beside the destination, and its journal.
///
/// At every moment, also after a `kill -9` or a power cut, there is the old file, the new file, or a partial file whose
/// journal claims no more than what is in it. This is how:
///
/// - The partial file is locked from when it is opened until it has its final name. The journal is used by whoever holds
///   that lock.
/// - An entry of the journal is written after the bytes that it claims. It claims two sets of bytes: those that were
///   written, which are there until the system is started anew, and those that were synchronized before the entry was
///   written.
/// - Before bytes of another representation are written over old ones, the journal is emptied, and that is synchronized.
///   The same before a new partial file is written beside a journal that was left over.
///
/// Writing, reading and the journal are safe from several threads at once; the other calls are made one at a time, on a
/// thread that may block.
package final class DownloadFile: @unchecked Sendable {
    package let path: String
    package let journalPath: String
    private let directory: String
    private let calls: FileCalls
    private let clock: @Sendable () -> UInt64
    private let boot: String

    // Set by `open()`, before any other use, and by those who end the use, after any.
    private var identity: FileIdentity?
    /// Whether the file system has locks. Without them the partial file has no journal: another might use both.
    private var hasLock = false
    private var isOnLocalFileSystem = false

    private struct Condition {
        var descriptor: Int32 = -1
        /// Whether the partial file was created here, and nothing has been written to it.
        var isEmpty = false
        /// Whether the partial file has been prepared for what is written.
        var isPrepared = false
        /// Whether old contents must be given up before the first byte is written, which may take a while.
        var hasOldContents = false
        var journal: Int32 = -1
        /// Whether the journal was closed for good.
        var hasEnded = false
        var entryNumber: UInt64 = 0
        /// How many entries of each kind were written.
        var entries: UInt64 = 0
        var safeEntries: UInt64 = 0
        var representation: Representation?
        var written = ByteRanges()
        var safe = ByteRanges()
        /// Bytes that no entry claims yet.
        var unclaimed: Int64 = 0
        var lastEntry: UInt64 = 0
        var lastSynchronization: UInt64 = 0
        var isSynchronizing = false
        /// How often it has been said what the bytes are bytes of.
        var generation = 0
        var isDirectorySynchronized = false
        /// The error of a synchronization. What it was to secure may be lost, and the system says so only once: those
        /// after it succeed.
        var lossCode: Int32?
    }

    private let state = Locked(Condition())
    private var descriptor: Int32 { state.withLock { $0.descriptor } }
    /// Held while the partial file is prepared, or an entry is written.
    private let journalLock = Locked(())

    package init(
        path: String, journalPath: String, calls: FileCalls = FileCalls(), boot: String = SystemBoot.identifier,
        clock: @escaping @Sendable () -> UInt64 = { MonotonicClock.now }
    ) {
        (self.path, self.journalPath, self.calls, self.boot, self.clock) = (path, journalPath, calls, boot, clock)
        directory = PathText.directory(of: path)
    }

    deinit { close() }

    // MARK: Opening

    /// Opens and locks the partial file, or creates it. What is in it stays until the first byte is written.
    ///
    /// - Returns: what its journal says of it: bytes that can be relied on; nil if there are none.
    package func open() throws(FileWritingError) -> (representation: Representation, written: ByteRanges)? {
        let isNew = try openPartial()
        isOnLocalFileSystem = FileSystem.isLocal(descriptor)
        let entry: JournalEntry?
        do throws(FileWritingError) {
            entry = try openJournal(beside: isNew)
        } catch {
            // What is there stays: another time its journal may be readable.
            if !isNew { identity = nil }
            throw error
        }
        let now = clock()
        state.withLock { ($0.lastEntry, $0.lastSynchronization, $0.isEmpty) = (now, now, isNew) }
        guard let entry else { return nil }
        let length = try size()
        var written = entry.reliable(in: boot)
        written.remove(length..<Int64.max)
        guard !written.isEmpty else { return nil }
        return (entry.representation, written)
    }

    /// Returns whether the file was created.
    private func openPartial() throws(FileWritingError) -> Bool {
        // Without following a link, and without waiting for the reader of a pipe.
        let flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
        for _ in 0..<16 {
            var isNew = true
            var descriptor = opened(path, flags | O_CREAT | O_EXCL)
            if descriptor < 0, errno == EEXIST {
                isNew = false
                descriptor = opened(path, flags)
                // Another process has just given it its final name.
                if descriptor < 0, errno == ENOENT { continue }
            }
            guard descriptor >= 0 else { throw failure(.cannotCreate, path) }
            let opened = descriptor
            state.withLock { $0.descriptor = opened }
            guard let found = FileIdentity(descriptor) else { throw FileWritingError(.partialIsShared, path, EEXIST) }
            guard found.isPlain || found != FileIdentity(path) else {
                throw FileWritingError(.partialIsShared, path, EEXIST)
            }
            hasLock = calls.lock(descriptor) == 0
            if !hasLock, errno == EWOULDBLOCK { throw FileWritingError(.partialIsShared, path, EBUSY) }
            if found.isPlain, found == FileIdentity(path) {
                if hasLock || isNew {
                    identity = found
                    return isNew
                }
                // There are no locks, so it may still be in use: it is left to its user, but its name is taken away.
                guard calls.unlink(path) == 0 || errno == ENOENT else { throw failure(.cannotCreate, path) }
            }
            // Another process has renamed or removed it meanwhile.
            closeDescriptor()
        }
        throw FileWritingError(.partialIsShared, path, EBUSY)
    }

    private func opened(_ path: String, _ flags: Int32, mode: mode_t = 0o666) -> Int32 {
        var opened: Int32
        repeat { opened = calls.open(path, flags, mode) } while opened < 0 && errno == EINTR
        return opened
    }

    /// Opens the journal, if there is one. One that does not belong to the partial file is removed.
    private func openJournal(beside isNew: Bool) throws(FileWritingError) -> JournalEntry? {
        let journal = opened(journalPath, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard journal >= 0 else {
            if errno == ENOENT { return nil }
            if errno != ELOOP { throw failure(.cannotCreate, journalPath) }
            try removeJournal()
            return nil
        }
        let entry: JournalEntry?
        do throws(FileWritingError) {
            let isOfPartial = !isNew && hasLock && FileIdentity(journal)?.isPlain == true
            entry = isOfPartial ? JournalLayout.latest(in: try contents(of: journal)) : nil
        } catch {
            _ = calls.close(journal)
            throw error
        }
        guard let entry else {
            _ = calls.close(journal)
            try removeJournal()
            return nil
        }
        state.withLock { state in
            (state.journal, state.entryNumber, state.hasOldContents) = (journal, entry.number, true)
            state.safe = entry.safe
        }
        return entry
    }

    private func contents(of journal: Int32) throws(FileWritingError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: JournalLayout.placeCount * JournalLayout.placeSize)
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { bytes in
                calls.readAt(journal, UnsafeMutableRawBufferPointer(rebasing: bytes[filled...]), Int64(filled))
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(.cannotWrite, journalPath) }
            if count == 0 { break }
            filled += count
        }
        return Array(bytes[..<filled])
    }

    /// Removes a journal for good, so that it cannot come back beside another partial file.
    private func removeJournal() throws(FileWritingError) {
        guard calls.unlink(journalPath) == 0 || errno == ENOENT else { throw failure(.cannotCreate, journalPath) }
        try synchronizeDirectory()
    }

    private func synchronizeDirectory() throws(FileWritingError) {
        let folder = opened(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { throw failure(.cannotWrite, directory) }
        defer { _ = calls.close(folder) }
        // Some file systems cannot do that for directories.
        guard calls.synchronize(folder) == 0 || errno == EINVAL || errno == EROFS else {
            throw failure(.cannotWrite, directory)
        }
    }

    private func size() throws(FileWritingError) -> Int64 {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw failure(.cannotWrite, path) }
        return Int64(information.st_size)
    }

    // MARK: Writing

    /// Whether the next write does not wait for another machine, or for a disk to synchronize.
    package var writesAtOnce: Bool {
        isOnLocalFileSystem && state.withLock { $0.isPrepared || !$0.hasOldContents }
    }

    /// What the next bytes are bytes of. Until the first is written, nothing changes in the file.
    ///
    /// - Parameters:
    ///   - representation: nil for bytes to which nobody could add others later. There is no journal then.
    ///   - kept: the bytes of it that are in the file; none to start over.
    package func begin(_ representation: Representation?, keeping kept: ByteRanges = ByteRanges()) {
        state.withLock { state in
            if kept.isEmpty, !state.written.isEmpty { state.hasOldContents = true }
            state.isPrepared = !kept.isEmpty
            if !kept.isEmpty { state.hasOldContents = false } else { state.lossCode = nil }
            (state.representation, state.written) = (representation, kept)
            state.safe = state.safe.intersection(kept)
            state.unclaimed = 0
            state.generation += 1
        }
    }

    /// Whether there are bytes of an earlier representation, which are given up with the first new byte.
    package var hasOldContents: Bool { state.withLock { $0.hasOldContents } }

    /// The bytes that have been written.
    package var written: ByteRanges { state.withLock { $0.written } }

    /// Writes bytes to their place, and claims them in the journal from time to time.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(FileWritingError) {
        let (descriptor, isPrepared) = state.withLock { ($0.descriptor, $0.isPrepared) }
        guard descriptor >= 0 else { throw FileWritingError(.cannotWrite, path, EBADF) }
        if !isPrepared { try prepare() }
        var rest = bytes
        var position = offset
        while !rest.isEmpty {
            let count = calls.writeAt(descriptor, rest, position)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw count < 0 ? failure(.cannotWrite, path) : FileWritingError(.cannotWrite, path, EIO)
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            note(position..<position + Int64(count))
            position += Int64(count)
        }
        claimIfDue()
    }

    private func note(_ range: Range<Int64>) {
        state.withLock { state in
            state.written.insert(range)
            state.isEmpty = false
            state.unclaimed += range.upperBound - range.lowerBound
        }
    }

    /// Gives up what is in the file, and reserves space.
    private func prepare() throws(FileWritingError) {
        try journalLock.withLock { _ throws(FileWritingError) in
            let (isPrepared, hasOldContents, journal, total) = state.withLock {
                ($0.isPrepared, $0.hasOldContents, $0.journal, $0.representation?.total)
            }
            guard !isPrepared else { return }
            if journal >= 0 {
                guard calls.truncate(journal, 0) == 0, calls.synchronizeData(journal) == 0 else {
                    throw failure(.cannotWrite, journalPath)
                }
            }
            let isEmpty = state.withLock { $0.isEmpty }
            let length = isEmpty ? 0 : try size()
            if hasOldContents || length > 0 {
                guard calls.truncate(descriptor, 0) == 0 else { throw failure(.cannotWrite, path) }
            }
            if let total { try reserve(total) }
            state.withLock { ($0.isPrepared, $0.hasOldContents) = (true, false) }
            if let total, total >= Self.leastReservation {
                // Both places, before a disk can be full. Without a journal nothing is wrong, only not resumed.
                try? makeJournal()
                for _ in 0..<2 { try? writeEntry() }
            }
        }
    }

    /// How much is reserved at least: a smaller file is written in no time.
    private static let leastReservation: Int64 = 1 << 20

    private func reserve(_ length: Int64) throws(FileWritingError) {
        guard length >= Self.leastReservation, FileSystem.reserves(descriptor) else { return }
        while calls.allocate(descriptor, length) != 0 {
            if errno == EINTR { continue }
            // Only that there is no room is worth an error; many file systems have no such call.
            if errno == ENOSPC || errno == EDQUOT || errno == EFBIG { throw failure(.cannotWrite, path) }
            return
        }
    }

    // MARK: The journal

    /// In bytes: a small share of the file, so that little is fetched twice.
    private static func bytesBetweenEntries(of total: Int64) -> Int64 { min(max(total / 64, 64 << 10), 1 << 20) }
    /// In nanoseconds: no more often, however fast bytes come.
    private static let shortestPause: UInt64 = 5_000_000
    /// In nanoseconds: no less often, however slowly they come.
    private static let longestPause: UInt64 = 100_000_000
    /// In nanoseconds.
    private static let pauseOfSynchronization: UInt64 = 5_000_000_000

    private func claimIfDue() {
        let now = clock()
        let (isDue, synchronizes) = state.withLock { state -> (Bool, Bool) in
            guard hasLock, let total = state.representation?.total else { return (false, false) }
            let pause = now &- state.lastEntry
            let isDue =
                state.unclaimed >= Self.bytesBetweenEntries(of: total)
                ? pause >= Self.shortestPause : pause >= Self.longestPause
            let synchronizes = !state.isSynchronizing && now &- state.lastSynchronization >= Self.pauseOfSynchronization
            if isDue { (state.lastEntry, state.unclaimed) = (now, 0) }
            if synchronizes { state.isSynchronizing = true }
            return (isDue, synchronizes)
        }
        // Without an entry less can be resumed, and nothing is wrong: its failure is no reason to fail.
        if isDue { try? claim() }
        if synchronizes { BlockingWorkers.shared.perform { self.synchronize() } }
    }

    /// Writes an entry that claims all bytes written so far. Does nothing where there is no journal.
    package func claim() throws(FileWritingError) {
        try journalLock.withLock { _ throws(FileWritingError) in try writeEntry() }
    }

    private func makeJournal() throws(FileWritingError) {
        let lacks = state.withLock {
            $0.descriptor >= 0 && $0.journal < 0 && $0.representation != nil && !$0.hasEnded
        }
        guard hasLock, lacks else { return }
        // What it says is nobody else's business.
        let journal = opened(journalPath, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode: 0o600)
        guard journal >= 0 else { throw failure(.cannotCreate, journalPath) }
        state.withLock { $0.journal = journal }
    }

    /// With the lock of the journal held.
    ///
    /// - Parameter isSafe: whether the entry is about to be synchronized.
    private func writeEntry(isSafe: Bool = false) throws(FileWritingError) {
        guard hasLock else { return }
        if state.withLock({ !$0.written.isEmpty }) { try makeJournal() }
        let (journal, turn, entry) = state.withLock { state -> (Int32, UInt64, JournalEntry?) in
            guard state.journal >= 0, state.isPrepared, let representation = state.representation else {
                return (-1, 0, nil)
            }
            state.entryNumber &+= 1
            if isSafe { state.safeEntries += 1 } else { state.entries += 1 }
            let entry = JournalEntry(
                number: state.entryNumber, representation: representation, boot: boot,
                written: state.lossCode == nil ? state.written : state.safe, safe: state.safe)
            return (state.journal, isSafe ? state.safeEntries : state.entries, entry)
        }
        guard let entry, let text = entry.text, text.count <= JournalLayout.placeSize else { return }
        let offset = JournalLayout.offset(turn: turn, isSafe: isSafe)
        var written = 0
        while written < text.count {
            let count = text.withUnsafeBytes { bytes in
                calls.writeAt(
                    journal, UnsafeRawBufferPointer(rebasing: bytes[written...]), offset + Int64(written))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw failure(.cannotWrite, journalPath) }
            written += count
        }
    }

    /// Makes what was written so far safe from power cuts, and claims it. If the disk fails, the bytes are not claimed any
    /// more, and the file is never committed: the system may have dropped them.
    package func synchronize() {
        // A descriptor of its own: the download may end meanwhile.
        let (held, written, generation) = state.withLock { state in
            (state.descriptor < 0 ? -1 : calls.duplicate(state.descriptor), state.written, state.generation)
        }
        defer {
            let now = clock()
            state.withLock { ($0.isSynchronizing, $0.lastSynchronization) = (false, now) }
        }
        guard held >= 0 else { return }
        defer { _ = calls.close(held) }
        guard secures(held, calls.synchronizeData), state.withLock({ $0.lossCode }) == nil else { return }
        // Waiting for the disk, nobody is kept from writing other entries.
        let (journal, isDirectorySynchronized) = journalLock.withLock { _ -> (Int32, Bool) in
            let isCurrent = state.withLock { state in
                if generation == state.generation { state.safe = written }
                return generation == state.generation
            }
            guard isCurrent, (try? writeEntry(isSafe: true)) != nil else { return (-1, true) }
            return state.withLock { ($0.journal < 0 ? -1 : calls.duplicate($0.journal), $0.isDirectorySynchronized) }
        }
        guard journal >= 0 else { return }
        defer { _ = calls.close(journal) }
        guard calls.synchronizeData(journal) == 0, !isDirectorySynchronized else { return }
        guard (try? synchronizeDirectory()) != nil else { return }
        state.withLock { $0.isDirectorySynchronized = true }
    }

    /// Whether what was written is on the disk now. If not, only what was secured before is claimed from now on.
    private func secures(_ descriptor: Int32, _ synchronize: (_ descriptor: Int32) -> Int32) -> Bool {
        var result: Int32
        repeat { result = synchronize(descriptor) } while result != 0 && errno == EINTR
        guard result != 0 else { return true }
        let code = errno
        // These mean that there is nothing to wait for.
        guard ![EINVAL, ENOSYS, ENOTSUP, EROFS].contains(code) else { return false }
        state.withLock { $0.lossCode = code }
        try? claim()
        errno = code
        return false
    }

    // MARK: Reading

    /// Reads bytes that were written. Returns how many; 0 at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(FileWritingError) -> Int {
        while true {
            let count = calls.readAt(descriptor, buffer, offset)
            if count >= 0 { return count }
            if errno != EINTR { throw FileWritingError(.cannotRead, path, errno) }
        }
    }

    // MARK: Ending

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
        guard identity != nil, identity == FileIdentity(path) else { throw FileWritingError(.partialIsShared, path, EBUSY) }
        if !isOnLocalFileSystem { try closeEarly() }
        try FileRenaming(calls: calls).rename(path, to: name, replaces: replaces)
        identity = nil
        defer { closeDescriptor() }
        if synchronizes { try synchronizeDirectory() }
        closeJournal(removing: true)
    }

    /// Closes the file under another descriptor. Some file systems report a lack of space only then.
    private func closeEarly() throws(FileWritingError) {
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

    private func closeJournal(removing: Bool) {
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

    private func closeDescriptor() {
        let closing = state.withLock { state in
            defer { state.descriptor = -1 }
            return state.descriptor
        }
        guard closing >= 0 else { return }
        // A synchronization that is under way has a duplicate, which would keep the lock until it is over.
        _ = calls.unlock(closing)
        _ = calls.close(closing)
    }

    private func failure(_ reason: FileWritingError.Reason, _ path: String) -> FileWritingError {
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
