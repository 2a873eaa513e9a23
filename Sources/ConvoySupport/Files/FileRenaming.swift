import Foundation

/// Gives a complete file its final name.
package struct FileRenaming {
    let calls: FileCalls

    package init(calls: FileCalls) { self.calls = calls }

    /// Renames a file atomically.
    ///
    /// - Parameter replaces: whether another file with the new name is replaced; otherwise the error's reason is
    ///   `exists`.
    package func rename(_ path: String, to newPath: String, replaces: Bool) throws(FileWritingError) {
        if replaces {
            guard calls.rename(path, newPath) == 0 else { throw failure(newPath) }
            return
        }
        if calls.renameWithoutReplacing(path, newPath) == 0 { return }
        guard [EINVAL, ENOSYS, ENOTSUP].contains(errno) else { throw failure(newPath) }
        // The file system does not support that: a hard link, then removing the first name.
        if calls.link(path, newPath) == 0 {
            _ = calls.unlink(path)
            return
        }
        guard [EPERM, ENOTSUP, ENOSYS, EMLINK].contains(errno) else { throw failure(newPath) }
        // It has no hard links either: an empty file reserves the name, and is then replaced.
        let flags = O_EXCL | O_NOFOLLOW | O_WRONLY | O_CREAT | O_CLOEXEC
        var reserved: Int32
        repeat { reserved = calls.open(newPath, flags, 0o666) } while reserved < 0 && errno == EINTR
        guard reserved >= 0 else { throw failure(newPath) }
        _ = calls.close(reserved)
        guard calls.rename(path, newPath) == 0 else {
            let failure = failure(newPath)
            _ = calls.unlink(newPath)
            throw failure
        }
    }

    private func failure(_ path: String) -> FileWritingError {
        let code = errno
        return FileWritingError(code == EEXIST ? .exists : .cannotCreate, path, code)
    }
}
