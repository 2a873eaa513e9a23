import ConvoySupport
import Foundation

/// A file that is written under another name, `NAME.part`, and gets its own when it is whole.
///
/// Nobody's file is overwritten: not one that has the name already, not one that gets it meanwhile, and not a
/// partial file of somebody else, unless `replaces` is set.
struct PartialFile {
    let path: String
    let replaces: Bool
    private var descriptor: Int32 = -1

    init(path: String, replaces: Bool) {
        self.path = path
        self.replaces = replaces
    }

    static func partialName(of name: String) -> String { name + ".part" }

    private var partial: String { Self.partialName(of: path) }
    var isOpen: Bool { descriptor >= 0 }

    /// Creates the partial file.
    mutating func create() throws(ToolError) {
        // Not through a link, and without waiting for a reader of a pipe.
        let flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
        var created = open(partial, flags | O_EXCL)
        if created < 0, errno == EEXIST {
            guard replaces else {
                throw .failure("\(shown(partial)) exists, of an interrupted or a running download; see --force")
            }
            created = open(partial, flags)
        }
        guard created >= 0 else { throw problem("cannot create", partial) }
        // Another run that was told to replace the file could be writing it, or have given it its name meanwhile.
        guard flock(created, LOCK_EX | LOCK_NB) == 0, isOurs(created) else {
            close(created)
            throw .failure("\(shown(partial)) is not a file that only this download writes")
        }
        guard ftruncate(created, 0) == 0 else {
            defer { close(created) }
            throw problem("cannot write", partial)
        }
        descriptor = created
    }

    /// Appends bytes.
    mutating func write(_ bytes: UnsafeRawBufferPointer) throws(ToolError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if count == 0 || errno != EINTR {
                throw problem("cannot write", partial)
            }
        }
    }

    /// Forgets all bytes.
    mutating func rewind() throws(ToolError) {
        guard ftruncate(descriptor, 0) == 0, lseek(descriptor, 0, SEEK_SET) == 0 else {
            throw problem("cannot write", partial)
        }
    }

    /// The file is whole: it gets its name. The partial file is gone afterwards, also when this fails.
    mutating func commit() throws(ToolError) {
        if !isOpen { try create() }
        // Does nothing once there is no descriptor any more.
        defer { discard() }
        if replaces {
            guard rename(partial, path) == 0 else { throw problem("cannot create", path) }
        } else {
            try link()
        }
        // The lock ends with the descriptor: until here no other run could take the partial file over.
        let closed = close(descriptor)
        descriptor = -1
        // Some file systems tell only now that there was no room.
        guard closed == 0 || errno == EINTR else {
            defer { unlink(path) }
            throw problem("cannot write", path)
        }
    }

    /// Removes the partial file.
    mutating func discard() {
        guard isOpen else { return }
        unlink(partial)
        close(descriptor)
        descriptor = -1
    }

    /// Whether the descriptor is a plain file that has the partial file's name and no other.
    private func isOurs(_ descriptor: Int32) -> Bool {
        var opened = stat(), named = stat()
        guard fstat(descriptor, &opened) == 0, lstat(partial, &named) == 0 else { return false }
        return opened.st_mode & S_IFMT == S_IFREG && opened.st_nlink == 1
            && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev
    }

    /// As `rename`, but never over another file: a second name, then without the first.
    private func link() throws(ToolError) {
        if Glibc.link(partial, path) == 0 {
            unlink(partial)
            return
        }
        // A file system without hard links: an empty file of ours reserves the name, and is replaced.
        guard [EPERM, EOPNOTSUPP, ENOSYS, EMLINK].contains(errno) else { throw problem("cannot create", path) }
        let placeholder = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC)
        guard placeholder >= 0 else { throw problem("cannot create", path) }
        close(placeholder)
        guard rename(partial, path) == 0 else {
            defer { unlink(path) }
            throw problem("cannot create", path)
        }
    }

    private func open(_ path: String, _ flags: Int32) -> Int32 {
        var result: Int32
        repeat { result = Glibc.open(path, flags, 0o666) } while result < 0 && errno == EINTR
        return result
    }

    private func problem(_ what: String, _ path: String) -> ToolError {
        if errno == EEXIST { return Self.exists(path) }
        return .failure("\(what) \(shown(path)): \(SystemError().text)")
    }

    private func shown(_ path: String) -> String { Printable.line(path) }

    static func exists(_ path: String) -> ToolError {
        .failure("file exists: \(Printable.line(path)); see --force")
    }
}
