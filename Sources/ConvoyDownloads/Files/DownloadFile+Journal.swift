import CEpoll
import ConvoySupport
import Foundation

/// The journal: what it says of the bytes, and when.
extension DownloadFile {
    /// In nanoseconds. What a killed process loses is what came since the last synchronization: at first a sixteenth of the
    /// time that was spent, and later a few seconds.
    static let shortestPause: UInt64 = 50_000_000
    static let longestPause: UInt64 = 3_000_000_000
    static let shareOfPause: UInt64 = 16
    /// How much longer than a synchronization the pause after it is at least, so that a slow disk is not kept busy.
    static let pauseFactor: UInt64 = 4

    func synchronizeIfDue() {
        let now = clock()
        let (isDue, wait) = state.withLock { state -> (Bool, UInt64?) in
            guard hasLock, let representation = state.representation, !state.isSynchronizing, !state.isEnding, state.isBehind
            else { return (false, nil) }
            guard now < state.nextSynchronization else {
                state.isSynchronizing = true
                return (true, nil)
            }
            // No later write may come. The end of the file needs no claim: it gets its name.
            guard !state.hasTimer, state.written.count < representation.total else { return (false, nil) }
            state.hasTimer = true
            return (false, state.nextSynchronization - now)
        }
        if let wait { arm(after: wait) }
        guard isDue else { return }
        BlockingWorkers.shared.perform { [self] in
            synchronize()
            let end = clock()
            state.withLock { state in
                let spent = (end &- state.opened) / Self.shareOfPause
                let pause = max(Self.shortestPause, min(Self.longestPause, spent), (end &- now) &* Self.pauseFactor)
                (state.isSynchronizing, state.nextSynchronization) = (false, end &+ pause)
            }
            // What was written meanwhile.
            synchronizeIfDue()
        }
    }

    private struct Waiting: Sendable { weak var file: DownloadFile? }
    /// The files that wait for the shared timer.
    private static let waiting = Locked<[Waiting]>([])

    /// A short wait shares one timer with all others, so that a file that is written in no time needs none of its own.
    private func arm(after wait: UInt64) {
        let queue = DispatchQueue.global(qos: .utility)
        #if DEBUG
        // The shared timer is one of real threads.
        let isSimulated = Simulation.threads != nil
        #else
        let isSimulated = false
        #endif
        guard wait <= Self.shortestPause, !isSimulated else {
            return queue.submit(after: Double(wait) / 1e9) { [weak self] in self?.timerDidFire() }
        }
        let isFirst = Self.waiting.withLock { waiting in
            waiting.append(Waiting(file: self))
            return waiting.count == 1
        }
        guard isFirst else { return }
        queue.asyncAfter(deadline: .now() + .nanoseconds(Int(Self.shortestPause))) {
            let files = Self.waiting.withLock { waiting in
                defer { waiting = [] }
                return waiting
            }
            for waiting in files { waiting.file?.timerDidFire() }
        }
    }

    private func timerDidFire() {
        state.withLock { $0.hasTimer = false }
        // For the shared timer it may be too early yet.
        synchronizeIfDue()
    }

