import CEpoll
import ConvoySupport
import Foundation

/// Deferred opening of new files. A new file is opened when its first bytes are written. A short file is kept in memory
/// until complete, then written to an unnamed file, which is named once it is on the disk. If the process is killed, no
/// trace of a short file remains.
extension DownloadFile {
    /// The maximum length, in bytes, of a file kept in memory.
    package static let longestInMemory: Int64 = 64 << 10

    /// Whether a new file can be created, and no partial file of an earlier or running download appears to exist.
    /// Blocks.
    package var isUntouched: Bool {
        var information = stat()
        func isFree(_ path: String) -> Bool { lstat(path, &information) != 0 && errno == ENOENT }
        return faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0 && isFree(paths.partial)
            && isFree(paths.journal)
    }

    /// Defers the opening of the file.
    ///
    /// - Parameter destination: The path at which no file may exist when the file is opened; nil if unknown.
    package func openLater(unless destination: String?) { state.withLock { $0.destination = destination } }

    /// Keeps the following bytes in memory, unless the file is open. Call this method after ``begin(_:keeping:)``.
    package func keepInMemory() { state.withLock { $0.keepsInMemory = $0.file.descriptor < 0 } }

    /// Opens the file whose opening was deferred. Call this method with the journal lock held.
    func openLate() throws(FileWritingError) {
        do throws(FileWritingError) {
            _ = try open()
            // Another download may have committed its file to the destination, which also frees the name of the partial
            // file.
            if let destination = state.withLock({ $0.destination }), FileIdentity(destination) != nil {
                throw FileWritingError(.exists, destination, EEXIST)
            }
        } catch {
            // Clean up so that opening can be retried, but keep the files of another download, which have a journal.
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
        state.withLock { $0.safe = ByteRanges() }
    }

    /// Writes the bytes in memory to an unnamed file. Returns false if that fails; the bytes are then written to the
    /// partial file, which also reports the reason.
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

    /// Names the unnamed file. Returns false if the file system does not support this.
    func nameUnnamed(_ name: String) throws(FileWritingError) -> Bool {
        let unnamed = state.withLock { $0.unnamed }
        let isNamed = calls.name(unnamed, name) == 0
        let code = isNamed ? 0 : errno
        dropUnnamed()
        guard isNamed || code == EEXIST else { return false }
        // The bytes are dropped even if another file has the name.
        state.withLock { ($0.keepsInMemory, $0.memory, $0.isEnding) = (false, [], true) }
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
    /// Appends bytes to those in memory. Returns false if they must be written to the file.
    mutating func keep(_ bytes: UnsafeRawBufferPointer, at offset: Int64) -> Bool {
        let count = isMemoryOld ? 0 : memory.count
        guard keepsInMemory, Int64(count) == offset, Int64(count + bytes.count) <= DownloadFile.longestInMemory else {
            return false
        }
        if count == 0 { memory = Array(bytes) } else { memory.append(contentsOf: bytes) }
        written.insert(offset..<offset + Int64(bytes.count))
        isMemoryOld = false
        isSecured = false
        return true
    }
}
