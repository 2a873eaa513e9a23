import Foundation

/// Renames a complete file to its final name. All such renames use this type. Only regular files may be replaced, and
/// the new file takes over the permissions of the old one. This type does not follow links: callers resolve them first
/// with ``target(of:)``.
package struct FileRenaming {
    let calls: FileCalls

    package init(calls: FileCalls) { self.calls = calls }

    /// Resolves a path, which may be a link or a chain of links, to the file that will be replaced or created.
    ///
    /// - Throws: `exists` for a device, a pipe or a socket, which must not be replaced.
    package static func target(of path: String) throws(FileWritingError) -> String {
        do throws(PrivateFile.Failure) {
            return try PrivateFile.target(of: path)
        } catch {
            switch error {
            case .unsafe(.notRegularFile):
                var facts = stat()
                let isDirectory = stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFDIR
                throw FileWritingError(isDirectory ? .cannotCreate : .exists, path, isDirectory ? EISDIR : EEXIST)
            case .unsafe: throw FileWritingError(.cannotCreate, path, EACCES)
            case .system(let cause): throw FileWritingError(.cannotCreate, path, cause.code)
            }
        }
    }

    /// Renames a file atomically.
    ///
    /// - Parameters:
    ///   - replaces: Whether an existing regular file may be replaced. If false, an existing file causes an error with
    ///     the reason `exists`. A link, a device or a pipe always causes this error.
    ///   - keepsMode: Whether the file takes over the permissions of the file it replaces.
    package func rename(
        _ path: String, to newPath: String, replaces: Bool, keepsMode: Bool = true
    ) throws(FileWritingError) {
        if replaces {
            var facts = stat()
            if lstat(newPath, &facts) == 0 {
                guard facts.st_mode & S_IFMT == S_IFREG else {
                    let isDirectory = facts.st_mode & S_IFMT == S_IFDIR
                    throw FileWritingError(isDirectory ? .cannotCreate : .exists, newPath, isDirectory ? EISDIR : EEXIST)
                }
                // Ignore a failure: the file itself is complete.
                if keepsMode { _ = chmod(path, facts.st_mode & 0o777) }
            }
            guard calls.rename(path, newPath) == 0 else { throw failure(newPath) }
            return
        }
        if calls.renameWithoutReplacing(path, newPath) == 0 { return }
        guard [EINVAL, ENOSYS, ENOTSUP].contains(errno) else { throw failure(newPath) }
        // The file system cannot rename without replacing. Create a hard link, then remove the old name.
        if calls.link(path, newPath) == 0 {
            _ = calls.unlink(path)
            return
        }
        guard [EPERM, ENOTSUP, ENOSYS, EMLINK].contains(errno) else { throw failure(newPath) }
        // Hard links are not supported either. Reserve the name with an empty file, then replace that file.
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

/// An error that prevents a file from being written.
package struct FileWritingError: Error, Equatable {
    package enum Reason: Equatable, Sendable {
        /// The file exists and must not be replaced.
        case exists
        /// The partial file exists and must not be replaced.
        case partialExists
        /// The partial file is in use by another writer, or is not a regular file of the current user.
        case partialIsShared
        case cannotCreate
        case cannotWrite
        /// The written data cannot be read back.
        case cannotRead
    }

    package let reason: Reason
    /// The path of the file that caused the error: the final or the partial file.
    package let path: String
    /// The underlying system error.
    package let cause: SystemError

    /// - Parameter code: The `errno`. If the name already exists, the reason is `exists`.
    package init(_ reason: Reason, _ path: String, _ code: Int32) {
        self.reason = reason
        self.path = path
        cause = SystemError(code: code)
    }
}
