import CEpoll
import ConvoySupport
import Foundation

/// Scheduling and writing of journal entries.
extension DownloadFile {
    /// The limits of the pause between synchronizations, in nanoseconds. A killed process loses only the bytes received
    /// since the last synchronization: initially a sixteenth of the elapsed time, later a few seconds.
    static let shortestPause: UInt64 = 50_000_000
    static let longestPause: UInt64 = 3_000_000_000
    static let shareOfPause: UInt64 = 16
    /// The minimum ratio of a pause to the duration of the preceding synchronization, which keeps a slow disk from
    /// being busy all the time.
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
            // A timer is needed in case no later write follows. A complete file needs no entry, because it is renamed.
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
                state.isSynchronizing = false
                state.nextSynchronization = end &+ pause
            }
            // Handle the bytes written in the meantime.
            synchronizeIfDue()
        }
    }

    private struct Waiting: Sendable { weak var file: DownloadFile? }
    /// The files waiting for the shared timer.
    private static let waiting = Locked<[Waiting]>([])

    /// Starts a timer. Short waits share one timer, so that a file written quickly does not need a separate one.
    private func arm(after wait: UInt64) {
        let queue = DispatchQueue.global(qos: .utility)
        #if DEBUG
        // The shared timer runs on real threads only.
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
        // The shared timer may fire too early for this file.
        synchronizeIfDue()
    }

    /// Synchronizes the bytes written so far, and claims them in the journal. If the disk fails, the bytes are not
    /// claimed and the file is never committed, because the system may have dropped them. Blocks.
    package func synchronize() {
        // Write the bytes of a short file from memory if the file is still incomplete or was paused.
        let isInMemory = state.withLock {
            $0.keepsInMemory && !$0.isMemoryOld && !$0.memory.isEmpty && $0.representation != nil && !$0.isEnding
        }
        if isInMemory { try? prepare() }
        synchronizationLock.withLock { _ in
            // Use a duplicate descriptor, because the download may end in the meantime.
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
                // Ignore a failure: without an entry, fewer bytes can be resumed, but the file is still correct.
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

    /// Renames the replacement to the name of the partial file once the replacement has more bytes and the journal
    /// claims them. Call this method with the journal lock held. Returns whether the file was renamed.
    private func takeName(_ generation: Int) -> Bool {
        let isDue = state.withLock { $0.kept != nil && !$0.isEnding && generation == $0.generation }
        guard isDue, calls.rename(paths.replacement, paths.partial) == 0 else { return false }
        let old = state.withLock { state in
            state.claimed = state.safe.count
            state.claimsWrongBytes = false
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
        // The journal contains private information.
        let journal: Int32
        do throws(PrivateFile.Failure) {
            journal = try PrivateFile.create(paths.journal, O_RDWR, calls: calls)
        } catch {
            guard case .system(let cause) = error else { throw FileWritingError(.cannotCreate, paths.journal, EPERM) }
            throw FileWritingError(.cannotCreate, paths.journal, cause.code)
        }
        state.withLock { $0.journal = journal }
    }

    /// Writes an entry that claims the synchronized bytes. Call this method with the journal lock held.
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
            // In the meantime, `forget(_:)` may have marked more bytes as wrong.
            if state.safe == entry.bytes { state.claimsWrongBytes = false }
        }
    }

    /// Synchronizes a file. Returns whether the written bytes are on the disk.
    func secures(_ descriptor: Int32, _ synchronize: (_ descriptor: Int32) -> Int32) -> Bool {
        var result: Int32
        repeat { result = synchronize(descriptor) } while result != 0 && errno == EINTR
        guard result != 0 else { return true }
        let code = errno
        // With these errors, the file does not support synchronization, so no bytes were lost.
        guard ![EINVAL, ENOSYS, ENOTSUP, EROFS].contains(code) else { return false }
        state.withLock { $0.lossCode = code }
        errno = code
        return false
    }
}
