import CEpoll
import ConvoySupport
import Foundation

/// A file of which nothing is there yet is opened when its first bytes are written. A short one is kept in memory until it
/// is whole: then it is written to a file without a name, which gets its name when it is on the disk. A process that is
/// killed leaves nothing of it.
extension DownloadFile {
    /// A longer file is written as it comes, in bytes.
    package static let longestInMemory: Int64 = 64 << 10

    /// Whether an earlier download has left nothing, and another is not under way, as far as can be seen, and a file can be
    /// made. Blocks.
    package var isUntouched: Bool {
        var information = stat()
        func isFree(_ path: String) -> Bool { lstat(path, &information) != 0 && errno == ENOENT }
        return faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0 && isFree(paths.partial)
            && isFree(paths.journal)
    }

    /// Leaves opening the file for later.
    ///
    /// - Parameters:
    ///   - claim: kept until then.
    ///   - destination: where no file may be by then; nil if that is not known.
    package func openLater(_ claim: (any AnyObject & Sendable)?, unless destination: String?) {
        state.withLock { ($0.claim, $0.destination) = (claim, destination) }
    }

    /// Keeps what follows in memory, unless the file is open. After ``begin(_:keeping:)``.
    package func keepInMemory() { state.withLock { $0.keepsInMemory = $0.file.descriptor < 0 } }

    /// With the lock of the journal.
    func openLate() throws(FileWritingError) {
        do throws(FileWritingError) {
            _ = try open()
            // Another download may have put its file there, and with it have freed the name of the partial file.
            if let destination = state.withLock({ $0.destination }), FileIdentity(destination) != nil {
                throw FileWritingError(.exists, destination, EEXIST)
            }
        } catch {
            // It can be tried again. What another has left, with a journal, stays.
            let (identity, journal) = state.withLock { state in
                defer { state.journal = -1 }
                return (state.file.identity, state.journal)
            }
            if journal >= 0 {
                _ = calls.close(journal)
            } else if let identity, identity == FileIdentity(path) {
                _ = calls.unlink(path)
            }
            closeFiles()
            throw error
        }
        state.withLock { ($0.safe, $0.claim) = (ByteRanges(), nil) }
    }

    /// Writes what is in memory to a file without a name. False where that is not possible: then it goes into the partial
    /// file, which also says why.
    func secureUnnamed(synchronizes: Bool, _ total: Int64) -> Bool {
        dropUnnamed()
        guard state.withLock({ $0.keepsInMemory && !$0.isMemoryOld && Int64($0.memory.count) == total }) else {
            return false
        }
        let unnamed = opened(directory, O_RDWR | cepoll_unnamed_file | O_CLOEXEC)
        guard unnamed >= 0 else { return false }
        state.withLock { $0.unnamed = unnamed }
        do throws(FileWritingError) {
            try writeMemory(to: unnamed)
        } catch {
            dropUnnamed()
            return false
        }
        if let modified = state.withLock({ $0.modified }) { _ = calls.setModificationTime(unnamed, modified) }
        if secures(unnamed, synchronizes ? calls.synchronize : calls.synchronizeData) { return true }
        state.withLock { $0.lossCode = nil }
        dropUnnamed()
        return false
    }

    func writeMemory(to descriptor: Int32) throws(FileWritingError) {
        try write(state.withLock { $0.isMemoryOld ? [] : $0.memory }, at: 0, to: descriptor)
    }

    /// Gives the file without a name its name. False where the file system cannot do that.
    func nameUnnamed(_ name: String) throws(FileWritingError) -> Bool {
        let unnamed = state.withLock { $0.unnamed }
        let isNamed = calls.name(unnamed, name) == 0
        let code = isNamed ? 0 : errno
        dropUnnamed()
        guard isNamed || code == EEXIST else { return false }
        // Nothing of it is kept where another file has the name, either.
        state.withLock { ($0.keepsInMemory, $0.memory, $0.isEnding, $0.claim) = (false, [], true, nil) }
        if !isNamed { throw FileWritingError(.exists, name, code) }
        return true
    }

    func dropUnnamed() {
        let unnamed = state.withLock { state in
            defer { state.unnamed = -1 }
            return state.unnamed
        }
        if unnamed >= 0 { _ = calls.close(unnamed) }
    }
}

extension DownloadFile.Condition {
    /// Adds bytes to those in memory. False where they go into the file.
    mutating func keep(_ bytes: UnsafeRawBufferPointer, at offset: Int64) -> Bool {
        let count = isMemoryOld ? 0 : memory.count
        guard keepsInMemory, Int64(count) == offset, Int64(count + bytes.count) <= DownloadFile.longestInMemory else {
            return false
        }
        if count == 0 { memory = Array(bytes) } else { memory.append(contentsOf: bytes) }
        written.insert(offset..<offset + Int64(bytes.count))
        (isMemoryOld, isSecured) = (false, false)
        return true
    }
}
