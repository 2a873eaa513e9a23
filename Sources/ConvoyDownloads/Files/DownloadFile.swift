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
    let directory: String
    let calls: FileCalls
    let clock: @Sendable () -> UInt64
    let boot: String

    // Set by `open()`, before any other use, and by those who end the use, after any.
    var identity: FileIdentity?
    /// Whether the file system has locks. Without them the partial file has no journal: another might use both.
    var hasLock = false
    var isOnLocalFileSystem = false

    struct Condition {
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

    let state = Locked(Condition())
    var descriptor: Int32 { state.withLock { $0.descriptor } }
    /// Held while the partial file is prepared, or an entry is written.
    let journalLock = Locked(())

    package init(
        path: String, journalPath: String, calls: FileCalls = FileCalls(), boot: String = SystemBoot.identifier,
        clock: @escaping @Sendable () -> UInt64 = { MonotonicClock.now }
    ) {
        (self.path, self.journalPath, self.calls, self.boot, self.clock) = (path, journalPath, calls, boot, clock)
        directory = PathText.directory(of: path)
    }

    deinit { close() }

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

    func note(_ range: Range<Int64>) {
        state.withLock { state in
            state.written.insert(range)
            state.isEmpty = false
            state.unclaimed += range.upperBound - range.lowerBound
        }
    }

    /// Gives up what is in the file, and reserves space.
    func prepare() throws(FileWritingError) {
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
    static let leastReservation: Int64 = 1 << 20

    func reserve(_ length: Int64) throws(FileWritingError) {
        guard length >= Self.leastReservation, FileSystem.reserves(descriptor) else { return }
        while calls.allocate(descriptor, length) != 0 {
            if errno == EINTR { continue }
            // Only that there is no room is worth an error; many file systems have no such call.
            if errno == ENOSPC || errno == EDQUOT || errno == EFBIG { throw failure(.cannotWrite, path) }
            return
        }
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
}
