import CEpoll
import Foundation

/// Opens and creates files with private contents: cookies, known hosts, journals, archives of requests, caches, queues.
///
/// New files are created exclusively, with mode 0600 from the start, regardless of the process's umask. An existing
/// file is checked through its descriptor before it is read: it must be a regular file of the current user or root,
/// have a single name, and not be writable by others. Links are not followed unless the caller resolves them first with
/// ``target(of:)``. Users can therefore keep a file on a different disk, but other users cannot redirect it.
package enum PrivateFile {
    /// The reason a file or a directory cannot be used.
    package enum Failure: Error, Hashable, Sendable {
        case system(SystemError)
        case unsafe(PrivateFileProblem)

        /// The reason, as a sentence.
        package var reason: String {
            switch self {
            case .system(let error): error.text
            case .unsafe(let flaw): flaw.reason
            }
        }

        /// Returns the error in `NSPOSIXErrorDomain`, with the path of the file. Unsafe files have the code `EPERM`.
        package func error(path: String) -> NSError {
            if case .system(let error) = self { return error.error(path: path) }
            return NSError(
                domain: NSPOSIXErrorDomain, code: Int(EPERM),
                userInfo: [NSLocalizedDescriptionKey: reason, NSFilePathErrorKey: path])
        }
    }

    package static let mode: mode_t = 0o600

    // MARK: Opening

    /// Opens an existing file, without following a link and without waiting for the other end of a pipe.
    ///
    /// - Parameter flags: The access mode, for example `O_RDONLY`.
    package static func open(
        _ path: String, _ flags: Int32 = O_RDONLY, calls: FileCalls = FileCalls()
    ) throws(Failure) -> Int32 {
        var descriptor: Int32
        repeat {
            descriptor = calls.open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)
        } while descriptor < 0 && errno == EINTR
        guard descriptor >= 0 else {
            // The path names a link or a socket.
            let error = SystemError()
            if error.code == ELOOP { throw .unsafe(.link) }
            if error.code == ENXIO { throw .unsafe(.notRegularFile) }
            throw .system(error)
        }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else {
            let error = SystemError()
            _ = calls.close(descriptor)
            throw .system(error)
        }
        if let flaw = PrivateFileProblem(ofFile: facts) {
            _ = calls.close(descriptor)
            throw .unsafe(flaw)
        }
        return descriptor
    }

    /// Creates a file. Fails if it already exists.
    package static func create(
        _ path: String, _ flags: Int32 = O_WRONLY, calls: FileCalls = FileCalls()
    ) throws(Failure) -> Int32 {
        var descriptor: Int32
        repeat {
            descriptor = calls.open(path, flags | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        } while descriptor < 0 && errno == EINTR
        guard descriptor >= 0 else { throw .system(SystemError()) }
        // The umask may have removed permissions that the owner needs.
        guard calls.setMode(descriptor, mode) == 0 else {
            let error = SystemError()
            _ = calls.close(descriptor)
            _ = calls.unlink(path)
            throw .system(error)
        }
        return descriptor
    }

    /// Opens an existing file, or creates it.
    package static func openOrCreate(
        _ path: String, _ flags: Int32 = O_RDWR, calls: FileCalls = FileCalls()
    ) throws(Failure) -> Int32 {
        for _ in 0..<16 {
            do throws(Failure) {
                return try open(path, flags, calls: calls)
            } catch {
                guard case .system(let cause) = error, cause.code == ENOENT else { throw error }
            }
            do throws(Failure) {
                return try create(path, flags, calls: calls)
            } catch {
                // Another process created the file first.
                guard case .system(let cause) = error, cause.code == EEXIST else { throw error }
            }
        }
        throw .system(SystemError(code: EAGAIN))
    }

    /// Checks the file at a path without opening it for reading. (Closing an ordinary descriptor would drop this
    /// process's locks on the file.)
    ///
    /// - Returns: The identity of the file; nil if it does not exist.
    @discardableResult
    package static func examine(_ path: String) throws(Failure) -> FileIdentity? {
        let descriptor = cepoll_open_path(path, O_NOFOLLOW)
        guard descriptor >= 0 else {
            let error = SystemError()
            if error.code == ENOENT { return nil }
            throw .system(error)
        }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw .system(SystemError()) }
        if let flaw = PrivateFileProblem(ofFile: facts) { throw .unsafe(flaw) }
        return FileIdentity(descriptor)
    }

    // MARK: Replacing

    /// Replaces the contents of a file atomically by renaming a new file with a random name in the same directory, and
    /// waits until it is on disk. Follows links to the file that is replaced.
    ///
    /// - Throws: `Failure`, leaving the file unchanged.
    package static func replace(
        _ path: String, with bytes: [UInt8], calls: FileCalls = FileCalls()
    ) throws(Failure) {
        let target = try target(of: path)
        do throws(FileWritingError) {
            let writer = FileWriter(private: target, calls: calls)
            try writer.open()
            try writer.write(bytes)
            try writer.commit()
        } catch {
            throw .system(error.cause)
        }
    }

    /// Resolves a path that may be a link or a chain of links. Each link must belong to the current user or root. The
    /// target must be a regular file or must not exist, so that no device is replaced with a file.
    package static func target(of path: String) throws(Failure) -> String {
        var path = path
        for _ in 0..<40 {
            var facts = stat()
            guard lstat(path, &facts) == 0 else {
                let error = SystemError()
                if error.code == ENOENT { return path }
                throw .system(error)
            }
            guard facts.st_mode & S_IFMT == S_IFLNK else {
                guard facts.st_mode & S_IFMT == S_IFREG else { throw .unsafe(.notRegularFile) }
                return path
            }
            if let flaw = PrivateFileProblem(ofLinkAt: path) { throw .unsafe(flaw) }
            var bytes = [UInt8](repeating: 0, count: Int(PATH_MAX))
            let count = bytes.withUnsafeMutableBytes { buffer in
                buffer.baseAddress.map { readlink(path, $0.assumingMemoryBound(to: CChar.self), buffer.count) } ?? -1
            }
            guard count > 0 else { throw .system(SystemError()) }
            let next = String(decoding: bytes[..<count], as: UTF8.self)
            path = next.utf8.first == UInt8(ascii: "/") ? next : PathText.join(PathText.directory(of: path), next)
        }
        throw .system(SystemError(code: ELOOP))
    }

    // MARK: Directories

    /// Creates a directory with mode 0700, or checks an existing one: it must belong to the current user or root, and
    /// must not be writable by others.
    ///
    /// - Parameter isChosen: Whether the user has chosen the path. If true, it may also be a link that belongs to the
    ///   current user or root, or a directory with the sticky bit, for example `/tmp`.
    package static func makeDirectory(_ path: String, isChosen: Bool = false) throws(Failure) {
        if mkdir(path, 0o700) == 0 { return }
        let error = SystemError()
        guard error.code == EEXIST else { throw .system(error) }
        if isChosen, let flaw = PrivateFileProblem(ofLinkAt: path) { throw .unsafe(flaw) }
        let descriptor = cepoll_open_path(path, isChosen ? 0 : O_NOFOLLOW)
        guard descriptor >= 0 else { throw .system(SystemError()) }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw .system(SystemError()) }
        if let flaw = PrivateFileProblem(ofDirectory: facts, allowsShared: isChosen) { throw .unsafe(flaw) }
    }
}

