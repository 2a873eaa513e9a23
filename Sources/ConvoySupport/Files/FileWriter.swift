import Foundation

/// A file that is open for writing, by its descriptor. Its owner closes it, once.
package struct FileWriter: Sendable {
    private let descriptor: Int32

    /// Opens a file, or creates it if the flags say so.
    ///
    /// - Parameters:
    ///   - flags: of `open(2)`. `O_WRONLY` and `O_CLOEXEC` are added.
    ///   - mode: the rights of a file that is created, less those that the process's mask forbids.
    package init(path: String, flags: Int32, mode: mode_t = 0o666) throws(SystemError) {
        var opened: Int32
        repeat { opened = open(path, flags | O_WRONLY | O_CLOEXEC, mode) } while opened < 0 && errno == EINTR
        if opened < 0 { throw SystemError() }
        descriptor = opened
    }

    /// Writes all of it, however many calls that takes.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = systemWrite(descriptor, rest)
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if count == 0 || errno != EINTR {
                throw SystemError()
            }
        }
    }

    /// Empties the file, and writes on from its start.
    package func rewind() throws(SystemError) {
        guard ftruncate(descriptor, 0) == 0, lseek(descriptor, 0, SEEK_SET) == 0 else { throw SystemError() }
    }

    /// Locks the file until it is closed, against everybody else who locks it; false if it is locked already.
    package func lock() -> Bool { flock(descriptor, LOCK_EX | LOCK_NB) == 0 }

    /// What the system knows about the open file.
    package func information() throws(SystemError) -> stat {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw SystemError() }
        return information
    }

    /// Closes it, also when it throws. Some file systems report only now that there was no room.
    package func close() throws(SystemError) {
        // Interrupted, it is closed all the same.
        guard systemClose(descriptor) == 0 || errno == EINTR else { throw SystemError() }
    }
}

// The methods hide the functions of the same names.
private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    write(descriptor, bytes.baseAddress, bytes.count)
}
private func systemClose(_ descriptor: Int32) -> Int32 { close(descriptor) }
