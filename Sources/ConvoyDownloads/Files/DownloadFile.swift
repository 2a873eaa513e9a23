import CEpoll
import ConvoySupport
import Foundation

/// The files of one download: the partial file beside the destination, and its journal.
///
/// At any time, even after `kill -9` or a power failure, the disk has the old file, the new file, or a partial file
/// whose journal claims only bytes that it contains. This is guaranteed as follows:
///
/// - The partial file is locked from the moment it is opened until it is renamed to its final name. The journal is used
///   only by the process that holds that lock.
/// - A journal entry claims only bytes that were on the disk before it was written. It identifies the file that
///   contains them, so it does not apply to a different file with the same name.
/// - Bytes claimed by the journal are never overwritten by bytes of a different representation. The new bytes are
///   written to a separate file, which replaces the partial file when it has more bytes, or the final file when
///   complete.
/// - A short new file has neither partial file nor journal: its bytes stay in memory until all of them are written to
///   the disk under the final name.
///
/// Writing, reading and the journal are thread-safe. Make all other calls sequentially, on a thread that may block.
package final class DownloadFile: @unchecked Sendable {
    package let paths: PartialPaths
    let directory: String
    let calls: FileCalls
    let clock: @Sendable () -> UInt64

    // The following properties are set only by `open()`, before any bytes are written, and when the files are closed,
    // after the last write.
    /// Whether the file system supports locks. Without locks, the partial file has no journal, because another process
    /// might use both files.
    var hasLock = false
    var isOnLocalFileSystem = false

    struct OpenFile {
        var descriptor: Int32 = -1
        /// The identity of the file while this object may rename or remove it; otherwise nil.
        var identity: FileIdentity?
    }

    struct Condition {
        /// The file being written.
        var file = OpenFile()
        /// The partial file, if the file being written will replace it; nil if both are the same file.
        var kept: OpenFile?
        /// Whether the file has been prepared for writing.
        var isPrepared = false
        var journal: Int32 = -1
        /// Whether journal entries are no longer allowed.
        var isEnding = false
        var entryNumber: UInt64 = 0
        /// The number of bytes of the partial file that the journal claims.
        var claimed: Int64 = 0
        /// Whether the journal claims bytes that are wrong.
        var claimsWrongBytes = false
        var representation: Representation?
        var written = ByteRanges()
        /// The synchronized bytes, which survive a power failure.
        var safe = ByteRanges()
        var opened: UInt64 = 0
        var nextSynchronization: UInt64 = 0
        var isSynchronizing = false
        /// Whether a timer will synchronize if no later write does.
        var hasTimer = false
        /// The number of changes of representation.
        var generation = 0
        var isDirectorySynchronized = false
        /// Whether the bytes of a short file stay in memory until it is complete.
        var keepsInMemory = false
        var memory: [UInt8] = []
        /// Whether the bytes in memory belong to an earlier representation; the next write replaces them.
        var isMemoryOld = false
        /// An unnamed file with the complete contents, which is about to be linked under its final name.
        var unnamed: Int32 = -1
        /// The directory, opened to synchronize the file's name.
        var folder: Int32 = -1
        /// The modification time to set, in seconds since 1970; nil to leave it unchanged.
        var modified: Int64?
        /// Whether all steps before the rename have been completed.
        var isSecured = false
        /// The path at which no file may exist when the file is opened later.
        var destination: String?
        /// The error code of a failed synchronization. Bytes may have been lost, and later synchronizations succeed,
        /// because the system reports the error only once.
        var lossCode: Int32?

        /// Whether the journal is out of date. A replacement is claimed only once it has more bytes than the partial
        /// file.
        var isBehind: Bool {
            (written != safe || claimsWrongBytes) && lossCode == nil && (kept == nil || written.count > claimed)
        }
    }

    let state = Locked(Condition())
    var descriptor: Int32 { state.withLock { $0.file.descriptor } }
    /// The lock held while the file is prepared or renamed, or while an entry is written.
    let journalLock = Locked(false)
    /// The lock held during a synchronization, so that an entry is on the disk before its predecessor is overwritten.
    let synchronizationLock = Locked(false)

    package init(
        _ paths: PartialPaths, calls: FileCalls = FileCalls(),
        clock: @escaping @Sendable () -> UInt64 = { MonotonicClock.now }
    ) {
        self.paths = paths
        self.calls = calls
        self.clock = clock
        directory = paths.directory
    }

    deinit { close() }

    /// The path of the file being written.
    package var path: String { state.withLock { $0.kept == nil } ? paths.partial : paths.replacement }

    // MARK: Writing

    /// Whether the next write returns without waiting for a remote machine, for a disk to synchronize, or for space to
    /// be reserved.
    package var writesAtOnce: Bool {
        state.withLock { state in
            if state.keepsInMemory { return true }
            guard state.file.descriptor >= 0, isOnLocalFileSystem else { return false }
            return state.isPrepared || state.claimed == 0 && state.representation?.total ?? 0 < Self.leastReservation
        }
    }

    /// Whether closing the files returns without waiting for a remote machine.
    package var closesAtOnce: Bool { !isOpen || isOnLocalFileSystem }

    /// Whether the partial file or its replacement is open.
    package var isOpen: Bool { descriptor >= 0 }

    /// Sets the representation of the following bytes. The file does not change until the first of them is written.
    ///
    /// - Parameters:
    ///   - representation: The representation of the bytes; nil if they cannot be resumed later, in which case there is
    ///     no journal.
    ///   - kept: The bytes of the representation that the file already contains; empty to start
    ///     over.
    package func begin(_ representation: Representation?, keeping kept: ByteRanges = ByteRanges()) {
        state.withLock { state in
            state.isPrepared = !kept.isEmpty && state.file.descriptor >= 0
            if kept.isEmpty { state.lossCode = nil }
            state.keepsInMemory = !kept.isEmpty && !state.memory.isEmpty
            state.isMemoryOld = kept.isEmpty
            state.isSecured = false
            state.representation = representation
            state.written = kept
            state.safe = state.safe.intersection(kept)
            state.generation += 1
        }
    }

    /// Requires a checksum for the bytes written so far, because they come from several sources.
    package func countsOnlyIfVerified() { state.withLock { $0.representation?.isCombined = true } }

    /// Marks the bytes of a range as wrong, so that the journal no longer claims them.
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

    /// Writes bytes at an offset, and claims them in the journal from time to time.
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

    /// Writes bytes at an offset to a descriptor.
    ///
    /// - Parameter then: A closure called with each range written, once per system call.
    func write(
        _ bytes: UnsafeRawBufferPointer, at offset: Int64, to descriptor: Int32, then: (Range<Int64>) -> Void = { _ in }
    ) throws(FileWritingError) {
        var rest = bytes
        var position = offset
        while !rest.isEmpty {
            let count = calls.writeAt(descriptor, rest, position)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw count < 0 ? FileWritingError(.cannotWrite, path, errno) : FileWritingError(.cannotWrite, path, EIO)
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

    /// Opens the file if that was deferred, makes room for a new representation, and reserves space.
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
                throw FileWritingError(.cannotWrite, path, errno)
            }
            if let total { try reserve(total) }
            try writeMemory(to: descriptor)
            state.withLock { ($0.keepsInMemory, $0.memory) = (false, []) }
            let isKept = state.withLock { state in
                state.isPrepared = true
                return state.kept != nil
            }
            if let total, total >= Self.leastReservation, !isKept {
                // Allocate both slots of the journal before the disk can be full. Without a journal, the file is still
                // correct, but not resumable.
                for _ in 0..<2 { try? writeEntry() }
            }
        }
    }

    /// Directs the following bytes to a separate file, and keeps the bytes claimed by the journal. Call this method
    /// with the journal lock held.
    private func beginReplacement() throws(FileWritingError) {
        try removeReplacement()
        let descriptor = opened(paths.replacement, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw FileWritingError(.cannotCreate, paths.replacement, errno) }
        // Lock the replacement, because it may become the partial file.
        _ = calls.lock(descriptor)
        let file = OpenFile(descriptor: descriptor, identity: FileIdentity(descriptor))
        state.withLock { ($0.kept, $0.file, $0.safe) = ($0.file, file, ByteRanges()) }
    }

    /// Discards the contents, which are known to be wrong, for this download and later ones.
    package func giveUpContents() throws(FileWritingError) {
        try journalLock.withLock { _ throws(FileWritingError) in
            let (journal, isKept) = state.withLock { ($0.journal, $0.kept != nil) }
            guard !isKept else { return }
            if journal >= 0, calls.truncate(journal, 0) != 0 || calls.synchronizeData(journal) != 0 {
                throw FileWritingError(.cannotWrite, paths.journal, errno)
            }
            state.withLock { state in
                state.claimed = 0
                state.claimsWrongBytes = false
                state.safe = ByteRanges()
                state.isPrepared = false
                state.generation += 1
            }
        }
    }

    /// The minimum length to reserve space for, in bytes. A smaller file is written too quickly to need it.
    static let leastReservation: Int64 = 1 << 20

    private func reserve(_ length: Int64) throws(FileWritingError) {
        guard length >= Self.leastReservation, FileSystem.reserves(descriptor) else { return }
        while calls.allocate(descriptor, length) != 0 {
            if errno == EINTR { continue }
            // Report only a lack of space; many file systems do not support the call.
            if errno == ENOSPC || errno == EDQUOT || errno == EFBIG { throw FileWritingError(.cannotWrite, path, errno) }
            return
        }
    }

    // MARK: Reading

    /// Reads written bytes. Returns their number; 0 at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(FileWritingError) -> Int {
        while true {
            let count = calls.readAt(descriptor, buffer, offset)
            if count >= 0 { return count }
            if errno != EINTR { throw FileWritingError(.cannotRead, path, errno) }
        }
    }
}
