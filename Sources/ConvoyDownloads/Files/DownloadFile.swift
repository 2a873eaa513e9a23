import CEpoll
import ConvoySupport
import Foundation

/// The files of one download: the partial file beside the destination, and its journal.
///
/// At every moment, also after a `kill -9` or a power cut, there is the old file, the new file, or a partial file whose
/// journal claims no more than what is in it. This is how:
///
/// - The partial file is locked from when it is opened until it has its final name. The journal is used by the process that
///   holds that lock.
/// - An entry of the journal claims the bytes that were on the disk before it was written, and no others. It names the
///   file that has them, so that it says nothing of another one that lies under the same name.
/// - Bytes that the journal claims are never overwritten by those of another representation: these go into a file of their
///   own, which takes the place of the partial file when it has more bytes, or of the final one when it is whole.
/// - A short new file has neither: its bytes are in memory until all of them go to the disk and get the name.
///
/// Writing, reading and the journal are safe from several threads at once; the other calls are made one at a time, on a
/// thread that may block.
package final class DownloadFile: @unchecked Sendable {
    package let paths: PartialPaths
    let directory: String
    let calls: FileCalls
    let clock: @Sendable () -> UInt64

    // Set by `open()`, before any bytes are written to the file, and by those who end the use, after any.
    /// Whether the file system has locks. Without them the partial file has no journal: another might use both.
    var hasLock = false
    var isOnLocalFileSystem = false

    struct OpenFile {
        var descriptor: Int32 = -1
        /// While the file is ours to rename or remove.
        var identity: FileIdentity?
    }

    struct Condition {
        /// The file that is written.
        var file = OpenFile()
        /// The partial file while what is written is to replace it; nil if that is the partial file itself.
        var kept: OpenFile?
        /// Whether the file that is written has been prepared for it.
        var isPrepared = false
        var journal: Int32 = -1
        /// Whether no entry may be written any more.
        var isEnding = false
        var entryNumber: UInt64 = 0
        /// How many bytes of the partial file the journal claims.
        var claimed: Int64 = 0
        /// Whether some of them are wrong.
        var claimsWrongBytes = false
        var representation: Representation?
        var written = ByteRanges()
        /// Those that a power cut would leave as they are.
        var safe = ByteRanges()
        var opened: UInt64 = 0
        var nextSynchronization: UInt64 = 0
        var isSynchronizing = false
        /// Whether a timer will synchronize what no later write does.
        var hasTimer = false
        /// How often it has been said what the bytes are bytes of.
        var generation = 0
        var isDirectorySynchronized = false
        /// Whether bytes stay in memory until there are all of a short file.
        var keepsInMemory = false
        var memory: [UInt8] = []
        /// Whether those in memory are of what was before, and are replaced by the first that come.
        var isMemoryOld = false
        /// A file without a name that has all of it, and is about to get its name.
        var unnamed: Int32 = -1
        /// The directory, where the file's name is synchronized, too.
        var folder: Int32 = -1
        /// When the file was last modified, if that is not when it was written: seconds since 1970.
        var modified: Int64?
        /// Whether nothing is left but to give the file its name.
        var isSecured = false
        /// What holds descriptors back for the file until it is open.
        var claim: (any AnyObject & Sendable)?
        /// Where no file may be when the file is opened later.
        var destination: String?
        /// The error of a synchronization. What it was to secure may be lost, and the system says so only once: those
        /// after it succeed.
        var lossCode: Int32?

        /// Whether a synchronization would claim other bytes than the journal does. What replaces the partial file is claimed
        /// once it has more of them.
        var isBehind: Bool {
            (written != safe || claimsWrongBytes) && lossCode == nil && (kept == nil || written.count > claimed)
        }
    }

    let state = Locked(Condition())
    var descriptor: Int32 { state.withLock { $0.file.descriptor } }
    /// Held while the file is prepared, an entry is written, or a file gets another name.
    let journalLock = Locked(false)
    /// Held by one synchronization at a time, so that an entry is on the disk before the one before it is overwritten.
    let synchronizationLock = Locked(false)

    package init(
        _ paths: PartialPaths, calls: FileCalls = FileCalls(),
        clock: @escaping @Sendable () -> UInt64 = { MonotonicClock.now }
    ) {
        (self.paths, self.calls, self.clock) = (paths, calls, clock)
        directory = paths.directory
    }

    deinit { close() }

    /// The path of the file that is written.
    package var path: String { state.withLock { $0.kept == nil } ? paths.partial : paths.replacement }

    // MARK: Writing

    /// Whether the next write does not wait for another machine, for a disk to synchronize, or for space to be reserved.
    package var writesAtOnce: Bool {
        state.withLock { state in
            if state.keepsInMemory { return true }
            guard state.file.descriptor >= 0, isOnLocalFileSystem else { return false }
            return state.isPrepared || state.claimed == 0 && state.representation?.total ?? 0 < Self.leastReservation
        }
    }

    /// Whether the end of the use does not wait for another machine.
    package var closesAtOnce: Bool { !isOpen || isOnLocalFileSystem }

    /// Whether the partial file is open, or what replaces it.
    package var isOpen: Bool { descriptor >= 0 }

    /// What the next bytes are bytes of. Until the first is written, nothing changes in the file.
    ///
    /// - Parameters:
    ///   - representation: nil for bytes to which no others could be added later. There is no journal then.
    ///   - kept: the bytes of it that are in the file; none to start over.
    package func begin(_ representation: Representation?, keeping kept: ByteRanges = ByteRanges()) {
        state.withLock { state in
            state.isPrepared = !kept.isEmpty && state.file.descriptor >= 0
            if kept.isEmpty { state.lossCode = nil }
            state.keepsInMemory = !kept.isEmpty && !state.memory.isEmpty
            state.isMemoryOld = kept.isEmpty
            state.isSecured = false
            (state.representation, state.written) = (representation, kept)
            state.safe = state.safe.intersection(kept)
            state.generation += 1
        }
    }

    /// From now on the bytes count only for those who know a checksum: not all of them are of one source.
    package func countsOnlyIfVerified() { state.withLock { $0.representation?.isCombined = true } }

    /// The bytes of a range are wrong, and are not claimed from now on.
    package func forget(_ range: Range<Int64>) {
        state.withLock { state in
            state.written.remove(range)
            state.safe.remove(range)
            if state.kept == nil, state.claimed > 0 { state.claimsWrongBytes = true }
            state.generation += 1
        }
        synchronizeIfDue()
    }

    /// The bytes that have been written.
    package var written: ByteRanges { state.withLock { $0.written } }

    /// Writes bytes to their place, and claims them in the journal from time to time.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(FileWritingError) {
        if state.withLock({ $0.keep(bytes, at: offset) }) { return }
        if !state.withLock({ $0.isPrepared }) { try prepare() }
        let descriptor = descriptor
        guard descriptor >= 0 else { throw FileWritingError(.cannotWrite, path, EBADF) }
        try write(bytes, at: offset, to: descriptor) { range in
            state.withLock { state in
                state.written.insert(range)
                state.isSecured = false
            }
        }
        synchronizeIfDue()
    }

    /// - Parameter then: called with what was written, in as many steps as the system makes.
    func write(
        _ bytes: UnsafeRawBufferPointer, at offset: Int64, to descriptor: Int32, then: (Range<Int64>) -> Void = { _ in }
    ) throws(FileWritingError) {
        var rest = bytes
        var position = offset
        while !rest.isEmpty {
            let count = calls.writeAt(descriptor, rest, position)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw count < 0 ? failure(.cannotWrite, path) : FileWritingError(.cannotWrite, path, EIO)
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            then(position..<position + Int64(count))
            position += Int64(count)
        }
    }

    func write(_ bytes: [UInt8], at offset: Int64, to descriptor: Int32) throws(FileWritingError) {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(FileWritingError) in try write(bytes, at: offset, to: descriptor) }
        }
        try result.get()
    }

    /// Opens the file, if that was left for later, makes room for another representation than the one before, and reserves
    /// space.
    func prepare() throws(FileWritingError) {
        try journalLock.withLock { _ throws(FileWritingError) in
            let (isPrepared, isEnding, total) = state.withLock {
                ($0.isPrepared, $0.isEnding, $0.representation?.total)
            }
            guard !isPrepared else { return }
            guard !isEnding else { throw FileWritingError(.cannotWrite, paths.partial, EBADF) }
            if !isOpen { try openLate() }
            if state.withLock({ $0.claimed > 0 && $0.kept == nil }) {
                try beginReplacement()
            } else if try size() > 0, calls.truncate(descriptor, 0) != 0 {
                throw failure(.cannotWrite, path)
            }
            if let total { try reserve(total) }
            try writeMemory(to: descriptor)
            state.withLock { ($0.keepsInMemory, $0.memory) = (false, []) }
            let isKept = state.withLock { state in
                state.isPrepared = true
                return state.kept != nil
            }
            if let total, total >= Self.leastReservation, !isKept {
                // Both places, before a disk can be full. Without a journal nothing is wrong, only not resumed.
                for _ in 0..<2 { try? writeEntry() }
            }
        }
    }

    /// What follows goes into a file of its own, and what the journal claims stays. With the lock of the journal.
    private func beginReplacement() throws(FileWritingError) {
        try removeReplacement()
        let descriptor = opened(paths.replacement, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(.cannotCreate, paths.replacement) }
        // It may get the name of the partial file.
        _ = calls.lock(descriptor)
        let file = OpenFile(descriptor: descriptor, identity: FileIdentity(descriptor))
        state.withLock { ($0.kept, $0.file, $0.safe) = ($0.file, file, ByteRanges()) }
    }

    /// The contents are proven wrong: neither this download nor a later one relies on them.
    package func giveUpContents() throws(FileWritingError) {
        try journalLock.withLock { _ throws(FileWritingError) in
            let (journal, isKept) = state.withLock { ($0.journal, $0.kept != nil) }
            guard !isKept else { return }
            if journal >= 0, calls.truncate(journal, 0) != 0 || calls.synchronizeData(journal) != 0 {
                throw failure(.cannotWrite, paths.journal)
            }
            state.withLock { state in
                (state.claimed, state.claimsWrongBytes) = (0, false)
                (state.safe, state.isPrepared) = (ByteRanges(), false)
                state.generation += 1
            }
        }
    }

    /// How much is reserved at least: a smaller file is written in no time.
    static let leastReservation: Int64 = 1 << 20

    private func reserve(_ length: Int64) throws(FileWritingError) {
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

    func failure(_ reason: FileWritingError.Reason, _ path: String) -> FileWritingError {
        FileWritingError(reason, path, errno)
    }
}
