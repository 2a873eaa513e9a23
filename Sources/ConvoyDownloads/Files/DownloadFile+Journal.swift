import CEpoll
import ConvoySupport
import Foundation

/// The journal: what it says of the bytes, and when.
extension DownloadFile {
    /// In bytes: a small share of the file, so that little is fetched twice.
    static func bytesBetweenEntries(of total: Int64) -> Int64 { min(max(total / 64, 64 << 10), 1 << 20) }
    /// In nanoseconds: no more often, however fast bytes come.
    static let shortestPause: UInt64 = 5_000_000
    /// In nanoseconds: no less often, however slowly they come.
    static let longestPause: UInt64 = 100_000_000
    /// In nanoseconds.
    static let pauseOfSynchronization: UInt64 = 5_000_000_000

    func claimIfDue() {
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

    func makeJournal() throws(FileWritingError) {
        let lacks = state.withLock {
            $0.descriptor >= 0 && $0.journal < 0 && $0.representation != nil && !$0.hasEnded
        }
        guard hasLock, lacks else { return }
        // What it says is nobody else's business.
        let journal: Int32
        do throws(PrivateFile.Failure) {
            journal = try PrivateFile.create(journalPath, O_RDWR, calls: calls)
        } catch {
            guard case .system(let cause) = error else { throw FileWritingError(.cannotCreate, journalPath, EPERM) }
            throw FileWritingError(.cannotCreate, journalPath, cause.code)
        }
        state.withLock { $0.journal = journal }
    }

    /// With the lock of the journal held.
    ///
    /// - Parameter isSafe: whether the entry is about to be synchronized.
    func writeEntry(isSafe: Bool = false) throws(FileWritingError) {
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
    func secures(_ descriptor: Int32, _ synchronize: (_ descriptor: Int32) -> Int32) -> Bool {
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
}