    /// Makes what was written so far safe from power cuts, and claims it. If the disk fails, the bytes are not claimed, and
    /// the file is never committed: the system may have dropped them. Blocks.
    package func synchronize() {
        // A short file that is not whole, or not wanted any more for now.
        let isInMemory = state.withLock {
            $0.keepsInMemory && !$0.isMemoryOld && !$0.memory.isEmpty && $0.representation != nil && !$0.isEnding
        }
        if isInMemory { try? prepare() }
        // What waits needs no descriptors.
        state.withLock { $0.claim = nil }
        synchronizationLock.withLock { _ in
            // A descriptor of its own: the download may end meanwhile.
            let (held, written, generation) = state.withLock { state -> (Int32, ByteRanges, Int) in
                guard hasLock, state.file.descriptor >= 0, !state.isEnding, state.representation != nil, state.isBehind
                else { return (-1, ByteRanges(), 0) }
                return (calls.duplicate(state.file.descriptor), state.written, state.generation)
            }
            guard held >= 0 else { return }
            defer { _ = calls.close(held) }
            guard secures(held, calls.synchronizeData), state.withLock({ $0.lossCode }) == nil else { return }
            let journal = journalLock.withLock { _ -> Int32 in
                let isCurrent = state.withLock { state in
                    guard generation == state.generation, !state.isEnding else { return false }
                    state.safe = written
                    return true
                }
                // Without an entry less can be resumed, and nothing is wrong: its failure is no reason to fail.
                guard isCurrent, (try? writeEntry()) != nil else { return -1 }
                return state.withLock { $0.journal < 0 ? -1 : calls.duplicate($0.journal) }
            }
            guard journal >= 0 else { return }
            defer { _ = calls.close(journal) }
            guard calls.synchronizeData(journal) == 0 else { return }
            let isRenamed = journalLock.withLock { _ in takeName(generation) }
            guard isRenamed || !state.withLock({ $0.isDirectorySynchronized }),
                (try? synchronizeDirectory()) != nil
            else { return }
            state.withLock { $0.isDirectorySynchronized = true }
        }
    }

    /// What was to replace the partial file has become the partial file, as it has more bytes, and the journal claims
    /// them. With the lock of the journal. Returns whether there was such a file.
    private func takeName(_ generation: Int) -> Bool {
        let isDue = state.withLock { $0.kept != nil && !$0.isEnding && generation == $0.generation }
        guard isDue, calls.rename(paths.replacement, paths.partial) == 0 else { return false }
        let old = state.withLock { state in
            (state.claimed, state.claimsWrongBytes) = (state.safe.count, false)
            return state.kept.take()
        }
        if let old { release(old) }
        return true
    }

    private func makeJournal() throws(FileWritingError) {
        let lacks = state.withLock {
            $0.file.descriptor >= 0 && $0.journal < 0 && $0.representation != nil && !$0.isEnding
        }
        guard hasLock, lacks else { return }
        // What it says is private.
        let journal: Int32
        do throws(PrivateFile.Failure) {
            journal = try PrivateFile.create(paths.journal, O_RDWR, calls: calls)
        } catch {
            guard case .system(let cause) = error else { throw FileWritingError(.cannotCreate, paths.journal, EPERM) }
            throw FileWritingError(.cannotCreate, paths.journal, cause.code)
        }
        state.withLock { $0.journal = journal }
    }

    /// Writes an entry that claims the bytes that are safe. With the lock of the journal.
    func writeEntry() throws(FileWritingError) {
        guard hasLock else { return }
        try makeJournal()
        let (journal, entry) = state.withLock { state -> (Int32, JournalEntry?) in
            guard state.journal >= 0, state.isPrepared, let representation = state.representation,
                let mark = calls.mark(state.file.descriptor)
            else { return (-1, nil) }
            state.entryNumber &+= 1
            return (
                state.journal,
                JournalEntry(number: state.entryNumber, mark: mark, representation: representation, bytes: state.safe)
            )
        }
        guard let entry, let text = entry.text, text.count <= JournalLayout.placeSize else { return }
        try write(text, at: JournalLayout.offset(of: entry.number), to: journal)
        state.withLock { state in
            guard state.kept == nil else { return }
            state.claimed = entry.bytes.count
            // More may have been forgotten meanwhile.
            if state.safe == entry.bytes { state.claimsWrongBytes = false }
        }
    }

    /// Whether what was written is on the disk now.
    func secures(_ descriptor: Int32, _ synchronize: (_ descriptor: Int32) -> Int32) -> Bool {
        var result: Int32
        repeat { result = synchronize(descriptor) } while result != 0 && errno == EINTR
        guard result != 0 else { return true }
        let code = errno
        // These mean that there is nothing to wait for.
        guard ![EINVAL, ENOSYS, ENOTSUP, EROFS].contains(code) else { return false }
        state.withLock { $0.lossCode = code }
        errno = code
        return false
    }
}