/// The reason a file or a directory cannot be trusted: another user may have prepared it, or can change it.
package enum PrivateFileProblem: Error, Hashable, Sendable {
    /// The file belongs to neither the current user nor root.
    case otherOwner(UInt32)
    /// The group or all users can write to the file.
    case writableByOthers(mode: UInt32)
    /// The file has a second name, through which it can be changed.
    case hardLinked
    /// The path leads through a link that belongs to another user.
    case linkOfOther(UInt32)
    /// The path is itself a link.
    case link
    case notRegularFile
    case notDirectory

    /// A description of the problem, and how to fix it.
    package var reason: String {
        switch self {
        case .otherOwner(let user):
            "The file or directory belongs to another user (uid \(user)), who may have planted it. Remove it, or choose "
                + "another path."
        case .writableByOthers(let mode):
            "Other users can write to the file or directory (mode \(Self.digits(mode))). Check its contents, then run "
                + "chmod go-w."
        case .hardLinked: "The file has more than one hard link. Replace it with a copy."
        case .linkOfOther(let user): "The path leads through a symbolic link created by another user (uid \(user))."
        case .link: "The path is a symbolic link."
        case .notRegularFile: "The path does not name a regular file."
        case .notDirectory: "The path does not name a directory."
        }
    }

    private static func digits(_ mode: UInt32) -> String { "0" + String(mode & 0o7777, radix: 8) }

    // MARK: Checking

    /// Checks a file's attributes. Returns nil if the file can be trusted.
    ///
    /// - Parameter user: The user whose files are trusted, in addition to root's.
    package init?(ofFile facts: stat, user: uid_t = geteuid()) {
        guard facts.st_mode & S_IFMT == S_IFREG else {
            self = facts.st_mode & S_IFMT == S_IFLNK ? .link : .notRegularFile
            return
        }
        if let flaw = PrivateFileProblem(ofOwner: facts, user) {
            self = flaw
        } else if facts.st_mode & (S_IWGRP | S_IWOTH) != 0 {
            self = .writableByOthers(mode: UInt32(facts.st_mode))
        } else if facts.st_nlink > 1 {
            // A file that has just been removed has no names left, which is harmless.
            self = .hardLinked
        } else {
            return nil
        }
    }

    /// Checks a directory for private files. Returns nil if the directory can be trusted.
    ///
    /// - Parameter allowsShared: Whether to accept a directory like `/tmp`, to which others may write but whose entries
    ///   only their owners can rename or remove. Each entry is then checked individually.
    init?(ofDirectory facts: stat, allowsShared: Bool, user: uid_t = geteuid()) {
        guard facts.st_mode & S_IFMT == S_IFDIR else {
            self = facts.st_mode & S_IFMT == S_IFLNK ? .link : .notDirectory
            return
        }
        if let flaw = PrivateFileProblem(ofOwner: facts, user) {
            self = flaw
        } else if facts.st_mode & (S_IWGRP | S_IWOTH) != 0, !allowsShared || facts.st_mode & S_ISVTX == 0 {
            self = .writableByOthers(mode: UInt32(facts.st_mode))
        } else {
            return nil
        }
    }

    private init?(ofOwner facts: stat, _ user: uid_t) {
        guard facts.st_uid != user, facts.st_uid != 0 else { return nil }
        self = .otherOwner(facts.st_uid)
    }

    /// Checks the link at a path. Returns nil if the path is not a link, or if the link belongs to the current user or
    /// root.
    init?(ofLinkAt path: String, user: uid_t = geteuid()) {
        var facts = stat()
        guard lstat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFLNK, facts.st_uid != user, facts.st_uid != 0 else {
            return nil
        }
        self = .linkOfOther(facts.st_uid)
    }
}
